//! `OTEL_TRACES_SAMPLER`: traces are exported as a whole or not at all.

use serde_json::json;
use windlass_e2e::{Puppet, TIMEOUT, wait};
use windlass_testbed::Span;

use crate::{Traced, by_trace, is_whole, traced_with};

/// Enough reconciles that a sample of one in a hundred differs from all of them.
const RECONCILES: usize = 500;

/// A host whose parents are reconciled again and again, with this sampler.
fn sampled(sampler: &str, ratio: &str) -> Traced {
    let traced = traced_with(
        None,
        &[
            ("OTEL_TRACES_SAMPLER", sampler),
            ("OTEL_TRACES_SAMPLER_ARG", ratio),
            // Spans arrive while the parents are reconciled, not only at the end.
            ("OTEL_BSP_SCHEDULE_DELAY", "100"),
        ],
    );
    traced.push_live("puppets/puppet", "puppet");
    for number in 0..20 {
        Puppet::new(&traced.env, "Puppet", "default", &format!("p-{number}")).apply(&json!({ "requeueMillis": 100 }));
    }
    traced
}

/// The number of reconciles that have ended.
fn reconciles(traced: &Traced) -> usize {
    let text = traced.host.metrics().expect("metrics");
    let of = |line: &str| {
        let (_, count) = line.strip_prefix("controller_runtime_reconcile_total{")?.rsplit_once(' ')?;
        count.parse::<usize>().ok()
    };
    text.lines().filter_map(of).sum()
}

fn wait_reconciled(traced: &Traced) {
    wait("enough reconciles", TIMEOUT, || (reconciles(traced) >= RECONCILES).then_some(()));
}

/// Ends the host, which exports the rest, and waits until at least this many traces have arrived, each of them whole.
/// Returns their number.
#[track_caller]
fn whole_traces(traced: &Traced, at_least: usize) -> usize {
    assert!(traced.host.terminate().success());
    let are_whole = |spans: &[Span]| {
        let arrived = by_trace(spans);
        arrived.len() >= at_least && arrived.values().all(|trace| is_whole(trace))
    };
    let spans = traced.collector.wait_for_spans(TIMEOUT, are_whole).expect("whole traces, and enough of them");
    by_trace(&spans).len()
}

#[test]
fn every_reconcile_is_exported_with_the_ratio_1() {
    let traced = sampled("parentbased_traceidratio", "1");
    wait_reconciled(&traced);
    let ended = reconciles(&traced);
    whole_traces(&traced, ended);
}

#[test]
fn one_percent_of_the_reconciles_is_exported_as_whole_traces_with_the_ratio_0_01() {
    for sampler in ["traceidratio", "parentbased_traceidratio"] {
        let traced = sampled(sampler, "0.01");
        wait_reconciled(&traced);
        // However long it takes until chance selects one.
        traced.collector.wait_for_spans(TIMEOUT, |spans| !spans.is_empty()).expect("a trace arrives");
        let ended = reconciles(&traced);
        let exported = whole_traces(&traced, 1);
        assert!(exported < ended / 2, "{exported} traces of {ended} reconciles");
    }
}

#[test]
fn no_span_is_exported_with_the_ratio_0() {
    let traced = sampled("traceidratio", "0");
    wait_reconciled(&traced);
    assert_eq!(whole_traces(&traced, 0), 0);
}
