//! The same desired state gives the same object, whatever happened before: random histories of desired states, and of edits by other
//! managers, end with the object that a create of the last desired state gives.
//!
//! `WINDLASS_HISTORIES` is the number of histories, `WINDLASS_PREVIEWS` that of parents that are previewed; without it, there are 48, those
//! that once differed, and one parent of each kind of trouble. `WINDLASS_SEED` is the seed of the first (1).

// A test fails by a panic.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::print_stderr)]

mod choices;
mod compare;
mod history;
mod kinds;
mod pods;
mod previews;

use std::collections::BTreeSet;
use std::sync::{Mutex, OnceLock};

use serde_json::json;
use windlass_e2e::{Env, Namespace, guest};

use self::history::{Difference, History, Writer};
use self::previews::{Previewed, compare};

/// Histories at once.
const JOBS: usize = 4;

/// Histories that once ended with another object. A user sets a field to another value than a create gives it; a user sets a field in a map
/// that was desired as an empty one.
const HISTORIES: [u64; 2] = [5106, 5250];

/// Parents of whose children the preview once showed another object. An item of a list goes of which another manager owns a part; the host
/// leaves a user's field in a map that was desired as an empty one; an apply makes `null` of a map.
const PREVIEWS: [u64; 3] = [617, 5208, 5474];

/// The seeds to play, by the environment variable that has their number; without it, also these.
fn seeds(count: &str, always: &[u64]) -> BTreeSet<u64> {
    let variable = |name: &str| std::env::var(name).ok().and_then(|value| value.parse().ok());
    let (first, number) = (variable("WINDLASS_SEED").unwrap_or(1), variable(count));
    let always = always.iter().copied().filter(|_| number.is_none());
    (first..first + number.unwrap_or(48)).chain(always).collect()
}

/// Plays all histories, and returns the differences at their ends.
fn play(env: &Env, writer: Writer) -> Vec<(u64, Difference)> {
    let namespace = namespace(env, "convergence");
    let seeds = Mutex::new(seeds("WINDLASS_HISTORIES", &HISTORIES));
    std::thread::scope(|scope| {
        let jobs: Vec<_> = (0..JOBS)
            .map(|_| {
                scope.spawn(|| {
                    let mut differences = Vec::new();
                    loop {
                        let Some(seed) = seeds.lock().expect("no panic").pop_first() else { return differences };
                        let found = History::of(seed).play(&namespace, writer);
                        for difference in &found {
                            eprintln!("seed {seed}: {difference}");
                        }
                        differences.extend(found.into_iter().map(|difference| (seed, difference)));
                    }
                })
            })
            .collect();
        jobs.into_iter().flat_map(|job| job.join().expect("histories that end")).collect()
    })
}

/// A namespace with the Role that bindings name.
fn namespace<'e>(env: &'e Env, name: &str) -> Namespace<'e> {
    let namespace = env.namespace(name);
    env.apply(
        &json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
            "metadata": { "name": "reader", "namespace": namespace.name() },
            "rules": [{ "apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"] }],
        })
        .to_string(),
    );
    namespace
}

/// The control plane of the histories.
fn env() -> &'static Env {
    static ENV: OnceLock<Env> = OnceLock::new();
    ENV.get_or_init(start)
}

/// A control plane with the custom kinds.
fn start() -> Env {
    let env = Env::start();
    for definition in kinds::definitions() {
        env.apply(&definition.to_string());
    }
    // Admission sets this class at a create alone.
    let class = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "IngressClass",
        "metadata": { "name": "usual", "annotations": { "ingressclass.kubernetes.io/is-default-class": "true" } },
        "spec": { "controller": "convergence.example/none" },
    });
    env.apply(&class.to_string());
    env
}

#[test]
fn r21_every_history_ends_with_the_object_that_a_create_would_give() {
    let env = env();
    let _host = env.start_host();
    env.push(&guest("puppets/puppet-kinds"), "puppet-kinds", &["--grant-all-declared"]);
    env.wait_live("puppet-kinds", &guest("puppets/puppet-kinds"));
    let differences = play(env, Writer::Host);
    assert!(differences.is_empty(), "{} differences", differences.len());
}

/// The histories must be able to fail: a server-side apply alone leaves fields of former desired states behind. With
/// `WINDLASS_HISTORIES`, these are the figures in docs/comparison.md.
#[test]
fn histories_by_server_side_apply_alone_end_with_other_objects() {
    let differences = play(env(), Writer::Kubectl);
    eprintln!("by kubectl: {} differences", differences.len());
    assert!(!differences.is_empty());
}

#[test]
fn r21_diff_shows_what_the_host_then_writes() {
    let env = start();
    let host = env.start_host();
    env.push(&guest("puppets/puppet-kinds"), "puppet-kinds", &["--grant-all-declared"]);
    env.wait_live("puppet-kinds", &guest("puppets/puppet-kinds"));
    env.patch_plugin("puppet-kinds", &json!({ "adopt": true }));
    drop(host);
    let always: Vec<_> = Previewed::first_of_each_trouble().into_iter().chain(PREVIEWS).collect();
    let parents: Vec<_> = seeds("WINDLASS_PREVIEWS", &always).into_iter().map(Previewed::of).collect();
    let compared = compare(&env, &parents);
    let (differences, objects) = compared.print();
    assert!(differences * 500 <= objects, "{differences} of {objects} objects differ: at most one in 500 may");
    let is_sample = std::env::var_os("WINDLASS_PREVIEWS").is_none();
    let least = if parents.len() >= 1000 { 20 } else { usize::from(is_sample) };
    assert_eq!(compared.rarer_than(least), Vec::<String>::new());
}
