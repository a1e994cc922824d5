//! Tests the part of WASI that a guest gets.

use std::time::{Duration, SystemTime};

use windlass_core::contract::{CallFailure, CallReport, Note};
use windlass_sandbox::{Ambient, run_here};

use crate::guest::Guest;
use crate::{limits, load, reconcile, request};

#[test]
fn sleep_of_a_year_returns_at_once_and_advances_the_clock() {
    let guest = Guest {
        imports: r#"(import "wasi:clocks/monotonic-clock@0.2.0" "now" (func $now (result i64)))
            (import "wasi:clocks/monotonic-clock@0.2.0" "subscribe-duration" (func $after (param i64) (result i32)))
            (import "wasi:io/poll@0.2.0" "[method]pollable.block" (func $block (param i32)))
            (import "wasi:io/poll@0.2.0" "[resource-drop]pollable" (func $drop (param i32)))"#,
        // A year has some 3 * 10^16 ns.
        reconcile: "(if (i64.ge_u (call $now) (i64.const 1000000)) (then unreachable))
            (local.set $a (call $after (i64.const 31536000000000000)))
            (call $block (local.get $a)) (call $drop (local.get $a))
            (if (i64.lt_u (call $now) (i64.const 31536000000000000)) (then unreachable))",
        ..Guest::default()
    };
    // A host that really slept would not have finished, or would have met the deadline.
    let (response, report) = reconcile(&load(&guest.component()), &limits());
    assert!(response.is_ok(), "{response:?}");
    assert!(!report.impure);
}

#[test]
fn endless_timers_take_bounded_memory_of_the_host() {
    let guest = Guest {
        imports: r#"(import "wasi:clocks/monotonic-clock@0.2.0" "subscribe-duration" (func $after (param i64) (result i32)))"#,
        reconcile: "(loop (drop (call $after (i64.const 1))) (br 0))",
        ..Guest::default()
    };
    let failure = reconcile(&load(&guest.component()), &limits()).0.unwrap_err();
    assert!(failure.to_string().contains("more than 4096 WASI resources"), "{failure}");
}

fn random() -> Guest<'static> {
    Guest {
        imports: r#"(import "wasi:random/random@0.2.0" "get-random-bytes" (func $random (param i64 i32)))"#,
        reconcile: "(call $random (i64.const 32) (i32.const 2048))
            (i32.store8 (i32.const 1040) (i32.const 1))
            (i32.store (i32.const 1044) (i32.load (i32.const 2048))) (i32.store (i32.const 1048) (i32.load (i32.const 2052)))",
        ..Guest::default()
    }
}

#[test]
fn random_bytes_depend_only_on_the_seed() {
    let component = load(&random().component());
    let with = |seed| {
        let (response, report) = run_here(component.reconcile(&request(b"{}"), &limits(), Ambient::now([seed; 32])));
        assert!(!report.impure);
        response.unwrap().unwrap().status.unwrap()
    };
    assert_eq!(with(1), with(1));
    assert_ne!(with(1), with(2));
    assert_eq!(with(1).len(), 32);
}

#[test]
fn wall_clock_shows_the_start_of_the_call_and_reading_it_makes_the_call_impure() {
    let guest = Guest {
        imports: r#"(import "wasi:clocks/wall-clock@0.2.0" "now" (func $now (param i32)))"#,
        // Each read advances the clock by a microsecond: real time is not measured.
        reconcile: "(call $now (i32.const 2048))
            (if (i64.ne (i64.load (i32.const 2048)) (i64.const 1700000000)) (then unreachable))
            (if (i32.ne (i32.load (i32.const 2056)) (i32.const 1000)) (then unreachable))
            (call $now (i32.const 2048))
            (if (i32.ne (i32.load (i32.const 2056)) (i32.const 2000)) (then unreachable))",
        ..Guest::default()
    };
    let ambient = Ambient { seed: [0; 32], now: SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000) };
    let component = load(&guest.component());
    let (response, report) = run_here(component.reconcile(&request(b"{}"), &limits(), ambient));
    assert!(response.is_ok() && report.impure, "{response:?}");
}

#[test]
fn exit_is_distinguished_from_a_trap() {
    let guest = Guest {
        imports: r#"(import "wasi:cli/exit@0.2.0" "exit" (func $exit (param i32)))"#,
        reconcile: "(call $exit (i32.const 0))",
        ..Guest::default()
    };
    assert_eq!(reconcile(&load(&guest.component()), &limits()).0, Err(CallFailure::Exit(None)));
}

#[test]
fn printed_text_becomes_log_lines() {
    let guest = Guest {
        imports: r#"(import "wasi:cli/stdout@0.2.0" "get-stdout" (func $stdout (result i32)))
            (import "wasi:io/streams@0.2.0" "[method]output-stream.blocking-write-and-flush"
              (func $write (param i32 i32 i32 i32)))"#,
        fields: r#"(data (i32.const 3000) "one\0atwo")"#,
        reconcile: "(call $write (call $stdout) (i32.const 3000) (i32.const 7) (i32.const 2048))",
        ..Guest::default()
    };
    let (response, report) = reconcile(&load(&guest.component()), &limits());
    assert!(response.is_ok(), "{response:?}");
    assert_eq!(lines(&report), ["one", "two"]);
}

/// The runtimes of Python and other languages do so when they start.
#[test]
fn guest_that_requests_a_terminal_gets_none() {
    let guest = Guest {
        imports: r#"(import "wasi:cli/terminal-stdout@0.2.0" "get-terminal-stdout" (func $terminal (param i32)))"#,
        reconcile: "(i32.store8 (i32.const 2048) (i32.const 7)) (call $terminal (i32.const 2048))
            (if (i32.load8_u (i32.const 2048)) (then (unreachable)))",
        ..Guest::default()
    };
    let component = load(&guest.component());
    assert_eq!(component.surface().unsupported_imports, [""; 0]);
    assert!(reconcile(&component, &limits()).0.is_ok());
}

#[test]
fn guest_sees_no_variables_arguments_or_folders() {
    let guest = Guest {
        imports: r#"(import "wasi:cli/environment@0.2.0" "get-environment" (func $variables (param i32)))
            (import "wasi:cli/environment@0.2.0" "get-arguments" (func $arguments (param i32)))
            (import "wasi:cli/environment@0.2.0" "initial-cwd" (func $folder (param i32)))
            (import "wasi:filesystem/preopens@0.2.0" "get-directories" (func $folders (param i32)))"#,
        // Of a list, the length is its second word; of an option, the first byte says whether there is a value.
        reconcile: "(i32.store (i32.const 2052) (i32.const 7)) (call $variables (i32.const 2048))
            (if (i32.load (i32.const 2052)) (then (unreachable)))
            (i32.store (i32.const 2052) (i32.const 7)) (call $arguments (i32.const 2048))
            (if (i32.load (i32.const 2052)) (then (unreachable)))
            (i32.store8 (i32.const 2048) (i32.const 7)) (call $folder (i32.const 2048))
            (if (i32.load8_u (i32.const 2048)) (then (unreachable)))
            (i32.store (i32.const 2052) (i32.const 7)) (call $folders (i32.const 2048))
            (if (i32.load (i32.const 2052)) (then (unreachable)))",
        ..Guest::default()
    };
    let component = load(&guest.component());
    assert_eq!(component.surface().unsupported_imports, [""; 0]);
    assert!(reconcile(&component, &limits()).0.is_ok());
}

fn lines(report: &CallReport) -> Vec<&str> {
    fn line(note: &Note) -> &str {
        match note {
            Note::Log { message, .. } => message,
            other => panic!("{other:?}"),
        }
    }
    report.notes.iter().map(line).collect()
}

#[test]
fn unsupported_import_is_named_at_load_and_traps_when_called() {
    let guest = Guest {
        // With a resource of its own, and one that it shares with a supported interface.
        imports: r#"(import "wasi:http/handler@0.2.0" "open" (func $open (param i32)))
            (import "wasi:http/handler@0.2.0" "handle" (func $handle (param i32 i32)))
            (import "wasi:cli/stdout@0.2.0" "get-stdout" (func $stdout (result i32)))"#,
        reconcile: "(if (i32.gt_u (local.get $parent_len) (i32.const 2)) (then (call $open (i32.const 2048))))",
        ..Guest::default()
    };
    let component = load(&guest.component());
    assert_eq!(component.surface().unsupported_imports, ["wasi:http/handler@0.2.0"]);
    assert!(component.surface().imports.contains(&"wasi:cli/stdout@0.2.0".to_owned()));
    assert_eq!(&*component.surface().contract, "0.1.0");
    assert!(reconcile(&component, &limits()).0.is_ok());
    let failure = run_here(component.reconcile(&request(b"{  }"), &limits(), Ambient::now([0; 32]))).0;
    assert_eq!(failure, Err(CallFailure::UnsupportedImport("wasi:http/handler@0.2.0#open".into())));
}

#[test]
fn request_for_too_many_random_bytes_is_refused() {
    let guest = Guest { reconcile: "(call $random (i64.const 0x7fffffffffffffff) (i32.const 2048))", ..random() };
    let failure = reconcile(&load(&guest.component()), &limits()).0.unwrap_err();
    assert!(failure.to_string().contains("random bytes wanted"), "{failure}");
}
