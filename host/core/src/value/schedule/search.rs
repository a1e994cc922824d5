//! Searches the times of a schedule in a time zone: one stretch of constant offset after the other.
//!
//! Where the clock goes forward between two stretches, it skips times; where it goes back, it repeats them. A schedule that follows the
//! clock has no skipped time, and repeated ones twice. One that names times of the day has each once: skipped ones at the moment of the
//! change, together, and repeated ones the first time.

use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Timestamp};

use super::fields::Fields;

const SMALLEST: SignedDuration = SignedDuration::from_nanos(1);

/// A stretch of time with one offset.
struct Stretch {
    start: Timestamp,
    /// Not part of it.
    end: Timestamp,
    offset: Offset,
    /// What the clock showed at the end of the stretch before this one.
    shown_before: DateTime,
}

pub(super) struct Search<'a> {
    fields: &'a Fields,
    zone: &'a TimeZone,
}

impl<'a> Search<'a> {
    pub(super) fn new(fields: &'a Fields, zone: &'a TimeZone) -> Self {
        Self { fields, zone }
    }

    /// The first time in `from..until`.
    pub(super) fn first(&self, from: Timestamp, until: Timestamp) -> Option<Timestamp> {
        let mut at = from;
        while at < until {
            let stretch = self.stretch(at);
            if at == stretch.start && self.has_skipped(&stretch) {
                return Some(at);
            }
            let earliest = stretch.offset.to_datetime(at).max(self.not_repeated(&stretch));
            let end = stretch.offset.to_datetime(stretch.end.min(until));
            if let Some(found) = self.fields.first(earliest, end) {
                return stretch.offset.to_timestamp(found).ok();
            }
            at = stretch.end;
        }
        None
    }

    /// The last time in `from..=until`.
    pub(super) fn last(&self, from: Timestamp, until: Timestamp) -> Option<Timestamp> {
        let mut at = until;
        while at >= from {
            let stretch = self.stretch(at);
            let start = stretch.offset.to_datetime(stretch.start.max(from)).max(self.not_repeated(&stretch));
            if let Some(found) = self.fields.last(start, stretch.offset.to_datetime(at)) {
                return stretch.offset.to_timestamp(found).ok();
            }
            if stretch.start >= from && self.has_skipped(&stretch) {
                return Some(stretch.start);
            }
            at = stretch.start.checked_sub(SMALLEST).ok()?;
        }
        None
    }

    /// The stretch at this time.
    fn stretch(&self, at: Timestamp) -> Stretch {
        let before_next = at.saturating_add(SMALLEST).unwrap_or(at);
        let start = self.zone.preceding(before_next).next().map_or(Timestamp::MIN, |change| change.timestamp());
        let end = self.zone.following(at).next().map_or(Timestamp::MAX, |change| change.timestamp());
        let before = start.checked_sub(SMALLEST).unwrap_or(start);
        Stretch {
            start,
            end,
            offset: self.zone.to_offset(at),
            shown_before: self.zone.to_offset(before).to_datetime(start),
        }
    }

    /// Whether the schedule names a time that the clock skips at the start of a stretch.
    fn has_skipped(&self, stretch: &Stretch) -> bool {
        let shown = stretch.offset.to_datetime(stretch.start);
        !self.fields.follow_clock() && self.fields.first(stretch.shown_before, shown).is_some()
    }

    /// What the clock of a stretch shows when its times begin to count: for a schedule of times of the day, when it repeats none.
    fn not_repeated(&self, stretch: &Stretch) -> DateTime {
        if self.fields.follow_clock() { DateTime::MIN } else { stretch.shown_before }
    }
}
