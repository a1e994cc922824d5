//! The spans of reconciles, over both protocols, and of calls that fail.

use expect_test::expect;
use serde_json::json;
use windlass_e2e::{Env, condition, guest, text};
use windlass_testbed::Span;

use crate::{Traced, golden, is_of, trace_of, traced};

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
              windlass.contract="0.2.0-rc.1"
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
    let go = guest("languages/library-go");
    traced.env.push(&go, "library", &[]);
    traced.env.wait_live("library", &go);
    let library = json!({
        "apiVersion": "library.example/v1", "kind": "Library",
        "metadata": {"name": "bad", "namespace": "default"}, "spec": {"do": "panic"},
    });
    traced.env.apply(&library.to_string());
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
          - plugin.call error: trap: panicked at hostile/panic.rs:11:9: no such luck (wasm `unreachable` instruction executed)
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
              * panicked at hostile/panic.rs:11:9: no such luck kind="Panic" level="ERROR" name="bad" namespace="default" plugin="panic" target="windlass::guest"
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

    assert_exception(&traced, "panics.hostile.example", "no such luck", "no such luck");
    let says = "panic: assignment to entry in nil map (at main.count (";
    assert_exception(&traced, "libraries.library.example", says, "at main.reconcile (");
}

/// The message of a guest's exception is one line in the parent's condition, and its stack is in the log and the span.
#[track_caller]
fn assert_exception(traced: &Traced, parents: &str, says: &str, stack: &str) {
    let parent =
        traced.env.wait_object(parents, "default", "bad", |parent| !condition(parent, "Ready").message.is_empty());
    let message = condition(&parent, "Ready").message;
    assert!(message.contains(says) && !message.contains('\n'), "{message}");
    let lines = traced.env.host_log_lines(stack);
    assert!(lines.iter().any(|line| line.contains("windlass::guest") && line.contains("ERROR")), "{lines:#?}");
    let spans = trace_of(&traced.collector, |root, spans| {
        root.attributes.get("windlass.parent.name") == Some(&json!("bad"))
            && spans.iter().any(|span| format!("{:?}", span.events).contains(stack))
    });
    assert!(spans.iter().any(|span| span.name == "plugin.call"), "{spans:#?}");
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
