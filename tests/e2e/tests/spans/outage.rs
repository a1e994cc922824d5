//! A Collector that is down or does not respond: the host reconciles, exports again when the Collector is back, and ends
//! without it.

use serde_json::json;
use windlass_testbed::Collector;

use crate::{Traced, trace_of, traced_after};

/// Creates an Echo, and waits until the host has created its Pod.
fn reconcile(traced: &Traced, name: &str) {
    let ns = traced.env.namespace("outage");
    ns.echo(name, 1, "nginx:1");
    ns.wait_settled(name);
}

/// Waits for a trace of a parent that is reconciled from now on.
fn wait_for_spans(traced: &Traced, name: &str) {
    let puppet = traced.env.namespace("outage").puppet(name);
    // Reconciled until the test ends: batches that were sent before the collector listened are lost.
    puppet.apply(&json!({ "requeueMillis": 200 }));
    trace_of(&traced.collector, |root, _| root.attributes.get("windlass.parent.name") == Some(&json!(name)));
}

fn outages(protocol: Option<&str>) {
    let stop = |collector: &mut Collector| collector.stop().expect("stopped");
    let mut traced = traced_after(protocol, &[], stop);
    traced.push_live("echo", "echo");
    traced.push_live("puppets/puppet", "puppet");
    reconcile(&traced, "before-the-collector");
    traced.collector.resume().expect("started");
    wait_for_spans(&traced, "first");
    stop(&mut traced.collector);
    reconcile(&traced, "without-the-collector");
    traced.collector.resume().expect("started");
    wait_for_spans(&traced, "second");
    traced.collector.suspend().expect("suspended");
    reconcile(&traced, "at-the-end");
    assert!(traced.host.terminate().success(), "the host ends without its collector");
    let log = traced.host.log();
    assert!(log.contains("the last telemetry was not exported in time"), "the host waits a second at most:\n{log}");
}

#[test]
fn host_reconciles_without_its_collector_and_exports_again_when_the_collector_is_back_over_grpc() {
    outages(None);
}

#[test]
fn host_reconciles_without_its_collector_and_exports_again_when_the_collector_is_back_over_http() {
    outages(Some("http/protobuf"));
}
