//! The five fields of a schedule: which minutes of which days they name, on a clock without a time zone.

use jiff::civil::{Date, DateTime, Time};

use super::quoted;

/// A field of a schedule.
struct Field {
    name: &'static str,
    min: u32,
    max: u32,
    /// Names of the values, in lower case, the first for `first_named`.
    names: &'static [&'static str],
    first_named: u32,
}

const MINUTE: Field = Field { name: "minute", min: 0, max: 59, names: &[], first_named: 0 };
const HOUR: Field = Field { name: "hour", min: 0, max: 23, names: &[], first_named: 0 };
const DAY: Field = Field { name: "day of month", min: 1, max: 31, names: &[], first_named: 0 };
const MONTH: Field = Field {
    name: "month",
    min: 1,
    max: 12,
    names: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
    first_named: 1,
};
/// Sunday is 0 and 7.
const WEEKDAY: Field = Field {
    name: "day of week",
    min: 0,
    max: 7,
    names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
    first_named: 0,
};

/// Names that stand for whole schedules.
const NICKNAMES: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

/// The values of a field.
#[derive(Debug, Clone, Copy, Default)]
struct Values {
    /// The bit of each value.
    bits: u64,
    /// Whether it has an item that is every value: then it does not select days.
    is_any: bool,
    /// Whether it begins with `*`: then it follows the clock, and names no fixed times of the day.
    follows_clock: bool,
}

impl Values {
    fn has(self, value: u32) -> bool {
        self.bits & (1 << value) != 0
    }

    /// The first value from this one on.
    fn first(self, from: u32) -> Option<u32> {
        let bits = self.bits.checked_shr(from).unwrap_or(0);
        (bits != 0).then(|| from + bits.trailing_zeros())
    }

    /// The last value up to this one.
    fn last(self, to: u32) -> Option<u32> {
        (self.bits & (u64::MAX >> (63 - to))).checked_ilog2()
    }
}

/// A parsed schedule.
#[derive(Debug)]
pub(super) struct Fields {
    minutes: Values,
    hours: Values,
    days: Values,
    months: Values,
    weekdays: Values,
}

impl Fields {
    /// # Errors
    /// The sentence for the user.
    pub(super) fn parse(schedule: &str) -> Result<Self, String> {
        let written = schedule.trim();
        let texts: Vec<_> = of_nickname(written)?.split_ascii_whitespace().collect();
        if texts.first().is_some_and(|first| first.contains("TZ=")) {
            let zone = texts.first().and_then(|first| first.split_once('=')).map_or("", |(_, zone)| zone);
            return Err(format!(
                "{} has a time zone in it: write \"{zone}\" as the time zone instead",
                quoted(written)
            ));
        }
        let [minutes, hours, days, months, weekdays] = *texts else {
            return Err(format!(
                "{} has {} fields instead of five: write minute, hour, day of month, month and day of week, such as \"0 3 * * *\"",
                quoted(written),
                texts.len()
            ));
        };
        let values = |field: &Field, text: &str| {
            field.values(text).map_err(|why| format!("{} \"{text}\" in {} {why}", field.name, quoted(written)))
        };
        let weekdays = values(&WEEKDAY, weekdays)?;
        let fields = Self {
            minutes: values(&MINUTE, minutes)?,
            hours: values(&HOUR, hours)?,
            days: values(&DAY, days)?,
            months: values(&MONTH, months)?,
            // 7 is Sunday, as 0 is.
            weekdays: Values { bits: (weekdays.bits | weekdays.bits >> 7) & 0x7f, ..weekdays },
        };
        if !fields.happens() {
            return Err(format!("{} never happens: none of its months has one of its days", quoted(written)));
        }
        Ok(fields)
    }

    /// Whether any month has one of the days. A weekday comes in each month.
    fn happens(&self) -> bool {
        let has_day = |(month, length)| self.months.has(month) && self.days.first(1).is_some_and(|day| day <= length);
        !self.weekdays.is_any || (1..).zip([31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]).any(has_day)
    }

    /// Whether it follows the clock: a minute or hour is `*` or `*/N`. Other schedules name times of the day, of which each comes once
    /// in a day, whatever the clock does.
    pub(super) fn follow_clock(&self) -> bool {
        self.minutes.follows_clock || self.hours.follows_clock
    }

    /// Whether it has a day. A day of the month and a weekday that both select days are alternatives.
    fn has_day(&self, date: Date) -> bool {
        let is_of_month = self.days.has(date.day().unsigned_abs().into());
        let is_of_week = self.weekdays.has(date.weekday().to_sunday_zero_offset().unsigned_abs().into());
        if self.days.is_any || self.weekdays.is_any { is_of_month && is_of_week } else { is_of_month || is_of_week }
    }

    fn has_month(&self, date: Date) -> bool {
        self.months.has(date.month().unsigned_abs().into())
    }

    /// The first time in `from..until`.
    pub(super) fn first(&self, from: DateTime, until: DateTime) -> Option<DateTime> {
        let mut date = from.date();
        let mut earliest = Some(from.time());
        while date <= until.date() {
            if !self.has_month(date) {
                (date, earliest) = (date.last_of_month().tomorrow().ok()?, None);
                continue;
            }
            let time = if self.has_day(date) { self.first_of_day(earliest.unwrap_or(Time::midnight())) } else { None };
            if let Some(time) = time {
                return Some(date.to_datetime(time)).filter(|found| *found < until);
            }
            (date, earliest) = (date.tomorrow().ok()?, None);
        }
        None
    }

    /// The last time in `from..=until`.
    pub(super) fn last(&self, from: DateTime, until: DateTime) -> Option<DateTime> {
        let mut date = until.date();
        let mut latest = Some(until.time());
        while date >= from.date() {
            if !self.has_month(date) {
                (date, latest) = (date.first_of_month().yesterday().ok()?, None);
                continue;
            }
            let time = if self.has_day(date) { self.last_of_day(latest.unwrap_or(Time::MAX)) } else { None };
            if let Some(time) = time {
                return Some(date.to_datetime(time)).filter(|found| *found >= from);
            }
            (date, latest) = (date.yesterday().ok()?, None);
        }
        None
    }

    /// The first time of a day from this one on.
    fn first_of_day(&self, from: Time) -> Option<Time> {
        let is_within_minute = from.second() > 0 || from.subsec_nanosecond() > 0;
        let (hour, minute) = (of_clock(from.hour()), of_clock(from.minute()) + u32::from(is_within_minute));
        let in_hour = self.hours.has(hour).then(|| self.minutes.first(minute)).flatten();
        let found = in_hour.map(|minute| (hour, minute));
        let found = found.or_else(|| Some((self.hours.first(hour + 1)?, self.minutes.first(0)?)));
        found.and_then(time)
    }

    /// The last time of a day up to this one.
    fn last_of_day(&self, to: Time) -> Option<Time> {
        let (hour, minute) = (of_clock(to.hour()), of_clock(to.minute()));
        let in_hour = self.hours.has(hour).then(|| self.minutes.last(minute)).flatten();
        let found = in_hour.map(|minute| (hour, minute));
        let found = found.or_else(|| Some((self.hours.last(hour.checked_sub(1)?)?, self.minutes.last(MINUTE.max)?)));
        found.and_then(time)
    }
}

/// A part of a time of the day, which is never negative.
fn of_clock(value: i8) -> u32 {
    value.unsigned_abs().into()
}

fn time((hour, minute): (u32, u32)) -> Option<Time> {
    Time::new(hour.try_into().ok()?, minute.try_into().ok()?, 0, 0).ok()
}

/// The schedule that a nickname stands for, or what is no nickname, as it is.
fn of_nickname(written: &str) -> Result<&str, String> {
    if !written.starts_with('@') {
        return Ok(written);
    }
    if let Some((_, schedule)) = NICKNAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(written)) {
        return Ok(schedule);
    }
    let names = NICKNAMES.map(|(name, _)| name).join(", ");
    let hint = if written.starts_with("@every") { ", or a schedule such as \"*/5 * * * *\"" } else { "" };
    Err(format!("{} is no name of a schedule: write one of {names}{hint}", quoted(written)))
}

impl Field {
    /// The values of a list of items.
    ///
    /// # Errors
    /// What to write instead, to follow the text.
    fn values(&self, text: &str) -> Result<Values, String> {
        let mut values = Values { follows_clock: text.starts_with(['*', '?']), ..Values::default() };
        for item in text.split(',') {
            let (range, step) = item.split_once('/').map_or((item, None), |(range, step)| (range, Some(step)));
            let step = step.map(|step| self.step(step)).transpose()?;
            let is_every = matches!(range, "*" | "?");
            let (first, last) = self.range(range, step.is_some())?;
            values.is_any |= is_every && step.is_none_or(|step| step == 1);
            for value in (first..=last).step_by(step.unwrap_or(1)) {
                values.bits |= 1 << value;
            }
        }
        Ok(values)
    }

    /// The first and the last value of an item without its step; one with a step and no last value goes up to the largest.
    fn range(&self, range: &str, has_step: bool) -> Result<(u32, u32), String> {
        if matches!(range, "*" | "?") {
            return Ok((self.min, self.last_of_every()));
        }
        let Some((first, last)) = range.split_once('-') else {
            let first = self.value(range)?;
            return Ok((first, if has_step { self.last_of_every().max(first) } else { first }));
        };
        let (first, mut last) = (self.value(first)?, self.value(last)?);
        if self.max == WEEKDAY.max && last == 0 && first > 0 {
            // A week may end with Sunday.
            last = WEEKDAY.max;
        }
        if first > last {
            let max = self.last_of_every();
            return Err(format!("goes backwards: write \"{first}-{max},{}-{last}\"", self.min));
        }
        Ok((first, last))
    }

    /// The last value of `*`, which has Sunday once.
    fn last_of_every(&self) -> u32 {
        if self.max == WEEKDAY.max { WEEKDAY.max - 1 } else { self.max }
    }

    fn value(&self, text: &str) -> Result<u32, String> {
        let named = self.names.iter().zip(self.first_named..).find(|(name, _)| name.eq_ignore_ascii_case(text));
        let value = named.map(|(_, value)| value).or_else(|| number(text));
        value.filter(|value| (self.min..=self.max).contains(value)).ok_or_else(|| self.expected())
    }

    fn step(&self, text: &str) -> Result<usize, String> {
        let step = number(text).filter(|step| *step > 0).and_then(|step| step.try_into().ok());
        step.ok_or_else(|| {
            format!("has a wrong step: write a number from 1 on after \"/\", such as \"*/{}\"", self.max.min(5))
        })
    }

    fn expected(&self) -> String {
        let names = match self.names {
            [first, .., last] => format!(", or names from {first} to {last}"),
            _ => String::new(),
        };
        format!(
            "is not understood: write numbers from {} to {}{names}, ranges \"A-B\", lists \"A,B\", steps \"*/N\", or \"*\" for all",
            self.min, self.max
        )
    }
}

/// A number in digits alone.
fn number(text: &str) -> Option<u32> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}
