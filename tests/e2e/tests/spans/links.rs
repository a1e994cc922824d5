//! The annotation `windlass.dev/traceparent` on a parent.

use serde_json::json;
use windlass_e2e::is_done;

use crate::{trace_of, traced};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN: &str = "00f067aa0ba902b7";

#[test]
fn reconcile_of_a_parent_with_a_traceparent_links_to_that_trace_and_is_no_part_of_it() {
    let traced = traced(None);
    traced.push_live("puppets/puppet", "puppet");
    let ns = traced.env.namespace("linked");
    let apply = |name: &str, value: &str| {
        let metadata =
            json!({ "name": name, "namespace": ns.name(), "annotations": { "windlass.dev/traceparent": value } });
        let puppet = json!({
            "apiVersion": "puppets.example/v1", "kind": "Puppet", "metadata": metadata,
            "spec": { "requeueMillis": 100 },
        });
        traced.env.apply(&puppet.to_string());
        ns.puppet(name).wait(is_done);
    };
    let roots = |name: &str| {
        let is_wanted = |span: &windlass_testbed::Span| {
            span.name == "reconcile" && span.attributes.get("windlass.parent.name") == Some(&json!(name))
        };
        // Some reconciles later.
        let spans = traced
            .collector
            .wait_for_spans(windlass_e2e::TIMEOUT, |spans| spans.iter().filter(|span| is_wanted(span)).count() > 5);
        spans.expect("reconciles").into_iter().filter(is_wanted).collect::<Vec<_>>()
    };

    apply("linked", &format!("00-{TRACE}-{SPAN}-01"));
    for root in roots("linked") {
        assert_eq!(root.links, [(TRACE.to_owned(), SPAN.to_owned())]);
        assert!(root.trace_id != TRACE && root.parent_span_id.is_empty(), "{root:#?}");
    }
    let spans = trace_of(&traced.collector, |root, _| !root.links.is_empty());
    assert!(spans.iter().filter(|span| !span.links.is_empty()).map(|span| span.name.as_str()).eq(["reconcile"]));

    // An invalid value has no effect, and is reported once.
    apply("invalid", "00-abc-def-01");
    assert!(roots("invalid").iter().all(|root| root.links.is_empty()));
    let warnings = traced.env.host_log_lines("windlass.dev/traceparent");
    assert_eq!(warnings.len(), 1, "{warnings:#?}");
    assert!(warnings[0].contains(&format!("{}/invalid", ns.name())), "{warnings:#?}");
    apply("invalid", "another");
    traced.env.wait("a warning about the new value", windlass_e2e::TIMEOUT, || {
        (traced.env.host_log_lines("windlass.dev/traceparent").len() == 2).then_some(())
    });
}
