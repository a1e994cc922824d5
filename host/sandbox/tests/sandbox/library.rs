//! Tests what the standard libraries of the languages do in a component, with guests on the SDKs whose spec names one thing to do
//! (tests/guests/library). The table of docs/languages.md has the same rows.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};
use std::thread;

use windlass_core::contract::{CallFailure, Failure};
use windlass_sandbox::{Ambient, Component, run_here};

use crate::languages::{load, sandbox};
use crate::{limits, request};

const NOTHING_OUTSIDE: &str = ": a plugin has no network and no files";

static LIBRARIES: LazyLock<BTreeMap<&str, Arc<Component>>> = LazyLock::new(|| {
    let sandbox = &sandbox();
    thread::scope(|scope| {
        let libraries = ["go", "js", "python"].map(|language| {
            let load = move || load(sandbox, &format!("library-{language}"));
            (language, scope.spawn(load))
        });
        libraries.map(|(language, thread)| (language, thread.join().unwrap())).into()
    })
});

/// Lets a guest do one thing. The error is the message in the parent's condition.
fn done(language: &str, what: &str) -> Result<String, String> {
    let parent = format!(r#"{{"metadata":{{"name":"a","uid":"u-1"}},"spec":{{"do":"{what}"}}}}"#);
    let (request, limits) = (request(parent.as_bytes()), limits());
    match run_here(LIBRARIES[language].reconcile(&request, &limits, Ambient::now([1; 32]))).0 {
        Ok(Ok(response)) => {
            let status: serde_json::Value = serde_json::from_slice(&response.status.expect("a status")).unwrap();
            Ok(status["result"].as_str().expect("a result").to_owned())
        }
        Ok(Err(Failure::Failed(message))) => Err(message),
        Err(failure @ (CallFailure::Trap(_) | CallFailure::Exit(_) | CallFailure::UnsupportedImport(_))) => {
            Err(failure.to_string())
        }
        other => panic!("{language} {what}: {other:?}"),
    }
}

#[track_caller]
fn assert_fails(language: &str, what: &str, parts: &[&str]) {
    let message = done(language, what).expect_err("it fails");
    assert!(parts.iter().all(|part| message.contains(part)), "{language} {what}: {message}");
    assert!(!message.contains('\n'), "{language} {what}: {message}");
}

#[test]
fn standard_library_of_python_works_although_its_functions_import_modules_when_they_are_called() {
    for (what, result) in [
        ("datetime.strptime", "2026-01-02 00:00:00"),
        ("time.strptime", "2"),
        ("zone", "2026-07-01 02:00:00+02:00"),
        ("idna", "b'xn--bcher-kva.example'"),
        ("utf-16", r"b'a\x00'"),
        ("cp1252", r"b'\xe4'"),
        ("counter", "[('a', 2)]"),
        ("fraction", "3/2"),
        ("template", "a b"),
        ("url", "b\u{fc}cher.example"),
        ("warning", "None"),
        ("sleep", "None"),
        ("random", "12"),
        ("date", "02.01.2026"),
    ] {
        assert_eq!(done("python", what), Ok(result.to_owned()), "{what}");
    }
}

#[test]
fn what_a_component_in_python_does_not_have_is_named() {
    assert_fails("python", "import", &["No module named 'wave'", "import it at the top of a module of the plugin"]);
    assert_fails("python", "unknown zone", &["Europe/Nowhere", "the time zones of the package tzdata"]);
    assert_fails("python", "cp850", &["unknown encoding: cp850", "import its module of the package encodings"]);
    assert_fails("python", "file", &["FileNotFoundError", NOTHING_OUTSIDE]);
    assert_fails("python", "thread", &["can't start new thread", ": a plugin has no threads"]);
    for what in ["socket", "name"] {
        assert_fails("python", what, &["a plugin has no network"]);
    }
}

#[test]
fn what_a_component_in_go_does_not_have_is_named() {
    assert_fails("go", "file", &["open /etc/hosts: ", NOTHING_OUTSIDE]);
    for what in ["address", "name"] {
        assert_fails("go", what, &[NOTHING_OUTSIDE]);
    }
    assert_fails("go", "zone", &["unknown time zone Europe/Berlin", r#"imports _ "time/tzdata""#]);
    assert_eq!(done("go", "parse").as_deref(), Ok("2026-01-02 00:00:00 +0000 UTC"));
    assert_eq!(done("go", "sleep").as_deref(), Ok("slept"));
}

#[test]
fn end_of_a_go_program_outside_of_reconcile_has_its_message() {
    assert_fails("go", "goroutine", &["panic: no such luck"]);
    assert_fails("go", "deadlock", &["fatal error: all goroutines are asleep - deadlock!"]);
}

#[test]
fn what_a_component_in_javascript_does_not_have_is_named() {
    assert_fails("js", "fetch", &["fetch", NOTHING_OUTSIDE]);
    assert_fails("js", "intl", &["Intl is not defined"]);
    assert_fails("js", "process", &["process is not defined"]);
    assert_eq!(done("js", "date").as_deref(), Ok("2026-01-02T00:00:00.000Z"));
    // Without Intl, the engine knows no time zone but UTC, and ignores a choice of another one.
    assert_eq!(done("js", "zone").as_deref(), Ok("Thu Jan  1 00:00:00 1970"));
    // A call ends with the response: what would follow never happens.
    assert!(done("js", "timer").is_ok() && done("js", "rejected").is_ok());
}
