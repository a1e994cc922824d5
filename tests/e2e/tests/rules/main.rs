//! The reconcile rules on a real control plane, each shown by parents whose spec is a script.
//!
//! One binary for all of them, so that two control planes do for all: [`stage`], where tests live side by side, and
//! [`alone`], where one at a time may change the Plugin itself.

// A test fails by a panic, and so do the functions that only tests call.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::too_many_lines)]

mod attacks;
mod breaker;
mod children;
mod events;
mod finalize;
mod guard;
mod keep;
mod kinds;
mod memo;
mod once;
mod parents;
mod quarantine;
mod related;
mod rolling;
mod scripts;
mod stages;
mod suspend;

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use serde_json::{Value, json};
use windlass_e2e::{AuditEvents, Env, Host, HostOptions, Mark, Namespace, Puppet, TIMEOUT, windlass};

/// Where tests live side by side, each in a namespace of its own. Plugins and host are left as they are.
struct Stage {
    env: Env,
    _host: Host,
    pushed: Mutex<HashSet<&'static str>>,
}

impl Stage {
    /// The cluster, after the Plugin of this guest is live.
    #[track_caller]
    fn with(&self, plugin: &'static str) -> &Env {
        // The lock is held during the push: another test that needs the Plugin waits for it.
        let mut pushed = self.pushed.lock().unwrap_or_else(PoisonError::into_inner);
        if pushed.insert(plugin) {
            if ["puppet-rolling", "puppet-staged"].contains(&plugin) {
                scripts::serve_toys(&self.env);
            }
            self.env.push_granted(&guest(plugin), plugin);
            // Some tests make a call stall for a moment, which must not exceed the deadline on a busy machine.
            self.env.patch_plugin(plugin, &json!({ "limits": { "deadline": "10s" } }));
        }
        drop(pushed);
        self.env.wait_live(plugin, &guest(plugin));
        &self.env
    }
}

/// The stage. Its audit log contains request bodies.
#[track_caller]
fn stage() -> &'static Stage {
    static STAGE: OnceLock<Stage> = OnceLock::new();
    STAGE.get_or_init(|| {
        let env = Env::with_bodies();
        let host = env.start_host();
        Stage { env, _host: host, pushed: Mutex::default() }
    })
}

/// A namespace on the stage, where `puppet` is live.
#[track_caller]
fn puppets(name: &str) -> Namespace<'static> {
    stage().with("puppet").namespace(name)
}

/// A cluster for one test at a time, which may change the Plugin `puppet`.
struct Alone {
    env: &'static Env,
    host: &'static Host,
    _turn: MutexGuard<'static, ()>,
}

/// Waits for its turn, and begins with a Plugin `puppet` and nothing else.
#[track_caller]
fn alone() -> Alone {
    static TURN: Mutex<()> = Mutex::new(());
    static OTHER: OnceLock<(Env, Host)> = OnceLock::new();
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let (env, host) = OTHER.get_or_init(|| {
        let env = Env::start();
        // The trace trees show all reconciles, also those without a call.
        let host = env.start_host_with(HostOptions { args: vec!["--log-traces".to_owned()], ..HostOptions::default() });
        (env, host)
    });
    env.kubectl(&["delete", "plugins.windlass.dev", "--all", "--wait=true"]);
    if env.get("customresourcedefinitions", "", "puppets.puppets.example").is_some() {
        // Delete the parents that a failed test left behind.
        env.kubectl(&["delete", "puppets", "--all", "--all-namespaces", "--wait=true"]);
    }
    env.push(&guest("puppet"), "puppet", &[]);
    env.wait_live("puppet", &guest("puppet"));
    Alone { env, host, _turn: turn }
}

/// The component of a scripted guest.
fn guest(name: &str) -> PathBuf {
    windlass_e2e::guest(&format!("puppets/{name}"))
}

/// How many changes and notes `windlass diff` shows of a Plugin that have these words.
fn previewed(ns: &Namespace, plugin: &str, words: &str) -> usize {
    let mut command = windlass();
    command.arg("diff").arg(guest(plugin)).args(["-n", ns.name()]);
    command.arg("--kubeconfig").arg(ns.env().cluster().kubeconfig());
    let output = command.output().expect("windlass starts");
    [output.stdout, output.stderr].iter().map(|shown| String::from_utf8_lossy(shown).matches(words).count()).sum()
}

/// Waits until the host has handled earlier changes, as far as a test can observe it: a new parent is created and
/// becomes Ready.
#[track_caller]
fn barrier(ns: &Namespace, name: &str) {
    barrier_of(ns, "Puppet", name);
}

/// [`barrier`] for another kind of parents.
#[track_caller]
fn barrier_of(ns: &Namespace, kind: &'static str, name: &str) {
    ns.puppet_of(kind, name).play(&children([scripts::config_map("${name}", "barrier")]));
}

/// The write requests of the host for one resource, successful or not, in the order of their arrival.
#[track_caller]
fn write_attempts(ns: &Namespace, since: Mark, resource: &str) -> AuditEvents {
    let mut attempts = ns.env().host_requests(since).attempted_writes().namespace(ns.name()).resource(resource);
    attempts.0.sort_by(|one, other| one.timestamp.cmp(&other.timestamp));
    attempts
}

/// The verb and name of each request.
fn verbs(events: &AuditEvents) -> Vec<(&str, &str)> {
    events.iter().map(|event| (event.verb.as_str(), event.name.as_str())).collect()
}

/// Names of the objects of a resource that are not being deleted, sorted.
#[track_caller]
fn names(ns: &Namespace, resource: &str) -> Vec<String> {
    let objects = ns.env().list(resource, ns.name());
    let alive = objects.iter().filter(|object| object["metadata"]["deletionTimestamp"].is_null());
    let mut names: Vec<_> = alive.map(|object| windlass_e2e::text(object, "/metadata/name")).collect();
    // Every namespace has it.
    names.retain(|name| name != "kube-root-ca.crt");
    names.sort();
    names
}

/// Waits until exactly these objects of a resource are there.
#[track_caller]
fn wait_names(ns: &Namespace, resource: &str, expected: &[&str]) {
    windlass_e2e::wait(&format!("the {resource} {expected:?} in {}", ns.name()), TIMEOUT, || {
        (names(ns, resource) == expected).then_some(())
    });
}

/// The value of a `ConfigMap`; empty where there is none.
#[track_caller]
fn value(ns: &Namespace, name: &str) -> String {
    ns.get("configmaps", name).map(|map| windlass_e2e::text(&map, "/data/value")).unwrap_or_default()
}

/// The events on a parent.
#[track_caller]
fn events_of(ns: &Namespace, puppet: &Puppet) -> Vec<Value> {
    let uid = puppet.uid();
    let mut events = ns.env().list("events", ns.name());
    events.retain(|event| windlass_e2e::text(event, "/involvedObject/uid") == uid);
    events
}

/// Waits for an event on a parent.
#[track_caller]
fn wait_event(ns: &Namespace, puppet: &Puppet, wanted: impl Fn(&Value) -> bool) -> Value {
    windlass_e2e::wait("an event on the parent", TIMEOUT, || events_of(ns, puppet).into_iter().find(&wanted))
}

/// A spec of these children.
fn children(children: impl IntoIterator<Item = Value>) -> Value {
    json!({ "children": children.into_iter().collect::<Vec<_>>() })
}
