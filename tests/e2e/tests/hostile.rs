//! Guests that mean no good: each fails its own calls and nothing else.

// A test fails by a panic, and so do the functions that only tests call.
#![allow(clippy::panic, clippy::expect_used, clippy::indexing_slicing)]

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};
use windlass_e2e::{Env, SOON, condition, guest, shared, wait};

/// What a host makes of a hostile answer.
enum Outcome {
    /// `Ready=False` for this reason (host/core/src/names.rs), with these words in the message.
    Fails(&'static str, &'static str),
    /// The answer is good, and counts; only what the guest said beside it is cut.
    Answers,
}

use Outcome::{Answers, Fails};

/// One row for each file in tests/guests/hostile.
const GUESTS: &[(&str, Outcome)] = &[
    ("aliased-list", Fails("LimitExceeded", "answer")),
    ("deep-json", Fails("MalformedAnswer", "deep")),
    ("duplicate-keys", Fails("MalformedAnswer", "kind")),
    ("duplicate-names", Fails("RefusedAnswer", "twin")),
    ("endless-loop", Fails("DeadlineExceeded", "1")),
    ("fat-answer", Fails("LimitExceeded", "answer")),
    ("foreign-kind", Fails("RefusedAnswer", "Secret")),
    ("foreign-namespace", Fails("RefusedAnswer", "kube-system")),
    ("forged-owner", Fails("RefusedAnswer", "ownerReferences")),
    ("garbage-json", Fails("MalformedAnswer", "JSON")),
    ("huge-answer", Fails("MemoryLimit", "memory")),
    ("invalid-utf8", Fails("MalformedAnswer", "UTF-8")),
    ("log-flood", Answers),
    ("memory-bomb", Fails("MemoryLimit", "memory")),
    ("panic", Fails("Trapped", "unreachable")),
    ("sleep-in-poll", Fails("DeadlineExceeded", "1")),
    ("stack-overflow", Fails("Trapped", "stack")),
    ("too-many-children", Fails("RefusedAnswer", "1000")),
    ("trap", Fails("Trapped", "unreachable")),
];

/// `endless-loop` → `EndlessLoop`.
fn kind(guest: &str) -> String {
    let word = |word: &str| word[..1].to_uppercase() + &word[1..];
    guest.split('-').map(word).collect()
}

fn resource(guest: &str) -> String {
    format!("{}s.hostile.example", kind(guest).to_lowercase())
}

fn parents(namespace: &str, behave: bool) -> String {
    let parent = |(guest, _): &(&str, Outcome)| {
        json!({
            "apiVersion": "hostile.example/v1", "kind": kind(guest),
            "metadata": {"name": guest, "namespace": namespace},
            "spec": {"behave": behave},
        })
    };
    let items: Vec<_> = GUESTS.iter().map(parent).collect();
    json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
}

/// Waits until the host has spoken of the parent's newest generation.
#[track_caller]
fn wait_said(env: &Env, namespace: &str, guest: &str, status: &str) -> Value {
    env.wait_object(&resource(guest), namespace, guest, |parent| {
        let ready = condition(parent, "Ready");
        ready.status == status && ready.observed_generation == parent["metadata"]["generation"].as_i64()
    })
}

/// A line of /proc/<id>/status, such as `VmRSS`, in MiB.
fn memory(host: u32, line: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{host}/status")).unwrap_or_default();
    let value = status.lines().find_map(|found| found.strip_prefix(line)).unwrap_or_default();
    value.trim_matches(|c: char| !c.is_ascii_digit()).parse::<u64>().unwrap_or_default() / 1024
}

#[test]
fn every_hostile_guest_has_a_row() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../guests/hostile");
    let files = std::fs::read_dir(&folder).expect("the hostile guests");
    let stem = |path: &Path| path.file_stem().expect("a name").to_string_lossy().into_owned();
    let guests: BTreeSet<_> = files.map(|file| stem(&file.expect("an entry").path())).collect();
    let rows: BTreeSet<_> = GUESTS.iter().map(|(guest, _)| (*guest).to_owned()).collect();
    assert_eq!(guests, rows, "left: files in {}, right: rows here", folder.display());
}

#[test]
fn hostile_guests_fail_their_own_calls_and_nothing_else() {
    let shared = shared();
    let (env, host) = (&shared.env, &shared.host);
    let ns = env.namespace("hostile");
    for (name, _) in GUESTS {
        env.push(&guest(&format!("hostile/{name}")), name, &[]);
    }
    // Whether 100 MB of log take less than a second is the machine's matter, and not what is tested.
    env.kubectl(&["patch", "plugin", "log-flood", "--type=merge", "-p", r#"{"spec":{"limits":{"deadline":"1h"}}}"#]);
    // The shared host's own.
    let capped = "deadline at 60s (--max-deadline)";
    env.wait_plugin("log-flood", |plugin| condition(plugin, "Granted").message.contains(capped));
    for (name, _) in GUESTS {
        env.wait_live(name, &guest(&format!("hostile/{name}")));
    }
    let (id, rss) = (host.id(), memory(host.id(), "VmRSS:"));

    // They behave, so that there is something to lose.
    env.apply(&parents(ns.name(), true));
    let children: Vec<_> = GUESTS
        .iter()
        .map(|(name, _)| {
            wait_said(env, ns.name(), name, "True");
            ns.get("configmaps", &format!("{name}-child")).unwrap_or_else(|| panic!("{name} has no child"))
        })
        .collect();
    ns.echo("neighbour", 1, "nginx:1");
    ns.wait_settled("neighbour");

    // They misbehave, all at once, and a neighbour's work goes on meanwhile.
    let mark = env.mark();
    env.apply(&parents(ns.name(), false));
    for replicas in [3, 1, 2] {
        ns.echo("neighbour", replicas, "nginx:1");
        ns.wait_settled("neighbour");
    }
    for (name, outcome) in GUESTS {
        let Fails(reason, words) = outcome else { continue };
        let parent = wait_said(env, ns.name(), name, "False");
        let ready = condition(&parent, "Ready");
        assert_eq!(&ready.reason, reason, "{name}: {ready:?}");
        assert!(ready.message.contains(words), "{name}: {words:?} is not in {ready:?}");
        assert_eq!(parent["status"]["observedGeneration"], 1, "{name}: nothing is claimed of the failed generation");
    }
    let flooded = env.wait_object(&resource("log-flood"), ns.name(), "log-flood", |parent| {
        condition(parent, "Ready").is_true() && parent["status"]["observedGeneration"] == 2
    });
    assert_eq!(condition(&flooded, "Ready").reason, "Succeeded");
    ns.echo("neighbour", 4, "nginx:1");
    ns.wait_settled("neighbour");

    // The API server knows of nothing but statuses, the neighbour's Pods, and the children of the one good answer.
    let tried = env.host_requests(mark).attempted_writes();
    let other = tried.filter(|write| {
        let status = write.subresource == "status";
        let neighbour = write.resource == "pods" && write.name.starts_with("neighbour-");
        let flood = write.resource == "configmaps" && ["child", "log-flood-child"].contains(&write.name.as_str());
        !(status || neighbour || flood)
    });
    assert_eq!(other.to_vec(), []);
    for ((name, outcome), before) in GUESTS.iter().zip(&children) {
        if let Fails(..) = outcome {
            let now = ns.get("configmaps", &format!("{name}-child"));
            let now = now.unwrap_or_else(|| panic!("{name}: the good child is gone"));
            assert_eq!(now["metadata"]["resourceVersion"], before["metadata"]["resourceVersion"], "{name}");
        }
    }
    let log = host.log();
    assert!(log.contains("the plugin said more than is kept"), "the flood of log lines is cut, and that is said");
    assert!(log.len() < 20_000_000, "the host's log has {} bytes", log.len());
    assert!(log.contains("no such luck"), "a panic's message reaches the log");

    // Whoever behaves again is served again.
    env.apply(&parents(ns.name(), true));
    for (name, _) in GUESTS {
        let parent = wait_said(env, ns.name(), name, "True");
        assert_eq!(parent["status"]["observedGeneration"], 3, "{name}");
    }
    assert!(host.is_running() && host.id() == id, "one process from the start to the end");
    let (after, peak) = (memory(id, "VmRSS:"), memory(id, "VmHWM:"));
    eprintln!(
        "RSS of the host with {} plugins: {rss} MiB before, {after} MiB after, {peak} MiB at most",
        GUESTS.len() + 1
    );
    // Far below one huge answer (100 MB) for each guest; a build without optimisation takes more than a real one.
    assert!(peak < 1024, "{peak} MiB");
    wait("/healthz", SOON, || (host.http_status("/healthz") == Some(200)).then_some(()));
}
