//! Random histories of writes by several managers, on the real API server and on the model: after every step, the response's class,
//! the conflicts, the object and its `managedFields`, times included, are equal.
//!
//! `WINDLASS_HISTORIES` is the number of histories (40), `WINDLASS_SEED` the seed of the first (1).

#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "a test ends by panicking")]

mod generate;
mod kinds;
mod run;

use windlass_testbed::{Cluster, Options};

use crate::generate::History;
use crate::run::{Bench, Difference};

/// Histories that make each step in the same second.
const BATCH: u64 = 250;

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

#[test]
fn model_manages_fields_as_the_api_server_does() {
    let cluster = Cluster::start(Options::default()).expect("a control plane");
    // Controllers would write, too.
    for component in ["kube-controller-manager", "kube-scheduler", "kwok"] {
        cluster.stop_component(component).expect("a component that stops");
    }
    let mut bench = Bench::connect(cluster.kubeconfig());
    let (first, count) = (number("WINDLASS_SEED", 1), number("WINDLASS_HISTORIES", 40));
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
    let (history, difference) = shrink(&mut bench, History::new(*seed), difference.clone());
    let seeds: Vec<_> = failed.iter().map(|(seed, _)| seed).collect();
    panic!(
        "{} histories differ: seeds {seeds:?}. Seed {seed}, with the fewest steps:\n{history}\n{difference}",
        seeds.len()
    );
}

/// Removes steps for as long as a difference stays: of all shorter histories at once, the shortest that still differs.
fn shrink(bench: &mut Bench, mut history: History, mut difference: Difference) -> (History, Difference) {
    history.steps.truncate(difference.step + 1);
    loop {
        let count = history.steps.len();
        let sizes = std::iter::successors(Some(1), |size| Some(size * 2)).take_while(|size| *size <= count / 2 + 1);
        let cuts = sizes.flat_map(|size| (0..count).step_by(size).map(move |start| start..(start + size).min(count)));
        let shorter: Vec<_> = cuts.map(|cut| history.without(cut)).collect();
        let found = shorter.iter().zip(bench.run(&shorter)).filter_map(|(history, found)| Some((history, found?)));
        let Some((next, found)) = found.min_by_key(|(_, found)| found.step) else { return (history, difference) };
        history = next.clone();
        history.steps.truncate(found.step + 1);
        difference = found;
    }
}
