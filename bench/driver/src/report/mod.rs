//! Turns figures into the table for readers and the JSON for scripts.

mod changes;
mod churn;
mod goals;
mod languages;
pub mod plots;
mod schedule;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use crate::changes::Change;
use crate::churn::Churn;
use crate::contestant::Contestant;
use crate::failover::Failover;
use crate::languages::Language;
use crate::neighbours::{Hostile, Latency, Neighbours};
use crate::process::as_float;
use crate::scale::{Resync, Scale};
use crate::schedule::Schedule;
use crate::settings::CHILDREN;
use crate::shards::{self, COLUMNS, Turn};
use crate::starts::Starts;
use crate::work::Round;

/// Bytes in a megabyte.
const MB: f64 = 1_000_000.0;

/// All figures of a run; the missing ones were not measured.
#[derive(Debug, Default)]
pub struct Figures {
    /// Works A and B: for each round, the figures of each contestant.
    pub rounds: Vec<BTreeMap<Contestant, Round>>,
    /// P11.
    pub neighbours: Neighbours,
    /// R19.
    pub hostile: Vec<Hostile>,
    /// P7, P9.
    pub scale: Option<Scale>,
    /// P10.
    pub starts: Option<Starts>,
    /// P12.
    pub failover: Option<Failover>,
    /// The memory under churn.
    pub churn: Option<Churn>,
    /// Parents with one schedule.
    pub schedule: Option<Schedule>,
    /// Changes of children.
    pub changes: Vec<Change>,
    /// For each round, the turn of each number of hosts that share the parents.
    pub shards: Vec<BTreeMap<usize, Turn>>,
    /// The same plugins in several languages.
    pub languages: Vec<Language>,
    /// P6.
    pub no_ops: Option<Resync>,
    /// P5: median and p99 of a call, in microseconds.
    pub call: Option<[f64; 2]>,
    /// Further notes for the reader: the missing contestants, and why they are missing.
    pub notes: Vec<String>,
}

impl Figures {
    /// The figures of a goal; none, and a note, if they could not be measured.
    pub fn or_note<T>(&mut self, goal: &str, measured: anyhow::Result<T>, say: &dyn Fn(&str)) -> Option<T> {
        match measured {
            Ok(figures) => Some(figures),
            Err(error) => {
                let text = format!("{goal} is missing: {error:#}");
                say(&text);
                self.notes.push(text);
                None
            }
        }
    }

    /// The object that `--json` writes.
    pub fn json(&self, machine: &str, date: &str) -> Value {
        let mut all = Map::new();
        for line in self.lines() {
            let peers: Map<_, _> =
                line.peers.iter().map(|(name, figure)| ((*name).to_owned(), json!(rounded(*figure)))).collect();
            all.insert(
                line.key.to_owned(),
                json!({
                    "measure": line.measure,
                    "unit": line.unit,
                    "windlass": rounded(line.windlass),
                    "limit": line.limit.map(rounded),
                    "peers": peers,
                    "ratio": line.ratio.map(rounded),
                    "goal": line.goal,
                    "met": line.met,
                }),
            );
        }
        if let Some(churn) = &self.churn {
            all.insert("churn".to_owned(), churn::json(churn));
        }
        if let Some(schedule) = &self.schedule {
            all.insert("schedule".to_owned(), schedule::json(schedule));
        }
        if !self.changes.is_empty() {
            all.insert("changes".to_owned(), self.changes.iter().map(changes::json).collect());
        }
        if !self.shards.is_empty() {
            all.insert("shards".to_owned(), self.shards_json());
        }
        if !self.languages.is_empty() {
            all.insert("languages".to_owned(), self.languages.iter().map(languages::json).collect());
        }
        all.insert("machine".to_owned(), json!(machine));
        all.insert("date".to_owned(), json!(date));
        Value::Object(all)
    }

    /// The report for readers, in Markdown, with the figures of every round.
    pub fn markdown(&self, machine: &str, date: &str) -> String {
        let mut text = format!("# Bench of {date}\n\nMachine: {machine}.\n\n");
        let lines = self.lines();
        if !lines.is_empty() {
            text += "| # | measure | unit | Windlass | limit | peers | ratio | goal | met |\n|---|---|---|---|---|---|---|---|---|\n";
        }
        for line in lines {
            let peers: Vec<_> = line.peers.iter().map(|(name, figure)| format!("{name} {}", short(*figure))).collect();
            let _ = writeln!(
                text,
                "| {} | {} | {} | **{}** | {} | {} | {} | {} | {} |",
                line.key.to_uppercase(),
                line.measure,
                line.unit,
                short(line.windlass),
                line.limit.map_or(String::new(), short),
                peers.join(", "),
                line.ratio.map_or(String::new(), |ratio| format!("{ratio:.2}")),
                line.goal,
                if line.met { "yes" } else { "**no**" },
            );
        }
        if !self.rounds.is_empty() {
            self.rounds_table(&mut text);
        }
        self.scale_table(&mut text);
        self.hostile_table(&mut text);
        if let Some(churn) = &self.churn {
            churn::table(churn, &mut text);
        }
        if let Some(schedule) = &self.schedule {
            schedule::table(schedule, &mut text);
        }
        changes::table(&self.changes, &mut text);
        self.shards_table(&mut text);
        languages::table(&self.languages, &mut text);
        for note in &self.notes {
            let _ = writeln!(text, "\nNote: {note}.");
        }
        text
    }

    fn rounds_table(&self, text: &mut String) {
        *text += "\n## Works A and B, every round\n\n| round | contestant | writes/s | CPU s | CPU µs/write | API server's CPU µs/write | RSS MB | PSS MB | anonymous MB | start → first write ms | B p50 ms | B p99 ms | second change p50 ms |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|\n";
        for (number, round) in self.rounds.iter().enumerate() {
            for (contestant, round) in round {
                let mb = |bytes: u64| as_float(bytes) / MB;
                let _ = writeln!(
                    text,
                    "| {} | {} | {:.0} | {:.2} | {:.0} | {:.0} | {:.1} | {:.1} | {:.1} | {:.0} | {:.1} | {:.1} | {:.1} |",
                    number + 1,
                    contestant.name(),
                    round.writes_per_second,
                    round.cpu,
                    round.cpu / as_float(round.writes as u64) * 1e6,
                    round.server_cpu / as_float(round.writes as u64) * 1e6,
                    mb(round.memory.rss),
                    mb(round.memory.pss),
                    mb(round.memory.anonymous),
                    round.first_write,
                    round.p50,
                    round.p99,
                    round.again,
                );
            }
        }
    }

    fn scale_table(&self, text: &mut String) {
        let mut rows = Vec::new();
        if let Some(Scale { idle, sizes, restarted }) = &self.scale {
            rows.extend(idle.iter().map(|idle| {
                (format!("{}, idle", idle.contestant.name()), idle.memory, format!("{:.3} % CPU", idle.cpu))
            }));
            rows.extend(sizes.iter().map(|size| {
                let objects = format!("objects of {:.1} MB", as_float(size.bytes) / MB);
                (format!("windlass, {} parents with 1 child", size.parents), size.memory, objects)
            }));
            rows.push(("windlass, restarted with all converged".to_owned(), *restarted, String::new()));
        }
        if let Some(starts) = &self.starts {
            rows.push((format!("windlass, {} plugins, idle", starts.plugins), starts.idle, String::new()));
        }
        if let Some(failover) = &self.failover {
            rows.push((
                format!("windlass, standing by, {} parents", failover.parents),
                failover.standby,
                String::new(),
            ));
        }
        if rows.is_empty() {
            return;
        }
        *text += "\n## Idle processes and converged parents\n\n| process | RSS MB | anonymous MB | peak MB | also |\n|---|---|---|---|---|\n";
        for (what, memory, beside) in rows {
            let mb = |bytes: u64| as_float(bytes) / MB;
            let (rss, anonymous, peak) = (mb(memory.rss), mb(memory.anonymous), mb(memory.peak));
            let _ = writeln!(text, "| {what} | {rss:.1} | {anonymous:.1} | {peak:.1} | {beside} |");
        }
    }

    fn hostile_table(&self, text: &mut String) {
        if self.hostile.is_empty() {
            return;
        }
        *text += "\n## Work B and hostile plugins, p50 / p99 in ms\n\n| a plugin that | cores used | before | meanwhile | next to an outside process that uses as much CPU time | after |\n|---|---|---|---|---|---|\n";
        for Hostile { what, before, beside, after } in &self.hostile {
            let of = |latency: &Latency| format!("{:.1} / {:.1}", latency.p50, latency.p99);
            let (before, after) = (of(before), of(after));
            let (meanwhile, outside) = (of(&beside.neighbour), of(&beside.outside));
            let _ = writeln!(text, "| {what} | {:.2} | {before} | {meanwhile} | {outside} | {after} |", beside.cores);
        }
    }

    fn shards_table(&self, text: &mut String) {
        let Some(turn) = self.shards.iter().flat_map(BTreeMap::values).next() else { return };
        let titles: Vec<_> = COLUMNS.iter().map(|(title, _)| *title).collect();
        let _ = write!(
            text,
            "\n## One to three hosts share {} parents with {CHILDREN} children, all of which are changed\n\n\
             | hosts | round | {} | CPU s of each host |\n|---|---|{}---|\n",
            turn.parents,
            titles.join(" | "),
            "---|".repeat(titles.len()),
        );
        for hosts in 1..=shards::MOST {
            for (number, round) in self.shards.iter().enumerate() {
                let Some((turn, figures)) = shards::figures(round, hosts) else { continue };
                let figures = figures.map(short).join(" | ");
                let each: Vec<_> = turn.hosts.iter().map(|cpu| format!("{cpu:.2}")).collect();
                let _ = writeln!(text, "| {hosts} | {} | {figures} | {} |", number + 1, each.join(" + "));
            }
            if let Some(medians) = shards::medians(&self.shards, hosts) {
                let medians = medians.map(|figure| format!("**{}**", short(figure))).join(" | ");
                let _ = writeln!(text, "| {hosts} | **median** | {medians} | |");
            }
        }
    }

    fn shards_json(&self) -> Value {
        let all = (1..=shards::MOST).filter_map(|hosts| {
            let medians = shards::medians(&self.shards, hosts)?;
            let figures =
                COLUMNS.iter().zip(medians).map(|((_, key), figure)| ((*key).to_owned(), json!(rounded(figure))));
            Some(Value::Object(std::iter::once(("hosts".to_owned(), json!(hosts))).chain(figures).collect()))
        });
        all.collect()
    }
}

/// Four digits: more would be noise.
fn rounded(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}

fn short(value: f64) -> String {
    let value = rounded(value);
    if value >= 100.0 {
        format!("{value:.0}")
    } else if value >= 10.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::Memory;

    fn round(writes_per_second: f64, cpu: f64) -> Round {
        let memory = Memory { rss: 20_000_000, ..Memory::default() };
        Round {
            writes_per_second,
            cpu,
            server_cpu: 2.0,
            writes: 1000,
            memory,
            first_write: 1.0,
            p50: 10.0,
            p99: 20.0,
            again: 9.0,
        }
    }

    #[test]
    fn ratio_is_the_median_of_the_rounds_ratios_and_the_json_has_the_fields_that_scripts_read() {
        let of = |windlass: f64, raw: f64, peer: f64| {
            BTreeMap::from([
                (Contestant::Windlass, round(windlass, 1.0)),
                (Contestant::Raw, round(raw, 0.5)),
                (Contestant::ControllerRuntime, round(peer, 4.0)),
            ])
        };
        let figures = Figures {
            rounds: vec![of(95.0, 100.0, 50.0), of(50.0, 50.0, 25.0), of(9.0, 10.0, 6.0)],
            ..Figures::default()
        };
        let json = figures.json("two cores", "2026-01-01");
        let keys: Vec<_> = json.as_object().expect("an object").keys().cloned().collect();
        assert_eq!(keys, ["date", "machine", "p1", "p2", "p3", "p4"]);
        let p1 = &json["p1"];
        assert_eq!((&p1["windlass"], &p1["limit"], &p1["ratio"]), (&json!(50.0), &json!(50.0), &json!(0.95)));
        assert_eq!(p1["peers"], json!({"controller-runtime": 25.0}));
        assert_eq!(p1["met"], json!(true));
        let mut fields: Vec<_> = p1.as_object().expect("an object").keys().map(String::as_str).collect();
        fields.sort_unstable();
        assert_eq!(fields, ["goal", "limit", "measure", "met", "peers", "ratio", "unit", "windlass"]);
        assert_eq!(json["p2"]["ratio"], json!(0.25));
        assert!(figures.markdown("two cores", "2026-01-01").contains("| P1 |"));
    }

    #[test]
    fn figures_of_shards_are_medians_and_relative_to_one_host_in_the_same_round() {
        let turn = |seconds: f64, hosts: &[f64]| Turn {
            parents: 1000,
            seconds,
            changing: 1.0,
            hosts: hosts.to_vec(),
            server: 5.0,
            etcd: 2.0,
        };
        let round = |one: f64, two: f64| BTreeMap::from([(1, turn(one, &[4.0])), (2, turn(two, &[2.5, 2.0]))]);
        let figures =
            Figures { shards: vec![round(10.0, 5.0), round(20.0, 20.0), round(40.0, 10.0)], ..Figures::default() };
        let json = &figures.json("two cores", "2026-01-01")["shards"];
        assert_eq!((&json[0]["hosts"], &json[0]["parents_per_second"]), (&json!(1), &json!(50.0)));
        assert_eq!((&json[1]["parents_per_second"], &json[1]["ratio"]), (&json!(100.0), &json!(2.0)));
        assert_eq!((&json[1]["hosts_cpu"], &json[1]["server_percent"]), (&json!(4.5), &json!(50.0)));
        assert_eq!(json.as_array().map(Vec::len), Some(2), "no turn of three hosts");
        let table = figures.markdown("two cores", "2026-01-01");
        assert!(
            table.contains("| 2 | 1 | 200 | 2.00 | 5.00 | 1.00 | 4.50 | 5.00 | 100 | 2.00 | 2.50 + 2.00 |"),
            "{table}"
        );
    }
}
