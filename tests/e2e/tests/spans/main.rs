//! Traces and metrics of the host, as a real OpenTelemetry Collector receives them.

// A test fails by a panic, and so do the functions that only tests call.
#![allow(clippy::panic, clippy::expect_used, clippy::indexing_slicing, clippy::too_many_lines)]

mod links;
mod measures;
mod operators;
mod outage;
mod reconcile;
mod sampling;

use std::collections::BTreeMap;
use std::fmt::Write;

use expect_test::Expect;
use serde_json::json;
use windlass_e2e::{Env, Host, HostOptions, TIMEOUT, guest};
use windlass_testbed::{Collector, Span, Status};

/// A cluster, and a host that sends its traces to a collector.
struct Traced {
    // Dropped before the collector: the host sends its last spans when it ends.
    host: Host,
    collector: Collector,
    env: Env,
    _files: tempfile::TempDir,
}

impl Traced {
    /// Pushes a component as a Plugin, and waits until it is live.
    #[track_caller]
    fn push_live(&self, component: &str, plugin: &str) {
        let component = guest(component);
        self.env.push_granted(&component, plugin);
        self.env.wait_live(plugin, &component);
    }
}

/// A host that exports over this protocol (`grpc` if none), with more variables.
fn traced_with(protocol: Option<&str>, more: &[(&str, &str)]) -> Traced {
    traced_after(protocol, more, |_| {})
}

fn traced(protocol: Option<&str>) -> Traced {
    traced_with(protocol, &[])
}

/// [`traced_with`]; the host starts after `prepare` has changed the collector.
fn traced_after(protocol: Option<&str>, more: &[(&str, &str)], prepare: impl FnOnce(&mut Collector)) -> Traced {
    let files = tempfile::tempdir().expect("a temporary folder");
    let mut collector = Collector::start(files.path()).expect("a collector");
    let endpoint = match protocol {
        Some(http) if http.starts_with("http") => collector.http_endpoint(),
        _ => collector.endpoint(),
    };
    prepare(&mut collector);
    let mut env = vec![
        ("OTEL_EXPORTER_OTLP_ENDPOINT".to_owned(), endpoint),
        ("OTEL_METRIC_EXPORT_INTERVAL".to_owned(), "200".to_owned()),
    ];
    env.extend(protocol.map(|protocol| ("OTEL_EXPORTER_OTLP_PROTOCOL".to_owned(), protocol.to_owned())));
    env.extend(more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    let cluster = Env::start();
    let host = cluster.start_host_with(HostOptions { env, ..HostOptions::default() });
    Traced { host, collector, env: cluster, _files: files }
}

/// The spans by their traces.
fn by_trace(spans: &[Span]) -> BTreeMap<&str, Vec<&Span>> {
    let mut traces = BTreeMap::<_, Vec<_>>::new();
    for span in spans {
        traces.entry(span.trace_id.as_str()).or_default().push(span);
    }
    traces
}

/// Whether these are all spans of the trace of a reconcile: one root, and the parent of each other span. A root is
/// exported last, because it ends last.
fn is_whole(trace: &[&Span]) -> bool {
    let roots = trace.iter().filter(|span| span.parent_span_id.is_empty());
    let has_parent =
        |span: &&Span| span.parent_span_id.is_empty() || trace.iter().any(|other| other.span_id == span.parent_span_id);
    roots.map(|root| root.name.as_str()).eq(["reconcile"]) && trace.iter().all(has_parent)
}

/// The spans of the first trace whose reconcile satisfies `wanted`, once all of them have arrived.
fn trace_of(collector: &Collector, wanted: impl Fn(&Span, &[&Span]) -> bool) -> Vec<Span> {
    let find = |spans: &[Span]| {
        // In the order of their arrival.
        let roots = spans.iter().filter(|span| span.name == "reconcile" && span.parent_span_id.is_empty());
        let traces = by_trace(spans);
        let root = roots.into_iter().find(|root| wanted(root, &traces[root.trace_id.as_str()]))?;
        Some(traces[root.trace_id.as_str()].iter().copied().cloned().collect::<Vec<_>>())
    };
    let spans = collector.wait_for_spans(TIMEOUT, |spans| find(spans).is_some()).expect("the trace arrives");
    find(&spans).expect("it is there")
}

/// The spans as a tree, each with its attributes and events. Siblings are ordered by the object that they write, if
/// any, and then by start.
fn tree(spans: &[Span]) -> String {
    let mut lines = String::new();
    below("", 0, spans, &mut lines);
    assert_eq!(lines.matches("- ").count(), spans.len(), "every span is below the root:\n{lines}\n{spans:#?}");
    lines
}

fn below(parent: &str, depth: usize, spans: &[Span], lines: &mut String) {
    let mut here: Vec<_> = spans.iter().filter(|span| span.parent_span_id == parent).collect();
    let concurrent = |span: &Span| {
        ["k8s.object.kind", "k8s.object.name"].map(|name| span.attributes.get(name).map(ToString::to_string))
    };
    here.sort_by_key(|span| (concurrent(span), span.start));
    for span in here {
        let indent = "  ".repeat(depth);
        let status = match &span.status {
            Status::Unset => String::new(),
            Status::Ok => " ok".to_owned(),
            Status::Error(message) => format!(" error: {message}"),
        };
        let _ = writeln!(lines, "{indent}- {}{status}", span.name);
        for (name, value) in &span.attributes {
            let _ = writeln!(lines, "{indent}    {name}={}", normalized(name, value));
        }
        for event in &span.events {
            let attributes: Vec<_> =
                event.attributes.iter().map(|(name, value)| format!("{name}={}", normalized(name, value))).collect();
            let _ = writeln!(lines, "{indent}    * {} {}", event.name, attributes.join(" "));
        }
        below(&span.span_id, depth + 1, spans, lines);
    }
}

/// Replaces values that differ between runs, by the name of their attribute.
fn normalized(name: &str, value: &serde_json::Value) -> String {
    let shape = match name {
        "windlass.parent.uid" => "<uid>",
        "windlass.digest" => "<digest>",
        "windlass.snapshot" => "<hash>",
        "windlass.guest_time_us" => "<µs>",
        "windlass.memory_peak" | "windlass.request_bytes" | "windlass.response_bytes" => "<bytes>",
        _ => return value.to_string(),
    };
    assert!(!value.is_null(), "{name} has no value");
    shape.to_owned()
}

fn golden(spans: &[Span], expected: &Expect) {
    expected.assert_eq(&tree(spans));
}

fn is_of(span: &Span, kind: &str) -> bool {
    span.attributes.get("windlass.parent.kind") == Some(&json!(kind))
}
