//! Random histories of requests, on the real API server and on the model: after every step, the class of the response and the object are
//! equal, and at the end the lists and the events of watches.
//!
//! `WINDLASS_HISTORIES` is the number of histories (25), `WINDLASS_SEED` the seed of the first (1). `WINDLASS_LIST=1` prints all that
//! differ.

#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "a test ends by panicking")]

mod compare;
#[path = "../../../field-management/tests/against_the_api_server/connection.rs"]
mod connection;
mod converge;
#[path = "../../../field-management/tests/against_the_api_server/differences.rs"]
mod differences;
mod families;
mod generate;
mod kinds;
mod mirror;
mod pages;
mod permissions;
mod request;
mod run;
mod watches;

use windlass_testbed::{Cluster, Options};

use crate::connection::{number, shrink, stop_controllers};
use crate::families::Family;
use crate::generate::History;

/// Histories that run before their watches are compared.
const BATCH: u64 = 250;

#[test]
fn model_responds_as_the_api_server_does() {
    let cluster = Cluster::start(Options::default()).expect("a control plane");
    stop_controllers(&cluster);
    let mut bench = run::Bench::connect(cluster.kubeconfig());
    compare(
        generate::steps,
        |steps| History(steps).to_string(),
        |histories| {
            let found = bench.run(histories);
            println!("{}", bench.summary());
            found
        },
    );
}

#[test]
fn model_collects_garbage_as_the_controllers_do() {
    let cluster = Cluster::start(Options::default()).expect("a control plane");
    let mut bench = converge::Bench::connect(&cluster);
    compare(families::steps, |steps| Family(steps).to_string(), |histories| bench.run(histories));
}

/// Runs the histories of all seeds, and panics with the shortest one that differs.
fn compare<S: Clone>(
    steps: impl Fn(u64) -> Vec<S>,
    shown: impl Fn(&[S]) -> String,
    mut run: impl FnMut(&[Vec<S>]) -> Vec<Option<(usize, String)>>,
) {
    let (first, count) = (number("WINDLASS_SEED", 1), number("WINDLASS_HISTORIES", 25));
    let mut failed = Vec::new();
    for start in (first..first + count).step_by(usize::try_from(BATCH).expect("a small number")) {
        let seeds = start..(start + BATCH).min(first + count);
        let histories: Vec<_> = seeds.clone().map(&steps).collect();
        for (seed, difference) in seeds.zip(run(&histories)) {
            failed.extend(difference.map(|difference| (seed, difference)));
        }
        println!("histories {start}..: {} differences so far", failed.len());
    }
    if number("WINDLASS_LIST", 0) > 0 {
        for (seed, (step, difference)) in &failed {
            println!("--- seed {seed}\n{}in step {step}: {difference}", shown(&steps(*seed)[..=*step]));
        }
    }
    let Some((seed, difference)) = failed.first() else { return };
    let (shortest, difference) = shrink(steps(*seed), difference.clone(), &mut run);
    let seeds: Vec<_> = failed.iter().map(|(seed, _)| seed).collect();
    panic!(
        "{} histories differ: seeds {seeds:?}. Seed {seed}, with the fewest steps:\n{}\n{difference}",
        seeds.len(),
        shown(&shortest)
    );
}
