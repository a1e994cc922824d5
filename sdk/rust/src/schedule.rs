//! Times of cron schedules in time zones. The host computes them: a component has no time zone database, and pays for this module only
//! if it uses it.
//!
//! A plugin that does something at times of a schedule declares [`Descriptor::clock`](crate::Descriptor::clock), asks what is
//! [due](Schedule::due), and is called again at the next time:
//!
//! ```no_run
//! # use std::time::SystemTime;
//! # use windlass_plugin::{Failure, Reconciler, Request, Response, schedule::Schedule};
//! # struct Spec { schedule: String, time_zone: String }
//! # fn backup<R: Reconciler>(request: &Request<R>, spec: &Spec, last: SystemTime) -> Result<Response<R>, Failure> {
//! let schedule = Schedule::new(&spec.schedule).in_zone(&spec.time_zone).fields("spec.schedule", "spec.timeZone");
//! let due = schedule.due(last, request.now())?;
//! if let Some(time) = due.time {
//!     // Return the children for this time, and remember it in the status: it is `last` in the next call.
//! }
//! Ok(Response::new().requeue_at(due.next))
//! # }
//! ```

use std::time::{Duration, SystemTime};

#[cfg(target_family = "wasm")]
use crate::raw::windlass::plugin::schedule as host;
#[cfg(not(target_family = "wasm"))]
use crate::testing::harness as host;
use crate::{
    Failure,
    raw::{Invalid, windlass::plugin::schedule::Problem},
    response::since_epoch,
};

/// A cron schedule in a time zone.
///
/// The schedule has the five fields of a Kubernetes `CronJob`, or is a name such as `@daily`. Nothing is checked before it is asked for a
/// time. A time of the day that the clock skips for daylight saving comes when the clock changes, and one that it repeats comes the first
/// time; a schedule whose minutes or hours begin with `*` follows the clock instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    cron: String,
    time_zone: String,
    /// Those of the schedule and of the time zone.
    fields: Option<[String; 2]>,
}

/// What of a schedule is due at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Due {
    /// The latest time of the schedule that was reached and not handled yet; `None` if there is none. Earlier ones are missed for good.
    pub time: Option<SystemTime>,
    /// The next time of the schedule, for [`Response::requeue_at`](crate::Response::requeue_at).
    pub next: SystemTime,
}

impl Schedule {
    /// A schedule in UTC, such as `0 3 * * *`.
    pub fn new(schedule: impl Into<String>) -> Self {
        Self { cron: schedule.into(), time_zone: String::new(), fields: None }
    }

    /// The schedule in a time zone of the IANA database, such as `Europe/Berlin`. An empty one is UTC.
    #[must_use]
    pub fn in_zone(mut self, time_zone: impl Into<String>) -> Self {
        self.time_zone = time_zone.into();
        self
    }

    /// The fields of the parent that have the schedule and the time zone, such as `spec.schedule`: a failure names the one that is wrong.
    #[must_use]
    pub fn fields(mut self, schedule: &str, time_zone: &str) -> Self {
        self.fields = Some([schedule.to_owned(), time_zone.to_owned()]);
        self
    }

    /// The first time after `after`.
    ///
    /// # Errors
    /// [`Failure::Invalid`]: the schedule is malformed or never happens, or the time zone is none.
    pub fn next(&self, after: SystemTime) -> Result<SystemTime, Failure> {
        let next = host::next(&self.cron, &self.time_zone, since_epoch(after));
        next.map(time).map_err(|problem| self.invalid(problem))
    }

    /// The last time at or before `at`; `None` if there was none since 1970.
    ///
    /// # Errors
    /// [`Failure::Invalid`]: the schedule is malformed or never happens, or the time zone is none.
    pub fn previous(&self, at: SystemTime) -> Result<Option<SystemTime>, Failure> {
        let previous = host::previous(&self.cron, &self.time_zone, since_epoch(at));
        previous.map(|found| found.map(time)).map_err(|problem| self.invalid(problem))
    }

    /// What is due at `now`, which is [`Request::now`](crate::Request::now). `last` is the time that was handled last, or before the first
    /// one the time from which the schedule counts, such as the creation of the parent.
    ///
    /// # Errors
    /// [`Failure::Invalid`]: the schedule is malformed or never happens, or the time zone is none.
    pub fn due(&self, last: SystemTime, now: SystemTime) -> Result<Due, Failure> {
        let time = self.previous(now)?.filter(|time| *time > last);
        Ok(Due { time, next: self.next(now)? })
    }

    fn invalid(&self, problem: Problem) -> Failure {
        let fields = self.fields.as_ref().map(|[schedule, time_zone]| (schedule, time_zone)).unzip();
        let (field, message) = match problem {
            Problem::Schedule(message) => (fields.0, message),
            Problem::TimeZone(message) => (fields.1, message),
        };
        Failure::Invalid(Invalid { field: field.cloned(), message })
    }
}

fn time(milliseconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(milliseconds)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Due, Schedule, time};
    use crate::Failure;

    const MINUTE: u64 = 60_000;

    #[test]
    fn latest_time_that_was_missed_is_due_until_it_is_handled() {
        let schedule = Schedule::new("*/10 * * * *");
        let due = |last, now| {
            let Due { time: due, next } = schedule.due(time(last * MINUTE), time(now * MINUTE)).expect("a schedule");
            assert_eq!(next, time((now / 10 + 1) * 10 * MINUTE));
            due
        };
        assert_eq!(due(4, 9), None, "none was reached");
        assert_eq!(due(4, 10), Some(time(10 * MINUTE)), "at its time");
        assert_eq!(due(4, 35), Some(time(30 * MINUTE)), "the latest of three");
        assert_eq!(due(30, 35), None, "it was handled");
    }

    #[test]
    fn host_computes_times_in_the_time_zone() {
        // 2026-03-29T01:00:00Z, when the clocks of Berlin skip 02:30.
        let change = time(1_774_746_000_000);
        let nightly = Schedule::new("30 2 * * *").in_zone("Europe/Berlin");
        assert_eq!(nightly.next(change - Duration::from_mins(1)), Ok(change));
        assert_eq!(nightly.previous(change), Ok(Some(change)));
    }

    #[test]
    fn failure_names_the_field_that_is_wrong() {
        let invalid = |schedule: Schedule| match schedule.next(time(0)) {
            Err(Failure::Invalid(invalid)) => invalid.to_string(),
            other => panic!("{other:?}"),
        };
        let fields = |schedule: Schedule| schedule.fields("spec.schedule", "spec.timeZone");
        let hour = invalid(Schedule::new("0 25 * * *"));
        assert!(hour.starts_with("hour \"25\" in the schedule \"0 25 * * *\" "), "{hour}");
        assert_eq!(invalid(fields(Schedule::new("0 25 * * *"))), format!("spec.schedule: {hour}"));
        let zone = invalid(fields(Schedule::new("@daily").in_zone("Berlin")));
        assert!(zone.starts_with("spec.timeZone: \"Berlin\" is not a time zone"), "{zone}");
    }
}
