//! Questions about schedules, which the host answers in a cluster by the contract's interface `schedule`.

use serde::{Deserialize, Serialize};
use windlass_core::value::schedule::{self, Problem};

/// What a native test asks about a schedule, in a document of its own: nothing, if the document has a call.
#[derive(Debug, Deserialize)]
pub(super) struct Question {
    /// For the first time after one.
    next: Option<Asked>,
    /// For the last time at or before one.
    previous: Option<Asked>,
}

/// The arguments of a question.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Asked {
    schedule: String,
    #[serde(default)]
    time_zone: String,
    /// Milliseconds since 1970.
    time: u64,
}

/// What the host says.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Told {
    /// Milliseconds since 1970, if there is a time.
    Time(Option<u64>),
    /// The sentence about a wrong schedule.
    Schedule(String),
    /// The sentence about a wrong time zone.
    TimeZone(String),
}

impl Question {
    /// What the host says, if anything was asked.
    pub(super) fn answer(&self) -> Option<Told> {
        let next = |Asked { schedule, time_zone, time }: &Asked| schedule::next(schedule, time_zone, *time).map(Some);
        let previous = |Asked { schedule, time_zone, time }: &Asked| schedule::previous(schedule, time_zone, *time);
        let found = self.next.as_ref().map(next).or_else(|| self.previous.as_ref().map(previous))?;
        Some(match found {
            Ok(time) => Told::Time(time),
            Err(Problem::Schedule(sentence)) => Told::Schedule(sentence),
            Err(Problem::TimeZone(sentence)) => Told::TimeZone(sentence),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::answered;

    fn told(question: &Value) -> Value {
        serde_json::from_str(&answered(&question.to_string()).expect("an answer")).expect("JSON")
    }

    #[test]
    fn schedule_is_answered_as_the_host_answers() {
        let daily = json!({"schedule": "0 3 * * *", "timeZone": "Europe/Berlin", "time": 1_767_232_800_000_u64});
        assert_eq!(told(&json!({"next": daily})), json!({"time": 1_767_232_800_000_u64 + 86_400_000}));
        assert_eq!(told(&json!({"previous": daily})), json!({"time": 1_767_232_800_000_u64}));
        assert_eq!(told(&json!({"previous": {"schedule": "0 3 * * *", "time": 0}})), json!({"time": null}));
        let sentence = |question: Value| told(&json!({"next": question})).to_string();
        assert!(sentence(json!({"schedule": "0 25 * * *", "time": 0})).starts_with(r#"{"schedule":"hour \"25\""#));
        assert!(
            sentence(json!({"schedule": "0 3 * * *", "timeZone": "x", "time": 0}))
                .starts_with(r#"{"timeZone":"\"x\" is no"#)
        );
    }
}
