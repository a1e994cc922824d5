//! The trace of a reconcile, and the metrics, as a real OpenTelemetry Collector receives them.

// A test fails by a panic, and so do the functions that only tests call.
#![allow(clippy::panic, clippy::expect_used, clippy::indexing_slicing, clippy::too_many_lines)]

use std::fmt::Write;

use expect_test::{Expect, expect};
use serde_json::json;
use windlass_e2e::{Env, Host, HostOptions, TIMEOUT, guest, text};
use windlass_testbed::{Collector, Span, Status};

/// A cluster, and a host that sends its traces to a collector.
struct Traced {
    // Dropped before the collector: the host sends its last spans when it ends.
    host: Host,
    collector: Collector,
    env: Env,
    _files: tempfile::TempDir,
}

fn traced(protocol: Option<&str>) -> Traced {
    let files = tempfile::tempdir().expect("a temporary folder");
    let collector = Collector::start(files.path()).expect("a collector");
    let endpoint = match protocol {
        Some(http) if http.starts_with("http") => collector.http_endpoint(),
        _ => collector.endpoint(),
    };
    let mut env = vec![
        ("OTEL_EXPORTER_OTLP_ENDPOINT".to_owned(), endpoint),
        ("OTEL_METRIC_EXPORT_INTERVAL".to_owned(), "200".to_owned()),
    ];
    env.extend(protocol.map(|protocol| ("OTEL_EXPORTER_OTLP_PROTOCOL".to_owned(), protocol.to_owned())));
    let cluster = Env::start();
    let host = cluster.start_host_with(HostOptions { env, ..HostOptions::default() });
    Traced { host, collector, env: cluster, _files: files }
}

/// The spans of the first trace whose reconcile satisfies `wanted`, once all of them have arrived.
fn trace_of(collector: &Collector, wanted: impl Fn(&Span, &[&Span]) -> bool) -> Vec<Span> {
    let find = |spans: &[Span]| {
        let roots = spans.iter().filter(|span| span.name == "reconcile" && span.parent_span_id.is_empty());
        let of_trace = |root: &Span| spans.iter().filter(|span| span.trace_id == root.trace_id).collect::<Vec<_>>();
        let root = roots.into_iter().find(|root| wanted(root, &of_trace(root)))?;
        Some(of_trace(root).into_iter().cloned().collect::<Vec<_>>())
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
    let concurrent = |span: &Span| span.attributes.get("k8s.object.name").map(ToString::to_string);
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

/// The trace of the reconcile that created an Echo's Pods.
fn echo_trace(traced: &Traced) -> Vec<Span> {
    let echo = guest("echo-with-telemetry");
    traced.env.push(&echo, "echo", &[]);
    traced.env.wait_live("echo", &echo);
    let ns = traced.env.namespace("spans");
    ns.echo("web", 2, "nginx:1");
    let parent = ns.wait_settled("web");
    let spans = trace_of(&traced.collector, |root, spans| {
        is_of(root, "Echo") && spans.iter().any(|span| span.name == "create")
    });
    let root = spans.iter().find(|span| span.name == "reconcile").expect("the root");
    assert_eq!(root.attributes["windlass.parent.uid"], text(&parent, "/metadata/uid"));
    assert_eq!(root.resource["service.name"], "windlass");
    spans
}

#[test]
fn reconcile_that_creates_children_is_exported_as_one_trace_over_grpc() {
    let traced = traced(None);
    let spans = echo_trace(&traced);
    golden(
        &spans,
        &expect![[r#"
        - reconcile
            k8s.namespace.name="spans-0"
            windlass.outcome="Succeeded"
            windlass.parent.generation=1
            windlass.parent.kind="Echo"
            windlass.parent.name="web"
            windlass.parent.uid=<uid>
            windlass.plugin="echo"
            windlass.trigger="changed"
          - observe
              windlass.children=0
          - plugin.call
              echo.pods="2"
              windlass.contract="0.1.0"
              windlass.deadline_ms=1000
              windlass.digest=<digest>
              windlass.guest_time_us=<µs>
              windlass.impure=false
              windlass.memory_peak=<bytes>
              windlass.outcome="response"
              windlass.plugin="echo"
              windlass.request_bytes=<bytes>
              windlass.response_bytes=<bytes>
              windlass.snapshot=<hash>
              windlass.version="0.1.0"
              * counting Pods kind="Echo" level="INFO" name="web" namespace="spans-0" plugin="echo" target="windlass::guest"
              * pods_counted pods="2"
              * a warning for the test kind="Echo" level="WARN" name="web" namespace="spans-0" plugin="echo" target="windlass::guest"
          - plan
              windlass.creates=2
              windlass.deletes=0
              windlass.terminating=0
              windlass.updates=0
          - apply
            - create
                http.response.status_code=201
                k8s.object.kind="Pod"
                k8s.object.name="web-0"
                windlass.verb="create"
            - create
                http.response.status_code=201
                k8s.object.kind="Pod"
                k8s.object.name="web-1"
                windlass.verb="create"
          - report
              windlass.status_written=true
    "#]],
    );

    // A line of the plugin's log leads to the trace.
    let log = traced.host.log();
    let line = log.lines().find(|line| line.contains("counting Pods")).expect("the plugin's line");
    assert!(line.contains(&format!("trace_id={} span_id=", spans[0].trace_id)), "{line}");

    // The call is a child of the reconcile, and the writes are children of apply.
    let one = |name: &str| spans.iter().find(|span| span.name == name).unwrap_or_else(|| panic!("no {name}"));
    assert_eq!(one("plugin.call").parent_span_id, one("reconcile").span_id);
    assert_eq!(one("create").parent_span_id, one("apply").span_id);
    let (call, root) = (one("plugin.call"), one("reconcile"));
    assert!(root.start <= call.start && call.start <= call.end && call.end <= root.end, "{call:#?} in {root:#?}");
}

#[test]
fn reconcile_that_creates_children_is_exported_as_one_trace_over_http() {
    let traced = traced(Some("http/protobuf"));
    let spans = echo_trace(&traced);
    let mut names: Vec<_> = spans.iter().map(|span| span.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["apply", "create", "create", "observe", "plan", "plugin.call", "reconcile", "report"]);
    // Buffered spans are exported before the host ends.
    let ns = traced.env.namespace("late");
    ns.echo("last", 1, "nginx:1");
    let last = ns.wait_settled("last");
    assert!(traced.host.terminate().success());
    let uid = json!(text(&last, "/metadata/uid"));
    trace_of(&traced.collector, |root, _| root.attributes.get("windlass.parent.uid") == Some(&uid));
}

#[test]
fn span_of_a_failed_call_has_an_error_and_is_a_child_of_its_reconcile() {
    let traced = traced(Some("grpc"));
    for (plugin, kind) in [("panic", "Panic"), ("endless-loop", "EndlessLoop")] {
        let component = guest(&format!("hostile/{plugin}"));
        traced.env.push(&component, plugin, &[]);
        traced.env.wait_live(plugin, &component);
        let parent = json!({
            "apiVersion": "hostile.example/v1", "kind": kind,
            "metadata": {"name": "bad", "namespace": "default"}, "spec": {"behave": false},
        });
        traced.env.apply(&parent.to_string());
    }
    let of = |kind: &'static str| trace_of(&traced.collector, move |root, _| is_of(root, kind));
    golden(
        &of("Panic"),
        &expect![[r#"
        - reconcile
            k8s.namespace.name="default"
            windlass.outcome="Trapped"
            windlass.parent.generation=1
            windlass.parent.kind="Panic"
            windlass.parent.name="bad"
            windlass.parent.uid=<uid>
            windlass.plugin="panic"
            windlass.trigger="changed"
          - observe
              windlass.children=0
          - plugin.call error: trap: panicked at hostile/panic.rs:11:9:\nno such luck (wasm `unreachable` instruction executed)
              error.type="trap"
              windlass.contract="0.1.0"
              windlass.deadline_ms=1000
              windlass.digest=<digest>
              windlass.guest_time_us=<µs>
              windlass.impure=false
              windlass.memory_peak=<bytes>
              windlass.outcome="aborted"
              windlass.plugin="panic"
              windlass.request_bytes=<bytes>
              windlass.response_bytes=<bytes>
              windlass.snapshot=<hash>
              windlass.version="0.1.0"
              * panicked at hostile/panic.rs:11:9:\nno such luck kind="Panic" level="ERROR" name="bad" namespace="default" plugin="panic" target="windlass::guest"
          - report
              windlass.status_written=true
    "#]],
    );
    golden(
        &of("EndlessLoop"),
        &expect![[r#"
        - reconcile
            k8s.namespace.name="default"
            windlass.outcome="DeadlineExceeded"
            windlass.parent.generation=1
            windlass.parent.kind="EndlessLoop"
            windlass.parent.name="bad"
            windlass.parent.uid=<uid>
            windlass.plugin="endless-loop"
            windlass.trigger="changed"
          - observe
              windlass.children=0
          - plugin.call error: no response within 1000 ms
              error.type="deadline"
              windlass.contract="0.1.0"
              windlass.deadline_ms=1000
              windlass.digest=<digest>
              windlass.guest_time_us=<µs>
              windlass.impure=false
              windlass.memory_peak=<bytes>
              windlass.outcome="aborted"
              windlass.plugin="endless-loop"
              windlass.request_bytes=<bytes>
              windlass.response_bytes=<bytes>
              windlass.snapshot=<hash>
              windlass.version="0.1.0"
          - report
              windlass.status_written=true
    "#]],
    );
}

#[test]
fn host_without_an_otlp_endpoint_works_and_logs_no_traces() {
    let env = Env::start();
    let host = env.start_host();
    let echo = guest("echo-with-telemetry");
    env.push(&echo, "echo", &[]);
    env.wait_live("echo", &echo);
    let ns = env.namespace("untraced");
    ns.echo("web", 1, "nginx:1");
    ns.wait_settled("web");
    let log = host.log();
    assert!(log.contains("counting Pods"), "the plugin's log lines are in the host's log");
    assert!(!log.contains("├─ plugin.call"), "the log has no trace trees without --log-traces");
    assert!(host.terminate().success());
}

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
