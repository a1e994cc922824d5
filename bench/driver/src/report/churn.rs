//! The memory of a host under churn: a row for every fifth minute.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{MB, short};
use crate::churn::{Churn, PARENTS, WARM};
use crate::process::{Memory, as_float};

/// The minutes from one row to the next.
const STEP: usize = 5;

impl Churn {
    /// The largest anonymous memory after the first [`WARM`] minutes less that at their end, in bytes; none if the run was shorter.
    fn growth(&self) -> Option<f64> {
        let warm = self.minutes.get(WARM - 1)?.anonymous;
        let most = self.minutes.iter().skip(WARM).map(|memory| memory.anonymous).max()?;
        Some(as_float(most) - as_float(warm))
    }
}

/// Writes the table.
pub fn table(churn: &Churn, text: &mut String) {
    let _ = write!(
        text,
        "\n## {PARENTS} parents of which some change, some are recreated and some lose children each second, and a \
         component that is replaced each minute\n\n| minute | anonymous MB | RSS MB | peak MB |\n|---|---|---|---|\n"
    );
    let last = churn.minutes.len();
    let mut row = |what: &str, memory: &Memory| {
        let [anonymous, rss, peak] = [memory.anonymous, memory.rss, memory.peak].map(|bytes| as_float(bytes) / MB);
        let _ = writeln!(text, "| {what} | {anonymous:.1} | {rss:.1} | {peak:.1} |");
    };
    for (minute, memory) in (1..).zip(&churn.minutes) {
        if minute == 1 || minute % STEP == 0 || minute == last {
            row(&minute.to_string(), memory);
        }
    }
    row("idle, after it", &churn.after);
    let growth = churn.growth().map_or("not measured".to_owned(), |bytes| format!("{} MB", short(bytes / MB)));
    let _ = writeln!(
        text,
        "\nGrowth of the anonymous memory after minute {WARM}: {growth}. Requests for parents and children in the steady state \
         after it: {}. Requests of the driver that the API server refused: {}.",
        churn.writes_after, churn.refused
    );
}

/// Its object in the JSON, in bytes.
pub fn json(churn: &Churn) -> Value {
    let of = |memory: &Memory| json!({"anonymous": memory.anonymous, "rss": memory.rss});
    json!({
        "minutes": churn.minutes.iter().map(of).collect::<Vec<_>>(),
        "after": of(&churn.after),
        "growth": churn.growth(),
        "writes_after": churn.writes_after,
        "refused": churn.refused,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_that_after_the_first_ten_minutes() {
        let memory = |anonymous| Memory { anonymous, ..Memory::default() };
        let mut minutes = vec![memory(5_000_000); 9];
        minutes.extend([memory(9_000_000), memory(12_500_000), memory(8_000_000)]);
        let mut churn = Churn { minutes, after: memory(8_000_000), writes_after: 0, refused: 3 };
        assert_eq!(json(&churn)["growth"], json!(3_500_000.0));
        let mut text = String::new();
        table(&churn, &mut text);
        assert!(
            text.contains("| 10 | 9.0 | 0.0 | 0.0 |\n| 12 | 8.0 |") && text.contains("minute 10: 3.50 MB."),
            "{text}"
        );
        churn.minutes.truncate(10);
        assert_eq!(json(&churn)["growth"], Value::Null);
    }
}
