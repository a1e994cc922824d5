//! The table of changes: what one costs for each child.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{rounded, short};
use crate::changes::Change;

/// Writes the table, if there are changes.
pub fn table(changes: &[Change], text: &mut String) {
    if changes.is_empty() {
        return;
    }
    *text += "\n## A change of a child, by what the API server has added to it\n\n\
              | child | reads | dry runs | writes | host's CPU µs | API server's CPU µs |\n|---|---|---|---|---|---|\n";
    for Change { what, reads, dry_runs, writes, host, server } in changes {
        let [reads, dry_runs, writes, host, server] = [reads, dry_runs, writes, host, server].map(|each| short(*each));
        let _ = writeln!(text, "| {what} | {reads} | {dry_runs} | {writes} | {host} | {server} |");
    }
}

/// Its object in the JSON, in microseconds.
pub fn json(change: &Change) -> Value {
    let Change { what, reads, dry_runs, writes, host, server } = change;
    let [reads, dry_runs, writes, host, server] = [reads, dry_runs, writes, host, server].map(|each| rounded(*each));
    json!({"what": what, "reads": reads, "dry_runs": dry_runs, "writes": writes, "host": host, "server": server})
}
