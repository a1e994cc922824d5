//! The table of languages: a column for each component, a row for each measure.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{MB, rounded, short};
use crate::languages::{Calls, Language, MANY};
use crate::process::as_float;

/// A measure, and its figure for a component; `None` if it does not apply.
type Row = (String, fn(&Language) -> Option<String>);

fn rows() -> Vec<Row> {
    let row = |title: &str, figure: fn(&Language) -> Option<String>| (title.to_owned(), figure);
    let many =
        |title: &str, figure: fn(&Language) -> Option<String>| (format!("call, {MANY} children: {title}"), figure);
    vec![
        row("component, MB", |l| Some(mb(l.size))),
        row("compressed by zstd, MB", |l| Some(mb(l.packed))),
        row("ConfigMaps", |l| Some(l.config_maps.to_string())),
        row("compiling, s", |l| Some(short(l.compiling.seconds))),
        row("compiling, peak of the memory in MB", |l| Some(short(l.compiling.peak / MB))),
        row("compiled file, MB", |l| Some(mb(l.compiling.size))),
        row("call, 3 children: p50 / p99, ms", |l| Some(times(&l.few))),
        row("call, 3 children: memory of the guest, MB", |l| Some(mb(l.few.memory))),
        many("p50 / p99, ms", |l| l.many.as_ref().map(times)),
        many("memory of the guest, MB", |l| Some(mb(l.many?.memory))),
        many("Go's garbage collector ran in", |l| {
            let many = l.many.filter(|_| l.name == "Go")?;
            Some(format!("{} of {} calls", many.impure, many.count))
        }),
        row("idle host with this component alone, RSS in MB", |l| Some(mb(l.idle.rss))),
        row("of it anonymous, MB", |l| Some(mb(l.idle.anonymous))),
    ]
}

/// Writes the table, if there are components.
pub fn table(languages: &[Language], text: &mut String) {
    let Some(first) = languages.first() else { return };
    *text += "\n## The same plugins in several languages\n\n| |";
    for one in languages {
        let _ = write!(text, " {}, {} |", one.kind, one.name);
    }
    *text += "\n|---|";
    *text += &"---|".repeat(languages.len());
    for (title, figure) in rows() {
        let _ = write!(text, "\n| {title} |");
        for one in languages {
            let _ = write!(text, " {} |", figure(one).unwrap_or_else(|| "–".to_owned()));
        }
    }
    let request = |calls: fn(&Language) -> Option<Calls>| {
        let bytes = languages.iter().filter_map(calls).map(|calls| calls.request).max().unwrap_or(0);
        as_float(bytes) / 1000.0
    };
    let _ = writeln!(
        text,
        "\n\n{} calls with 3 children, {} with {MANY}; the largest requests had {:.1} and {:.0} KB.",
        first.few.count,
        first.many.map_or(0, |many| many.count),
        request(|l| Some(l.few)),
        request(|l| l.many),
    );
}

/// The object of one component in the JSON, in bytes, seconds and milliseconds.
pub fn json(language: &Language) -> Value {
    let calls = |calls: &Calls| {
        json!({
            "calls": calls.count,
            "p50": rounded(calls.p50),
            "p99": rounded(calls.p99),
            "memory": calls.memory,
            "request": calls.request,
            "impure": calls.impure,
        })
    };
    json!({
        "kind": language.kind,
        "language": language.name,
        "size": language.size,
        "packed": language.packed,
        "config_maps": language.config_maps,
        "compiling": {
            "seconds": rounded(language.compiling.seconds),
            "peak": language.compiling.peak,
            "size": language.compiling.size,
        },
        "few": calls(&language.few),
        "many": language.many.as_ref().map(calls),
        "idle": {"rss": language.idle.rss, "anonymous": language.idle.anonymous},
    })
}

fn mb(bytes: u64) -> String {
    short(as_float(bytes) / MB)
}

fn times(calls: &Calls) -> String {
    let time = |milliseconds: f64| if milliseconds < 1.0 { format!("{milliseconds:.3}") } else { short(milliseconds) };
    format!("{} / {}", time(calls.p50), time(calls.p99))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::languages::Compiling;
    use crate::process::Memory;

    #[test]
    fn table_has_a_column_for_each_component_and_a_dash_for_what_does_not_apply() {
        let few = Calls { count: 200, p50: 0.041, p99: 1.25, memory: 1_100_000, request: 6000, impure: 0 };
        let one = |name, many| Language {
            kind: "Echo",
            name,
            size: 184_000,
            packed: 65_000,
            config_maps: 1,
            compiling: Compiling { seconds: 0.2, peak: 60e6, size: 400_000 },
            few,
            many,
            idle: Memory { rss: 15_000_000, anonymous: 5_000_000, ..Memory::default() },
        };
        let go = Calls { count: 20, impure: 3, ..few };
        let mut text = String::new();
        table(&[one("Rust", None), one("Go", Some(go))], &mut text);
        assert!(text.contains("| | Echo, Rust | Echo, Go |\n|---|---|---|\n| component, MB | 0.18 | 0.18 |"), "{text}");
        assert!(text.contains("| call, 3 children: p50 / p99, ms | 0.041 / 1.25 | 0.041 / 1.25 |"), "{text}");
        assert!(text.contains("ran in | – | 3 of 20 calls |"), "{text}");
    }
}
