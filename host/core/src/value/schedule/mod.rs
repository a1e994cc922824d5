//! When a cron schedule in a time zone has its times. Pure: no clock is read, and the time zones are those of the time zone database in
//! the binary, never the machine's, so that all hosts of a release give the same answer.
//!
//! The syntax is that of Kubernetes' `CronJob` (robfig/cron), with Sunday as 7 as in crontab(5); the rules of daylight saving are those of
//! crontab(5). The calendar and the zones are jiff's; the fields and the search are here, because the libraries for cron that use jiff
//! either know no previous time, or skip a run of `30 2,14 * * *` on the day on which the clock goes forward, fail in a zone that skips a
//! day, and search for tens of milliseconds for a time that never comes.

mod fields;
mod search;
#[cfg(test)]
mod tests;

use std::fmt;

use jiff::tz::{TimeZone, TimeZoneDatabase};
use jiff::{Timestamp, ToSpan as _};

use self::fields::Fields;
use self::search::Search;
use super::line::one_line;

/// Maximum length of a schedule, in bytes: all fields can be lists of all their values.
const SCHEDULE: usize = 512;

/// Maximum length of the name of a time zone, in bytes: several times the longest.
const TIME_ZONE: usize = 128;

const NAME_OF_ZONE: &str = "write a name of the IANA time zone database, such as \"Europe/Berlin\", or nothing for UTC";

/// How many years are searched. Two 29 February are eight years apart at most; the others are for a time that the clock skips.
const YEARS: i64 = 20;

/// Why there is no answer: a sentence for a user, which names the wrong part and says what to write instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// The schedule is wrong, or never happens.
    Schedule(String),
    /// The time zone is not in the database.
    TimeZone(String),
}

impl Problem {
    fn schedule(sentence: &str) -> Self {
        Self::Schedule(one_line(sentence).into())
    }

    fn time_zone(sentence: &str) -> Self {
        Self::TimeZone(one_line(sentence).into())
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Schedule(sentence) | Self::TimeZone(sentence)) = self;
        f.write_str(sentence)
    }
}

/// The first time of a schedule after `after`, in milliseconds since 1970. An empty time zone is UTC.
pub fn next(schedule: &str, time_zone: &str, after: u64) -> Result<u64, Problem> {
    let (fields, zone) = parse(schedule, time_zone)?;
    let start = timestamp(schedule, after.saturating_add(1))?;
    let end = start.to_zoned(TimeZone::UTC).checked_add(YEARS.years()).map_or(Timestamp::MAX, Timestamp::from);
    let found = Search::new(&fields, &zone).first(start, end);
    found.and_then(milliseconds).ok_or_else(|| {
        Problem::schedule(&format!("{} has no time in the {YEARS} years after {start:.0}", quoted(schedule)))
    })
}

/// The last time of a schedule at or before `at`, in milliseconds since 1970; `None` if it had none since 1970, or none in twenty years.
pub fn previous(schedule: &str, time_zone: &str, at: u64) -> Result<Option<u64>, Problem> {
    let (fields, zone) = parse(schedule, time_zone)?;
    let end = timestamp(schedule, at)?;
    let start = end.to_zoned(TimeZone::UTC).checked_sub(YEARS.years()).map_or(Timestamp::UNIX_EPOCH, Timestamp::from);
    let found = Search::new(&fields, &zone).last(start.max(Timestamp::UNIX_EPOCH), end);
    Ok(found.and_then(milliseconds))
}

fn parse(schedule: &str, time_zone: &str) -> Result<(Fields, TimeZone), Problem> {
    if schedule.len() > SCHEDULE {
        let length = schedule.len();
        return Err(Problem::Schedule(format!("the schedule has {length} bytes, of which {SCHEDULE} are allowed")));
    }
    let fields = Fields::parse(schedule).map_err(|sentence| Problem::schedule(&sentence))?;
    Ok((fields, zone(time_zone)?))
}

fn zone(name: &str) -> Result<TimeZone, Problem> {
    if name.is_empty() {
        return Ok(TimeZone::UTC);
    }
    if name.len() > TIME_ZONE {
        let length = name.len();
        return Err(Problem::time_zone(&format!("the time zone has {length} bytes and is none: {NAME_OF_ZONE}")));
    }
    let found = TimeZoneDatabase::bundled().get(name).ok().filter(|zone| !zone.is_unknown());
    found.ok_or_else(|| Problem::time_zone(&format!("\"{name}\" is not a time zone: {NAME_OF_ZONE}")))
}

/// The schedule, as sentences name it.
fn quoted(schedule: &str) -> String {
    format!("the schedule \"{schedule}\"")
}

fn timestamp(schedule: &str, milliseconds: u64) -> Result<Timestamp, Problem> {
    let found = milliseconds.try_into().ok().and_then(|milliseconds| Timestamp::from_millisecond(milliseconds).ok());
    found.ok_or_else(|| {
        Problem::schedule(&format!(
            "{} is asked for a time beyond the calendar, which ends with the year 9999",
            quoted(schedule)
        ))
    })
}

fn milliseconds(time: Timestamp) -> Option<u64> {
    time.as_millisecond().try_into().ok()
}
