//! Random histories of writes by several managers, on the real API server and on the model: after every step, the response's class,
//! the conflicts, the object and its `managedFields`, times included, are equal.
//!
//! `WINDLASS_HISTORIES` is the number of histories (20), `WINDLASS_SEED` the seed of the first (1).

#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "a test ends by panicking")]

mod connection;
mod differences;
mod generate;
mod kinds;
mod run;

use windlass_testbed::{Cluster, Options};

use crate::connection::{number, shrink, stop_controllers};
use crate::generate::History;
use crate::run::Bench;

/// Histories that make each step in the same second.
const BATCH: u64 = 250;

#[test]
fn model_manages_fields_as_the_api_server_does() {
    let cluster = Cluster::start(Options::default()).expect("a control plane");
    stop_controllers(&cluster);
    let mut bench = Bench::connect(cluster.kubeconfig());
    let (first, count) = (number("WINDLASS_SEED", 1), number("WINDLASS_HISTORIES", 20));
    let mut failed = Vec::new();
    for start in (first..first + count).step_by(usize::try_from(BATCH).expect("a small number")) {
        let seeds = start..(start + BATCH).min(first + count);
        let histories: Vec<_> = seeds.clone().map(History::new).collect();
        for (seed, difference) in seeds.zip(bench.run(&histories)) {
            failed.extend(difference.map(|difference| (seed, difference)));
        }
        println!("histories {start}..: {} differences so far; {}", failed.len(), bench.summary());
    }
    if number("WINDLASS_LIST", 0) > 0 {
        for (seed, difference) in &failed {
            println!("--- seed {seed}\n{}{difference}", History::new(*seed));
        }
    }
    let Some((seed, difference)) = failed.first() else { return };
    let History { kind, steps } = History::new(*seed);
    let (steps, difference) = shrink(steps, (difference.step, difference.clone()), |shorter| {
        let histories: Vec<_> = shorter.iter().map(|steps| History { kind, steps: steps.clone() }).collect();
        bench.run(&histories).into_iter().map(|found| found.map(|found| (found.step, found))).collect()
    });
    let history = History { kind, steps };
    let seeds: Vec<_> = failed.iter().map(|(seed, _)| seed).collect();
    panic!(
        "{} histories differ: seeds {seeds:?}. Seed {seed}, with the fewest steps:\n{history}\n{difference}",
        seeds.len()
    );
}
