//! The same desired state gives the same object, whatever happened before: random histories of desired states, and of edits by other
//! managers, end with the object that a create of the last desired state gives.
//!
//! `WINDLASS_HISTORIES` is the number of histories (48), `WINDLASS_SEED` the seed of the first (1).

// A test fails by a panic.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::print_stderr)]

mod compare;
mod history;
mod kinds;

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::json;
use windlass_e2e::{Env, guest};

use self::history::{Difference, History, Writer};

/// Histories at once.
const JOBS: usize = 4;

fn variable(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// Plays all histories, and returns the differences at their ends.
fn play(env: &Env, writer: Writer) -> Vec<(u64, Difference)> {
    let (first, count) = (variable("WINDLASS_SEED", 1), variable("WINDLASS_HISTORIES", 48));
    let namespace = env.namespace("convergence");
    env.apply(
        &json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
            "metadata": { "name": "reader", "namespace": namespace.name() },
            "rules": [{ "apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"] }],
        })
        .to_string(),
    );
    let next = AtomicU64::new(first);
    std::thread::scope(|scope| {
        let jobs: Vec<_> = (0..JOBS)
            .map(|_| {
                scope.spawn(|| {
                    let mut differences = Vec::new();
                    loop {
                        let seed = next.fetch_add(1, Ordering::Relaxed);
                        if seed >= first + count {
                            return differences;
                        }
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
    let env = start();
    let _host = env.start_host();
    env.push(&guest("puppets/puppet-kinds"), "puppet-kinds", &["--grant-all-declared"]);
    env.wait_live("puppet-kinds", &guest("puppets/puppet-kinds"));
    let differences = play(&env, Writer::Host);
    assert!(differences.is_empty(), "{} differences", differences.len());
}

/// For docs/comparison.md: the same histories, by `kubectl apply --server-side --force-conflicts`.
#[test]
#[ignore = "counts, and asserts nothing of Windlass"]
fn histories_by_kubectl() {
    let env = start();
    let differences = play(&env, Writer::Kubectl);
    eprintln!("{} differences", differences.len());
}
