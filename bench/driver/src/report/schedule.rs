//! Parents with one schedule: how soon after its time they are reconciled.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{rounded, short};
use crate::schedule::Schedule;

/// Writes the sentence.
pub fn table(schedule: &Schedule, text: &mut String) {
    let Schedule { parents, first, last, cpu } = schedule;
    let [first, last, cpu] = [first, last, cpu].map(|each| short(*each));
    let _ = writeln!(
        text,
        "\n## {parents} parents with one schedule\n\nThe first child exists {first} ms after the time of the schedule, the last one \
         {last} ms after it. The host's CPU time for each parent: {cpu} µs."
    );
}

/// Its object in the JSON, in milliseconds and microseconds.
pub fn json(schedule: &Schedule) -> Value {
    let Schedule { parents, first, last, cpu } = schedule;
    let [first, last, cpu] = [first, last, cpu].map(|each| rounded(*each));
    json!({"parents": parents, "first": first, "last": last, "cpu": cpu})
}
