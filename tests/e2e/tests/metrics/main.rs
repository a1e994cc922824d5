//! The metrics of the host, as Prometheus scrapes them.

// A test fails by a panic.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod monitoring;

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Mutex;
use std::thread;

use serde_json::json;
use windlass_e2e::{Env, Namespace, TIMEOUT, guest, shared, wait};
use windlass_testbed::{Prometheus, check_metrics};

/// Threads that create parents.
const CREATORS: usize = 8;

/// Expressions as dashboards for controller-runtime have them, and of the host's own metrics.
const QUERIES: [&str; 19] = [
    r#"up{job="windlass"} == 1"#,
    r#"controller_runtime_reconcile_total{controller="echo", result="success"} > 0"#,
    r#"histogram_quantile(0.99, controller_runtime_reconcile_time_seconds_bucket{controller="echo"}) > 0"#,
    r#"controller_runtime_active_workers{controller="echo"} >= 0"#,
    r#"controller_runtime_max_concurrent_reconciles{controller="echo"} > 0"#,
    r#"workqueue_depth{name="echo"} >= 0"#,
    r#"workqueue_adds_total{name="echo"} > 0"#,
    r#"workqueue_queue_duration_seconds_count{name="echo"} > 0"#,
    r#"workqueue_work_duration_seconds_sum{name="echo"} > 0"#,
    r#"workqueue_unfinished_work_seconds{name="echo"} >= 0"#,
    r#"leader_election_master_status{name="windlass"} == 1"#,
    r#"sum by (code, method) (rest_client_requests_total{code="201", method="POST"}) > 0"#,
    r#"windlass_plugin_call_seconds_count{plugin="echo"} > 0"#,
    r#"windlass_plugin_info{plugin="echo", digest=~"sha256:.+"} == 1"#,
    r#"windlass_plugin_condition{plugin="echo", type="Ready", status="True", reason="Succeeded"} == 1"#,
    r#"windlass_parents{plugin="echo", ready="true"} > 0"#,
    r#"windlass_children{plugin="echo", kind="Pod.v1"} > 0"#,
    r#"windlass_plugin_quarantined{plugin="echo"} == 0"#,
    "process_resident_memory_bytes > 0",
];

/// The names and labels of the series whose line contains `part`.
fn series(text: &str, part: &str) -> BTreeSet<String> {
    let lines = text.lines().filter(|line| !line.starts_with('#') && line.contains(part));
    lines.filter_map(|line| Some(line.rsplit_once(' ')?.0.to_owned())).collect()
}

/// The value of a series.
fn value(text: &str, series: &str) -> Option<usize> {
    text.lines().find_map(|line| line.strip_prefix(series)?.trim().parse().ok())
}

fn settled_echo(ns: &Namespace, name: &str) {
    ns.echo(name, 1, "nginx:1");
    ns.wait_settled(name);
}

#[test]
fn prometheus_gets_data_for_each_query_of_a_dashboard() {
    let ns = shared().env.namespace("scraped");
    settled_echo(&ns, "web");
    let address = wait("the address of /metrics", TIMEOUT, || shared().host.metrics_address());
    let files = tempfile::tempdir().expect("a temporary folder");
    let prometheus = Prometheus::start(files.path(), address).expect("a Prometheus server");
    for query in QUERIES {
        wait(query, TIMEOUT, || prometheus.query(query).ok().filter(|found| !found.is_empty()));
    }
}

#[test]
fn metrics_pass_the_checks_of_promtool() {
    let ns = shared().env.namespace("checked");
    settled_echo(&ns, "web");
    let text = shared().host.metrics().expect("metrics");
    check_metrics(&text).unwrap_or_else(|found| panic!("{found:#}\n{text}"));
    assert!(!text.contains("operator_"), "the names of OpenTelemetry's conventions are for OTLP alone");
}

#[test]
fn series_name_no_object_and_do_not_grow_with_a_thousand_parents() {
    let env = Env::start();
    let host = env.start_host();
    let puppet = guest("puppets/puppet");
    env.push(&puppet, "puppet", &[]);
    env.wait_live("puppet", &puppet);
    let ns = env.namespace("many");
    // All series of the host, once the parents of these numbers exist and are reconciled.
    let series_with = |numbers: Range<usize>| {
        let all = numbers.end;
        let numbers = &Mutex::new(numbers);
        let next = || numbers.lock().expect("no panic").next();
        let create = || {
            while let Some(number) = next() {
                ns.puppet(&format!("parent-{number}")).apply(&json!({}));
            }
        };
        thread::scope(|scope| {
            for _ in 0..CREATORS {
                scope.spawn(create);
            }
        });
        let parents = |text: &str| value(text, r#"windlass_parents{plugin="puppet",ready="true"}"#);
        let reconciles =
            |text: &str| value(text, r#"controller_runtime_reconcile_time_seconds_count{controller="puppet"}"#);
        let are_reconciled = |text: &String| parents(text) == Some(all) && reconciles(text) >= Some(all);
        let text = wait("the parents to be reconciled", TIMEOUT, || host.metrics().filter(are_reconciled));
        assert!(!text.contains("parent-") && !text.contains(ns.name()), "{text}");
        series(&text, "")
    };
    let few = series_with(0..10);
    let many = series_with(10..1000);
    eprintln!("series with 10 parents: {}, with 1000: {}", few.len(), many.len());
    let added: Vec<_> = many.difference(&few).collect();
    // A counter appears with its first event, for example a retry after a conflict.
    assert!(added.len() < 20, "{added:#?}");
}

#[test]
fn states_of_a_removed_plugin_are_no_longer_exported() {
    let env = Env::start();
    let host = env.start_host();
    let echo = guest("echo");
    env.push(&echo, "echo", &[]);
    env.wait_live("echo", &echo);
    let states = [
        "windlass_plugin_info{",
        "windlass_plugin_condition{",
        "windlass_plugin_quarantined{",
        "windlass_parents{",
        "windlass_children{",
        "workqueue_depth{",
    ];
    wait("the states of echo", TIMEOUT, || {
        let text = host.metrics()?;
        states.iter().all(|name| !series(&text, name).is_empty()).then_some(())
    });
    env.kubectl(&["delete", "plugin", "echo"]);
    wait("the end of the states of echo", TIMEOUT, || {
        let text = host.metrics()?;
        states.iter().all(|name| series(&text, name).is_empty()).then_some(())
    });
}
