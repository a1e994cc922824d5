//! Tests that a guest can harm its own call only.

use std::task::{Context, Poll, Waker};
use std::time::Duration;

use windlass_core::contract::{
    CallFailure, CallReport, Failure, Level, Limits, Note, Observed, Related, Request, Response,
};
use windlass_core::value::ids::Gvk;
use windlass_sandbox::{Ambient, Options, Sandbox, run_here};

use crate::guest::Guest;
use crate::{MIB, limits, load, options, reconcile, request};

fn failure_of(reconcile_body: &str, limits: &Limits) -> CallFailure {
    reconcile(&load(&Guest::doing(reconcile_body)), limits).0.unwrap_err()
}

fn soon() -> Limits {
    Limits { deadline: Duration::from_millis(50), ..Limits::default() }
}

/// Returns the parent as status.
const ECHO: &str = "(i32.store8 (i32.const 1040) (i32.const 1))
    (i32.store (i32.const 1044) (local.get $parent))
    (i32.store (i32.const 1048) (local.get $parent_len))";

#[test]
fn plugin_without_desired_children_returns_an_empty_response() {
    let component = load(&Guest::doing(""));
    assert_eq!(component.descriptor().name, "");
    assert!(component.is_pooled());
    let (response, report) = reconcile(&component, &limits());
    assert_eq!(response, Ok(Ok(Response::default())));
    assert_eq!((report.request_bytes, report.impure, report.memory_peak), (2, false, 2 * 64 * 1024));
}

#[test]
fn parent_reaches_the_guest_and_returns_as_status() {
    let component = load(&Guest::doing(ECHO));
    for parent in [&b"{\"a\":1}"[..], &vec![b'x'; 3_000_000]] {
        let (response, report) = run_here(component.reconcile(&request(parent), &limits(), Ambient::now([0; 32])));
        assert_eq!(response.unwrap().unwrap().status.as_deref(), Some(parent));
        assert_eq!(report.response_bytes, parent.len() as u64);
    }
}

#[test]
fn children_and_related_objects_reach_the_guest_in_order() {
    let observed = |kind: &str, name: &str| Observed {
        deleting: false,
        kind: Gvk::from_api_version("apps/v1", kind),
        namespace: Some("ns".into()),
        name: name.into(),
        object: name.as_bytes().into(),
    };
    // An observed object has 44 bytes: its kind's api-version at 0, name at 8, object at 36.
    let component = load(&Guest::doing(
        "(i32.store8 (i32.const 1040) (i32.const 1))
         (local.set $a (i32.load (i32.add (local.get 5) (i32.const 8))))
         (i32.store (i32.const 1044) (i32.load (local.get $a)))
         (i32.store (i32.const 1048) (i32.const 7))
         (i32.store (i32.const 1032) (i32.add (local.get 3) (i32.const 80)))
         (i32.store (i32.const 1036) (i32.const 1))",
    ));
    let request = Request {
        children: vec![observed("Deployment", "one"), observed("Deployment", "two")],
        related: vec![Related { id: "r".into(), metadata_only: false, objects: vec![observed("ReplicaSet", "three")] }],
        ..request(b"{}")
    };
    let response = run_here(component.reconcile(&request, &limits(), Ambient::now([0; 32]))).0.unwrap().unwrap();
    // The second child's object, and the api-version of the related object.
    assert_eq!(response.children, [b"two"]);
    assert_eq!(response.status.as_deref(), Some(&b"apps/v1"[..]));
}

#[test]
fn an_endless_loop_ends_at_its_deadline() {
    assert_eq!(failure_of("(loop (br 0))", &soon()), CallFailure::Deadline(soon().deadline));
}

#[test]
fn long_call_yields_once_and_continues_on_another_thread() {
    let (component, request, limits) = (load(&Guest::doing("(loop (br 0))")), request(b"{}"), soon());
    let mut call = Box::pin(component.reconcile(&request, &limits, Ambient::now([0; 32])));
    let mut context = Context::from_waker(Waker::noop());
    assert!(call.as_mut().poll(&mut context).is_pending(), "the thread is free for other work");
    let (response, _) = std::thread::scope(|scope| {
        scope
            .spawn(|| match call.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(result) => result,
                Poll::Pending => panic!("the call yields only once"),
            })
            .join()
            .unwrap()
    });
    assert_eq!(response, Err(CallFailure::Deadline(limits.deadline)));
}

#[test]
fn endless_loop_of_host_calls_ends_at_its_deadline_and_takes_bounded_memory() {
    let guest = Guest {
        imports: r#"(import "windlass:plugin/host@0.1.0" "span-attribute" (func $attribute (param i32 i32 i32 i32)))"#,
        reconcile: "(loop (call $attribute (i32.const 0) (i32.const 9) (i32.const 0) (i32.const 9)) (br 0))",
        ..Guest::default()
    };
    let (response, report) = reconcile(&load(&guest.component()), &soon());
    assert_eq!(response, Err(CallFailure::Deadline(soon().deadline)));
    assert!(report.notes.len() <= 1024 && report.notes_dropped > 0, "{} notes", report.notes.len());
}

/// The failure of a guest that does this after its response was read, where it should free the response's memory.
fn after_the_response(body: &str) -> CallFailure {
    let name = "cabi_post_windlass:plugin/reconciler@0.1.0#reconcile";
    let fields = format!(r#"(func (export "{name}") (param i32) {body})"#);
    reconcile(&load(&Guest { fields: &fields, ..Guest::default() }.component()), &soon()).0.unwrap_err()
}

#[test]
fn failure_after_the_response_was_returned_fails_the_call() {
    assert_eq!(after_the_response("(loop (br 0))"), CallFailure::Deadline(soon().deadline));
    let failure = after_the_response("unreachable");
    assert!(matches!(failure, CallFailure::Trap(_)), "{failure}");
}

#[test]
fn trap_message_contains_the_cause_and_the_functions() {
    let guest = Guest {
        fields: "(func $deep unreachable) (func $deeper (call $deep)) (func $deepest (call $deeper))",
        reconcile: "(call $deepest)",
        ..Guest::default()
    };
    let failure = reconcile(&load(&guest.component()), &limits()).0.unwrap_err();
    let message = "wasm `unreachable` instruction executed in deep < deeper < deepest".to_owned();
    assert_eq!(failure, CallFailure::Trap(message));
}

/// The field `stack` of the last log line.
fn stack(report: &CallReport) -> &str {
    let Some(Note::Log { level: Level::Error, fields, .. }) = report.notes.last() else { panic!("{report:?}") };
    let [(name, stack)] = &**fields else { panic!("{fields:?}") };
    assert_eq!(name, "stack");
    stack
}

#[test]
fn whole_stack_of_a_trap_is_logged_even_if_the_log_is_full() {
    let guest = Guest {
        fields: "(func $one unreachable) (func $two (call $one)) (func $three (call $two)) (func $four (call $three))",
        reconcile: "(call $four)",
        ..Guest::default()
    };
    let no_log = Limits { log_bytes: 0, ..limits() };
    let (_, report) = reconcile(&load(&guest.component()), &no_log);
    assert_eq!(stack(&report), "at one\nat two\nat three\nat four\nat reconcile");
}

#[test]
fn logged_stack_of_endless_recursion_has_a_bounded_length() {
    let guest = Guest { fields: "(func $down (call $down))", reconcile: "(call $down)", ..Guest::default() };
    let (_, report) = reconcile(&load(&guest.component()), &limits());
    assert_eq!(stack(&report), ["at down"; 20].join("\n"));
}

#[test]
fn last_logged_error_of_a_guest_is_quoted_in_its_trap_message() {
    let guest = Guest {
        imports: r#"(import "windlass:plugin/host@0.1.0" "log" (func $log (param i32 i32 i32 i32 i32)))"#,
        fields: r#"(data (i32.const 2048) "bo\0aom")"#,
        reconcile: "(call $log (i32.const 4) (i32.const 2048) (i32.const 5) (i32.const 0) (i32.const 0)) unreachable",
        ..Guest::default()
    };
    let failure = reconcile(&load(&guest.component()), &limits()).0.unwrap_err();
    let message = "bo om (wasm `unreachable` instruction executed".to_owned();
    assert!(matches!(&failure, CallFailure::Trap(found) if found.starts_with(&message)), "{failure}");
}

#[test]
fn a_division_by_zero_is_a_trap() {
    let failure = failure_of("(drop (i32.div_u (i32.const 1) (i32.const 0)))", &limits());
    assert!(
        matches!(&failure, CallFailure::Trap(message) if message.starts_with("integer divide by zero")),
        "{failure}"
    );
}

#[test]
fn endless_recursion_is_a_stack_overflow() {
    let guest = Guest { fields: "(func $down (call $down))", reconcile: "(call $down)", ..Guest::default() };
    assert_eq!(reconcile(&load(&guest.component()), &limits()).0, Err(CallFailure::StackOverflow));
}

#[test]
fn endless_recursion_in_realloc_for_a_host_functions_result_is_a_stack_overflow_too() {
    // Starts deep down the stack, so that less is left than wasmtime measures again.
    let guest = Guest {
        imports: r#"(import "wasi:random/random@0.2.0" "get-random-bytes" (func $random (param i64 i32)))"#,
        fields: "(global $is_down (mut i32) (i32.const 0))
            (func $for_ever (call $for_ever))
            (func $down (param $levels i32)
              (if (local.get $levels)
                (then (call $down (i32.sub (local.get $levels) (i32.const 1))))
                (else (global.set $is_down (i32.const 1)) (call $random (i64.const 1) (i32.const 2048)))))",
        realloc: "(if (global.get $is_down) (then (call $for_ever)))",
        reconcile: "(call $down (i32.const 20000))",
        ..Guest::default()
    };
    assert_eq!(reconcile(&load(&guest.component()), &limits()).0, Err(CallFailure::StackOverflow));
}

const GREEDY: &str = "(loop (br_if 0 (i32.ne (memory.grow (i32.const 16)) (i32.const -1))))";

#[test]
fn memory_bomb_is_a_memory_failure_even_if_the_guest_aborts_by_itself() {
    let failure = failure_of(&format!("{GREEDY} unreachable"), &limits());
    assert_eq!(failure, CallFailure::Memory(64 * MIB));
}

#[test]
fn guest_that_handles_refused_memory_growth_may_respond() {
    let (response, report) = reconcile(&load(&Guest::doing(GREEDY)), &limits());
    assert_eq!(response, Ok(Ok(Response::default())));
    assert!(report.memory_peak > 60 * MIB && report.memory_peak <= 64 * MIB, "{}", report.memory_peak);
}

#[test]
fn initial_memory_above_the_limit_is_a_memory_failure() {
    let limit = 64 * 1024;
    let failure = failure_of("", &Limits { memory: limit, ..limits() });
    assert_eq!(failure, CallFailure::Memory(limit));
}

/// Grows its table until growth fails, and traps if the table has fewer than this many elements. Runs on demand,
/// because the pool's slots have a limit of their own.
fn table_bomb(elements: usize) -> Vec<u8> {
    let bomb = format!(
        "(loop (br_if 0 (i32.ne (table.grow $t (ref.null func) (i32.const 1000)) (i32.const -1))))
         (if (i32.lt_u (table.size $t) (i32.const {elements})) (then unreachable))"
    );
    Guest { fields: "(table $t 1000 funcref) (memory 1) (memory 1)", reconcile: &bomb, ..Guest::default() }.component()
}

#[test]
fn tables_grow_up_to_their_limit_and_no_further() {
    let limits = Limits { table_elements: 50_000, ..limits() };
    // A multiple of the growth step, so that the table reaches the limit exactly.
    assert_eq!(reconcile(&load(&table_bomb(50_000)), &limits).0, Ok(Ok(Response::default())));
    let failure = reconcile(&load(&table_bomb(50_001)), &limits).0.unwrap_err();
    assert_eq!(failure, CallFailure::TableElements(50_000));
}

#[test]
fn initial_table_above_the_limit_is_a_table_failure() {
    let guest = Guest { fields: "(table 1000 funcref)", ..Guest::default() };
    let failure = reconcile(&load(&guest.component()), &Limits { table_elements: 999, ..limits() }).0.unwrap_err();
    assert_eq!(failure, CallFailure::TableElements(999));
}

#[test]
fn component_with_more_core_instances_than_the_limit_fails() {
    // An import causes three instances: the module, a shim and its fix-up.
    let guest = Guest {
        imports: r#"(import "wasi:random/random@0.2.0" "get-random-bytes" (func $random (param i64 i32)))"#,
        ..Guest::default()
    };
    let component = load(&guest.component());
    assert!(reconcile(&component, &Limits { instances: 3, ..limits() }).0.is_ok());
    let failure = reconcile(&component, &Limits { instances: 2, ..limits() }).0.unwrap_err();
    assert_eq!(failure, CallFailure::Instances(2));
}

#[test]
fn child_of_100_mb_makes_the_response_too_large() {
    let failure = failure_of(
        "(drop (memory.grow (i32.const 1700)))
         (i32.store (i32.const 1032) (i32.const 2048)) (i32.store (i32.const 1036) (i32.const 1))
         (i32.store (i32.const 2048) (i32.const 0)) (i32.store (i32.const 2052) (i32.const 104857600))",
        &Limits { memory: 256 * MIB, ..limits() },
    );
    assert_eq!(failure, CallFailure::ResponseTooLarge(4 * MIB));
}

#[test]
fn children_that_share_one_memory_region_are_each_counted_in_full() {
    // 4096 children, each the same 64 KiB: 256 MiB for the host.
    let guest = Guest::doing(
        "(local.set $a (i32.const 65536))
         (drop (memory.grow (i32.const 1)))
         (loop
           (i32.store (local.get $a) (i32.const 0))
           (i32.store (i32.add (local.get $a) (i32.const 4)) (i32.const 65536))
           (local.set $a (i32.add (local.get $a) (i32.const 8)))
           (br_if 0 (i32.lt_u (local.get $a) (i32.const 98304))))
         (i32.store (i32.const 1032) (i32.const 65536)) (i32.store (i32.const 1036) (i32.const 4096))",
    );
    let (response, report) = reconcile(&load(&guest), &limits());
    assert_eq!(response, Err(CallFailure::ResponseTooLarge(4 * MIB)));
    assert_eq!(report.response_bytes, 0, "the host read no byte of the response");
}

#[test]
fn response_one_byte_over_the_limit_is_too_large() {
    let component = load(&Guest::doing(ECHO));
    let limits = Limits { response_bytes: 9, ..limits() };
    assert!(run_here(component.reconcile(&request(&[b'x'; 9]), &limits, Ambient::now([0; 32]))).0.is_ok());
    let response = run_here(component.reconcile(&request(&[b'x'; 10]), &limits, Ambient::now([0; 32]))).0;
    assert_eq!(response, Err(CallFailure::ResponseTooLarge(9)));
}

#[test]
fn a_request_over_the_limit_never_reaches_the_guest() {
    let limits = Limits { request_bytes: 9, ..limits() };
    let response =
        run_here(load(&Guest::doing("unreachable")).reconcile(&request(&[b'x'; 10]), &limits, Ambient::now([0; 32]))).0;
    assert_eq!(response, Err(CallFailure::RequestTooLarge { size: 10, limit: 9 }));
}

#[test]
fn response_outside_the_guests_memory_is_malformed() {
    let failure = failure_of(
        "(i32.store (i32.const 1032) (i32.const 0x7fff0000)) (i32.store (i32.const 1036) (i32.const 1))",
        &limits(),
    );
    assert!(matches!(failure, CallFailure::Malformed(_)), "{failure}");
}

/// `err(failed(…))` with this many bytes of the message at 2048.
const FAILED: &str = "(i32.store8 (i32.const 1024) (i32.const 1)) (i32.store8 (i32.const 1032) (i32.const 2))
    (i32.store (i32.const 1040) (i32.const 2048)) (i32.store (i32.const 1044) (i32.const 4))";

#[test]
fn failure_returned_by_the_plugin_is_a_response() {
    let guest = Guest { fields: r#"(data (i32.const 2048) "oops")"#, reconcile: FAILED, ..Guest::default() };
    assert_eq!(reconcile(&load(&guest.component()), &limits()).0, Ok(Err(Failure::Failed("oops".into()))));
}

#[test]
fn text_that_is_not_utf8_is_malformed() {
    let guest = Guest { fields: r#"(data (i32.const 2048) "\ff\fe\fd\fc")"#, reconcile: FAILED, ..Guest::default() };
    let failure = reconcile(&load(&guest.component()), &limits()).0.unwrap_err();
    assert!(matches!(&failure, CallFailure::Malformed(message) if message.contains("utf-8")), "{failure}");
}

#[test]
fn notes_keep_their_order_and_fields() {
    let guest = Guest {
        imports: r#"(import "windlass:plugin/host@0.1.0" "log" (func $log (param i32 i32 i32 i32 i32)))
            (import "windlass:plugin/host@0.1.0" "measure" (func $measure (param i32 i32 f64 i32 i32)))"#,
        fields: r#"(data (i32.const 2048) "hello")"#,
        reconcile: "(call $measure (i32.const 2048) (i32.const 4) (f64.const 1.5) (i32.const 0) (i32.const 0))
            (call $log (i32.const 3) (i32.const 2048) (i32.const 5) (i32.const 0) (i32.const 0)) unreachable",
        ..Guest::default()
    };
    let (_, report) = reconcile(&load(&guest.component()), &limits());
    let measure = Note::Measure { metric: "hell".into(), value: 1.5, labels: vec![] };
    let level = Level::Warn;
    let stack = Note::Log {
        level: Level::Error,
        message: "stack of the trap".into(),
        fields: vec![("stack".into(), "at reconcile".into())],
    };
    assert_eq!(report.notes, [measure, Note::Log { level, message: "hello".into(), fields: vec![] }, stack]);
}

#[test]
fn call_keeps_log_lines_up_to_its_limit() {
    let guest = Guest {
        imports: r#"(import "windlass:plugin/host@0.1.0" "log" (func $log (param i32 i32 i32 i32 i32)))"#,
        reconcile: "(loop
            (call $log (i32.const 3) (i32.const 2048) (i32.const 36) (i32.const 0) (i32.const 0))
            (br_if 0 (i32.lt_u (local.tee $a (i32.add (local.get $a) (i32.const 1))) (i32.const 100))))",
        ..Guest::default()
    };
    let component = load(&guest.component());
    // Each line counts as its 36 bytes and 64 more.
    for (log_bytes, kept) in [(1000, 10), (100, 1), (0, 0), (64 * 1024, 100)] {
        let (response, report) = reconcile(&component, &Limits { log_bytes, ..limits() });
        assert!(response.is_ok(), "{response:?}");
        assert_eq!((report.notes.len(), report.notes_dropped), (kept, 100 - kept as u64), "{log_bytes}");
    }
}

#[test]
fn call_does_not_see_the_memory_of_an_earlier_call() {
    let component = load(&Guest::doing(
        "(i32.store8 (i32.const 1088) (i32.load8_u (i32.const 4096)))
         (i32.store8 (i32.const 4096) (i32.const 1))",
    ));
    for _ in 0..100 {
        assert!(!reconcile(&component, &limits()).0.unwrap().unwrap().finalized);
    }
}

#[test]
fn a_component_that_does_not_fit_the_pool_runs_on_demand() {
    let guest = Guest { fields: "(memory 1) (memory 1)", reconcile: ECHO, ..Guest::default() };
    let component = load(&guest.component());
    assert!(!component.is_pooled());
    assert_eq!(reconcile(&component, &limits()).0.unwrap().unwrap().status.as_deref(), Some(&b"{}"[..]));
}

#[test]
fn calls_beyond_the_pools_slots_run_on_demand_instead_of_failing() {
    let cache = tempfile::TempDir::new().unwrap();
    let sandbox = Sandbox::new(Options { call_slots: 1, ..options(&cache) }).unwrap();
    let looping = sandbox.load(&Guest::doing("(loop (br 0))")).unwrap();
    let quick = sandbox.load(&Guest::doing(ECHO)).unwrap();
    let limits = Limits { deadline: Duration::from_secs(1), ..limits() };
    std::thread::scope(|scope| {
        let loops: Vec<_> = (0..3).map(|_| scope.spawn(|| reconcile(&looping, &limits).0)).collect();
        while !loops.iter().all(std::thread::ScopedJoinHandle::is_finished) {
            assert!(reconcile(&quick, &crate::limits()).0.is_ok());
        }
        for call in loops {
            assert_eq!(call.join().unwrap(), Err(CallFailure::Deadline(limits.deadline)));
        }
    });
}
