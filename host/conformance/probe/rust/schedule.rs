//! What the host says of a schedule.

use std::time::SystemTime;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_plugin::Failure;
use windlass_plugin::schedule::Schedule;

/// A schedule, and what is asked about it.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ScheduleSpec {
    /// As in a CronJob.
    cron: String,
    /// As in a CronJob.
    #[serde(default)]
    time_zone: String,
    /// The time of the question.
    #[schemars(extend("format" = "date-time"))]
    at: String,
    /// The time that was handled last.
    #[schemars(extend("format" = "date-time"))]
    last: Option<String>,
}

/// Times of a schedule.
#[derive(Deserialize, Serialize, JsonSchema)]
pub(crate) struct Scheduled {
    /// The first one after the time of the question.
    next: String,
    /// The last one until then.
    previous: Option<String>,
    /// The one that was not handled yet.
    due: Option<String>,
}

pub(crate) fn scheduled(spec: &ScheduleSpec) -> Result<Scheduled, Failure> {
    let schedule = Schedule::new(&spec.cron).in_zone(&spec.time_zone);
    let schedule = schedule.fields("spec.schedule.cron", "spec.schedule.timeZone");
    let at = time("at", &spec.at)?;
    let last = spec.last.as_deref().map(|last| time("last", last)).transpose()?;
    let due = last.map(|last| schedule.due(last, at)).transpose()?;
    Ok(Scheduled {
        next: text(schedule.next(at)?),
        previous: schedule.previous(at)?.map(text),
        due: due.and_then(|due| due.time).map(text),
    })
}

fn time(field: &str, text: &str) -> Result<SystemTime, Failure> {
    let time = humantime::parse_rfc3339(text);
    time.map_err(|why| Failure::invalid_field(format!("spec.schedule.{field}"), why.to_string()))
}

fn text(time: SystemTime) -> String {
    humantime::format_rfc3339_seconds(time).to_string()
}
