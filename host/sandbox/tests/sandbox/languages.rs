//! Tests plugins in languages other than Rust. They are real components: each returns one ConfigMap with what it
//! observes (tests/guests/languages), or is a port of plugins/echo or plugins/myapp, on its language's SDK or, in Zig, on the
//! bare contract.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use echo::Echo;
use myapp::MyApp;
use windlass_core::contract::{CallFailure, CallReport, Failure, Level, Limits, Note, Observed, Request};
use windlass_core::value::ids::Gvk;
use windlass_sandbox::{Ambient, Component, Options, Sandbox, run_here};

use crate::golden::{assert_equivalent, component};
use crate::{compile_child, frozen, limits, request};

const LANGUAGES: [&str; 3] = ["go", "js", "python"];
const LANGUAGES_OF_ECHO: [&str; 4] = ["go", "js", "python", "zig"];
const LANGUAGES_OF_MYAPP: [&str; 2] = ["go", "python"];

/// A sandbox whose cache outlives the tests, because the components compile slowly and the engine's settings rarely
/// change. The end-to-end tests use the same folder.
pub(crate) fn sandbox() -> Sandbox {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("components");
    let describe = Limits { deadline: Duration::from_mins(1), ..Limits::default() };
    Sandbox::new(Options { compiler: compile_child(), describe, ..Options::new(cache) }).unwrap()
}

pub(crate) fn load(sandbox: &Sandbox, name: &str) -> Arc<Component> {
    sandbox.load(&component(&format!("languages/{name}"))).unwrap()
}

pub(crate) struct Loaded {
    sights: BTreeMap<&'static str, Arc<Component>>,
    echoes: BTreeMap<&'static str, Arc<Component>>,
    myapps: BTreeMap<&'static str, Arc<Component>>,
    panics: Arc<Component>,
    /// Echo of the first release. Here, because it is in the same cache.
    pub(crate) frozen: BTreeMap<&'static str, Arc<Component>>,
}

pub(crate) static LOADED: LazyLock<Loaded> = LazyLock::new(|| {
    let sandbox = &sandbox();
    // Side by side, because each compiles for half a minute if the folder is new.
    thread::scope(|scope| {
        let named = |language, name: String| (language, scope.spawn(move || load(sandbox, &name)));
        let sights = LANGUAGES.map(|language| named(language, language.to_owned()));
        let echoes = LANGUAGES_OF_ECHO.map(|language| named(language, format!("echo-{language}")));
        let myapps = LANGUAGES_OF_MYAPP.map(|language| named(language, format!("myapp-{language}")));
        let load_frozen = |language| (language, scope.spawn(move || sandbox.load(&frozen::echo(language)).unwrap()));
        let frozen = frozen::LANGUAGES.map(load_frozen);
        let (_, panics) = loaded(named("go", "library-go".to_owned()));
        Loaded {
            sights: sights.map(loaded).into(),
            echoes: echoes.map(loaded).into(),
            myapps: myapps.map(loaded).into(),
            panics,
            frozen: frozen.map(loaded).into(),
        }
    })
});

/// A component that a thread has loaded.
fn loaded<'a>((language, thread): (&'a str, ScopedJoinHandle<Arc<Component>>)) -> (&'a str, Arc<Component>) {
    (language, thread.join().unwrap())
}

/// Calls the component for a parent with this spec, and returns its only child. The seed is normally derived from the
/// snapshot.
fn call_component(component: &Component, spec: &str, seed: [u8; 32]) -> (Vec<u8>, CallReport) {
    let parent = format!(r#"{{"metadata":{{"name":"sight"}},"spec":{spec}}}"#);
    let (response, report) = run_here(component.reconcile(&request(parent.as_bytes()), &limits(), Ambient::now(seed)));
    let [child] = response.unwrap().unwrap().children.try_into().expect("one child");
    (child, report)
}

/// The guest's observations: the ConfigMap's data.
fn seen(child: &[u8]) -> BTreeMap<String, String> {
    let child: serde_json::Value = serde_json::from_slice(child).unwrap();
    assert_eq!((&child["kind"], &child["metadata"]["name"]), (&"ConfigMap".into(), &"sight-seen".into()));
    serde_json::from_value(child["data"].clone()).unwrap()
}

#[test]
fn plugin_in_every_language_loads_and_describes_itself() {
    for (language, component) in &LOADED.sights {
        assert_eq!(component.descriptor().name, *language);
        let surface = component.surface();
        assert_eq!(&*surface.contract, "0.1.0", "{language}");
        // Python's runtime imports sockets, whether or not they are used.
        let mut unknown = surface.unsupported_imports.iter();
        assert!(
            unknown.all(|name| *language == "python" && name.starts_with("wasi:sockets/")),
            "{language}: {surface:?}"
        );
        assert!(component.is_pooled(), "{language}");
    }
}

#[test]
fn same_snapshot_gives_the_same_response_in_every_language() {
    for (language, component) in &LOADED.sights {
        let (first, report) = call_component(component, "{}", [1; 32]);
        assert!(!report.impure, "{language}");
        assert_eq!(call_component(component, "{}", [1; 32]).0, first, "{language}");
        let reloaded = load(&sandbox(), language);
        assert_eq!(call_component(&reloaded, "{}", [1; 32]).0, first, "{language} after a restart");
    }
}

#[test]
fn another_snapshot_gives_other_random_numbers_in_every_language() {
    for (language, component) in &LOADED.sights {
        let random = |seed| seen(&call_component(component, "{}", [seed; 32]).0).remove("random").unwrap();
        let (one, other) = (random(1), random(2));
        // The language's ordinary random numbers, and its cryptographic ones.
        assert_eq!(one.split(' ').count(), 2);
        for (one, other) in one.split(' ').zip(other.split(' ')) {
            assert_ne!(one, other, "{language}");
        }
    }
}

#[test]
fn call_that_reads_the_wall_clock_gets_it_and_is_impure_in_every_language() {
    for (language, component) in &LOADED.sights {
        let (child, report) = call_component(component, r#"{"wallClock":true}"#, [1; 32]);
        let time = &seen(&child)["wallClock"];
        assert!(time.as_str() > "2020-01-01", "{language}: {time}");
        assert!(report.impure, "{language}");
    }
}

#[test]
fn no_language_sees_the_hosts_environment_arguments_or_files() {
    for (language, component) in &LOADED.sights {
        let seen = seen(&call_component(component, "{}", [1; 32]).0);
        for field in ["environment", "arguments", "files"] {
            assert_eq!(seen[field], "", "{language} {field}");
        }
        let elapsed: f64 = seen["elapsed"].parse().unwrap();
        assert!(elapsed > 0.0, "{language}: a guest that waits for a clock that stands still waits forever");
    }
}

#[test]
fn a_large_snapshot_is_pure_and_fits_the_default_limits_in_every_language() {
    let spec = format!(r#"{{"filler":"{}"}}"#, "x".repeat(4_000_000));
    for (language, component) in &LOADED.sights {
        let report = call_component(component, &spec, [1; 32]).1;
        assert!(!report.impure, "{language}");
    }
}

#[test]
fn gos_garbage_collector_runs_only_in_a_call_that_needs_more_than_48_mib_and_makes_it_impure() {
    // `cargo xtask bench --only languages` counts impure calls of Echo as collections: Echo itself reads no clock.
    let limits = Limits { memory: 256 << 20, request_bytes: 64 << 20, ..limits() };
    let call = |padding: usize| {
        let padding = "x".repeat(padding);
        let parent = format!(
            r#"{{"metadata":{{"name":"web","uid":"u-1","annotations":{{"padding":"{padding}"}}}},
                 "spec":{{"replicas":1,"image":"nginx:1.27"}}}}"#
        );
        let request = request(parent.as_bytes());
        let call = LOADED.echoes["go"].reconcile(&request, &limits, Ambient::now([1; 32]));
        let (response, report) = run_here(call);
        assert_eq!(response.unwrap().unwrap().children.len(), 1);
        report
    };
    let without = call(1_000_000);
    assert!(!without.impure && without.memory_peak < 48 << 20, "{without:?}");
    let with = call(30_000_000);
    assert!(with.impure && with.memory_peak > 48 << 20, "{with:?}");
}

#[test]
fn echo_responds_in_every_language_as_in_rust() {
    for (language, component) in &LOADED.echoes {
        assert_equivalent::<Echo>("echo", component, language);
    }
}

#[test]
fn myapp_responds_in_every_language_as_in_rust() {
    for (language, component) in &LOADED.myapps {
        assert_equivalent::<MyApp>("myapp", component, language);
    }
}

/// The failure of a plugin on an SDK whose code threw an exception, and the whole error line in its log.
fn thrown(component: &Component, request: &Request) -> (String, String) {
    let (response, report) = run_here(component.reconcile(request, &limits(), Ambient::now([1; 32])));
    let message = match response {
        Ok(Err(Failure::Failed(message))) | Err(CallFailure::Trap(message)) => message,
        other => panic!("{other:?}"),
    };
    let [Note::Log { level: Level::Error, message: line, fields }] = &*report.notes else { panic!("{report:?}") };
    let fields: Vec<_> = fields.iter().map(|(name, value)| format!("{name}={value}")).collect();
    (message, [&**line, &*fields.join(" ")].join(" "))
}

#[test]
fn exception_in_every_language_gives_its_message_in_one_line_and_its_stack_in_the_log() {
    let spec = br#"{"metadata":{"name":"web","uid":"u-1"},"spec":{"replicas":1,"image":"nginx:1.27"}}"#;
    // No host sends such a Pod, and no plugin expects it.
    let pod = Observed {
        deleting: false,
        kind: Gvk::from_api_version("v1", "Pod"),
        namespace: Some("default".into()),
        name: "web-0".into(),
        object: b"no JSON".as_slice().into(),
    };
    let on_echo = Request { children: vec![pod], ..request(spec) };
    let on_library = request(br#"{"metadata":{"name":"a"},"spec":{"do":"panic"}}"#);
    let says_go = "panic: assignment to entry in nil map (at main.count (";
    for (language, component, request, says, place) in [
        ("go", &LOADED.panics, &on_library, says_go, "at main.reconcile ("),
        ("js", &LOADED.echoes["js"], &on_echo, "SyntaxError: ", "reconcile"),
        ("python", &LOADED.echoes["python"], &on_echo, "JSONDecodeError: ", "echo.py"),
    ] {
        let (message, line) = thrown(component, request);
        assert!(message.starts_with(says) && !message.contains('\n'), "{language}: {message}");
        let says = says.trim_end_matches(" (at main.count (");
        assert!(line.contains(says) && line.contains(place), "{language}: {line}");
    }
    let panics = sandbox().load(&component("hostile/panic")).unwrap();
    let (message, line) = thrown(&panics, &request(b"{}"));
    assert_eq!(message, "panicked at hostile/panic.rs:11:9: no such luck (wasm `unreachable` instruction executed)");
    assert!(line.contains("hostile/panic.rs:11:9"), "{line}");
}
