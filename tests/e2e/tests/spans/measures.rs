//! The metrics of plugins and of the host, as the Collector receives them.

use serde_json::json;
use windlass_e2e::{TIMEOUT, guest};

use crate::traced;

/// The metrics of a plugin arrive under its name, together with the host's metrics about the plugin.
fn assert_metrics_arrive(protocol: Option<&str>) {
    let traced = traced(protocol);
    let application = guest("application");
    traced.env.push(&application, "application", &[]);
    traced.env.wait_live("application", &application);
    let ns = traced.env.namespace("measured");
    let portal = json!({
        "apiVersion": "apps.example.com/v1alpha1",
        "kind": "Application",
        "metadata": { "name": "portal", "namespace": ns.name() },
        "spec": { "image": "nginx:1.27", "replicas": 2, "resources": { "requests": { "cpu": "250m" } } },
    });
    traced.env.apply(&portal.to_string());
    // The last state of a series: the Collector records every state that it receives.
    let last = |name: &str, attribute: &str, value: &str| {
        let metrics = traced.collector.metrics().expect("metrics");
        let mut points = metrics.into_iter().filter(|metric| metric.name == name).flat_map(|metric| metric.points);
        points.rfind(|(attributes, _)| attributes.get(attribute) == Some(&json!(value)))
    };
    let arrives = |name: &str, attribute: &str, value: &str, wanted: &dyn Fn(&serde_json::Value) -> bool| {
        traced.env.wait(name, TIMEOUT, || last(name, attribute, value).filter(|(_, point)| wanted(point))).0
    };
    let cpu = "application_requested_cpu_cores";
    let labels = arrives(cpu, "name", "portal", &|point| point["asDouble"] == 0.5);
    assert_eq!(labels.get("namespace"), Some(&json!(ns.name())));
    arrives("application_reconciles_total", "phase", "Running", &|point| point["asDouble"].as_f64() >= Some(1.0));
    let is_counted = |point: &serde_json::Value| point["count"].as_str() != Some("0");
    arrives("operator.reconcile_duration", "windlass.plugin", "application", &is_counted);
    assert!(traced.host.terminate().success(), "SIGTERM ends the host with exit code 0");
}

#[test]
fn metrics_of_plugin_and_host_arrive_over_grpc() {
    assert_metrics_arrive(None);
}

#[test]
fn metrics_of_plugin_and_host_arrive_over_http() {
    assert_metrics_arrive(Some("http/protobuf"));
}
