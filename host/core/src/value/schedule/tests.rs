use std::ops::Range;

use jiff::tz::{AmbiguousOffset, TimeZone, TimeZoneDatabase};
use jiff::{Timestamp, ToSpan as _, Zoned};
use proptest::prelude::*;

use super::{Problem, fields::Fields, next, previous};

fn at(time: &str) -> u64 {
    let time: Timestamp = time.parse().expect("a time in RFC 3339");
    time.as_millisecond().try_into().expect("since 1970")
}

/// A time in milliseconds as the clock of the zone shows it, with its offset from UTC.
fn shown(time: u64, zone: &str) -> String {
    let zone = if zone.is_empty() { "UTC" } else { zone };
    let zone = TimeZoneDatabase::bundled().get(zone).expect("a zone");
    let time = Timestamp::from_millisecond(time.try_into().expect("a time")).expect("a time").to_zoned(zone);
    time.strftime("%a %Y-%m-%d %H:%M %:z").to_string()
}

/// The first times after one; and that the way back has the same.
fn times(schedule: &str, zone: &str, after: &str, count: usize) -> Vec<String> {
    let mut times = vec![at(after)];
    for _ in 0..count {
        times.push(next(schedule, zone, *times.last().expect("a time")).expect("a time"));
    }
    for pair in times.windows(2).skip(1) {
        assert_eq!(previous(schedule, zone, pair[1]), Ok(Some(pair[1])), "{schedule}: at or before");
        assert_eq!(previous(schedule, zone, pair[1] - 1), Ok(Some(pair[0])), "{schedule}: back from {}", pair[1]);
    }
    times.into_iter().skip(1).map(|time| shown(time, zone)).collect()
}

#[test]
fn skipped_times_of_day_come_once_at_the_change_of_the_clock() {
    let nightly = ["Sat 2026-03-28 02:30 +01:00", "Sun 2026-03-29 03:00 +02:00", "Mon 2026-03-30 02:30 +02:00"];
    assert_eq!(times("30 2 * * *", "Europe/Berlin", "2026-03-27T12:00:00Z", 3), nightly);
    let twice = ["Sun 2026-03-29 03:00 +02:00", "Sun 2026-03-29 14:30 +02:00", "Mon 2026-03-30 02:30 +02:00"];
    assert_eq!(times("30 2,14 * * *", "Europe/Berlin", "2026-03-28T20:00:00Z", 3), twice);
    let together = ["Sun 2026-03-08 03:00 -04:00", "Mon 2026-03-09 02:10 -04:00"];
    assert_eq!(times("10,20,50 2 * * *", "America/New_York", "2026-03-07T20:00:00Z", 2), together);
    let half_an_hour = ["Sat 2026-10-03 02:15 +10:30", "Sun 2026-10-04 02:30 +11:00", "Mon 2026-10-05 02:15 +11:00"];
    assert_eq!(times("15 2 * * *", "Australia/Lord_Howe", "2026-10-02T12:00:00Z", 3), half_an_hour);
    // Samoa had no 30 December 2011.
    let without_a_day = ["Thu 2011-12-29 12:00 -10:00", "Sat 2011-12-31 00:00 +14:00", "Sat 2011-12-31 12:00 +14:00"];
    assert_eq!(times("0 12 * * *", "Pacific/Apia", "2011-12-29T00:00:00Z", 3), without_a_day);
}

#[test]
fn repeated_times_of_day_come_the_first_time_alone() {
    let nightly = ["Sat 2026-10-24 02:30 +02:00", "Sun 2026-10-25 02:30 +02:00", "Mon 2026-10-26 02:30 +01:00"];
    assert_eq!(times("30 2 * * *", "Europe/Berlin", "2026-10-23T12:00:00Z", 3), nightly);
    let between = "2026-10-25T01:30:00Z";
    assert_eq!(times("30 2 * * *", "Europe/Berlin", between, 1), ["Mon 2026-10-26 02:30 +01:00"]);
    let half_an_hour = ["Sun 2026-04-05 01:45 +11:00", "Mon 2026-04-06 01:45 +10:30"];
    assert_eq!(times("45 1 * * *", "Australia/Lord_Howe", "2026-04-04T12:00:00Z", 2), half_an_hour);
    let end_of_both = ["Sun 2026-11-01 02:00 -05:00", "Mon 2026-11-02 02:00 -05:00"];
    assert_eq!(times("0 2 * * *", "America/New_York", "2026-11-01T04:00:00Z", 2), end_of_both);
}

#[test]
fn schedule_that_follows_the_clock_has_no_skipped_time_and_repeated_ones_twice() {
    let skipped = ["Sun 2026-03-29 01:45 +01:00", "Sun 2026-03-29 03:00 +02:00", "Sun 2026-03-29 03:15 +02:00"];
    assert_eq!(times("*/15 * * * *", "Europe/Berlin", "2026-03-29T00:30:00Z", 3), skipped);
    assert_eq!(times("*/15 2 * * *", "Europe/Berlin", "2026-03-29T00:30:00Z", 1), ["Mon 2026-03-30 02:00 +02:00"]);
    let repeated = [
        "Sun 2026-11-01 01:00 -04:00",
        "Sun 2026-11-01 01:30 -04:00",
        "Sun 2026-11-01 01:00 -05:00",
        "Sun 2026-11-01 01:30 -05:00",
        "Mon 2026-11-02 01:00 -05:00",
    ];
    assert_eq!(times("*/30 1 * * *", "America/New_York", "2026-11-01T04:30:00Z", 5), repeated);
    let hourly = ["Sun 2026-10-25 02:00 +02:00", "Sun 2026-10-25 02:00 +01:00", "Sun 2026-10-25 03:00 +01:00"];
    assert_eq!(times("@hourly", "Europe/Berlin", "2026-10-24T23:00:00Z", 3), hourly);
    let half_an_hour = ["Sun 2026-04-05 01:30 +11:00", "Sun 2026-04-05 01:30 +10:30", "Sun 2026-04-05 02:30 +10:30"];
    assert_eq!(times("30 * * * *", "Australia/Lord_Howe", "2026-04-04T14:00:00Z", 3), half_an_hour);
}

#[test]
fn days_are_those_of_the_calendar() {
    assert_eq!(
        times("0 0 29 2 *", "", "2096-01-01T00:00:00Z", 2),
        ["Wed 2096-02-29 00:00 +00:00", "Fri 2104-02-29 00:00 +00:00"]
    );
    assert_eq!(
        times("0 12 31 * *", "", "2026-03-31T12:00:00Z", 3),
        ["Sun 2026-05-31 12:00 +00:00", "Fri 2026-07-31 12:00 +00:00", "Mon 2026-08-31 12:00 +00:00"]
    );
    assert_eq!(times("59 23 31 dec *", "", "2026-12-01T00:00:00Z", 1), ["Thu 2026-12-31 23:59 +00:00"]);
    assert_eq!(times("0 9 * * Mon-fri", "Asia/Tokyo", "2026-11-27T01:00:00Z", 1), ["Mon 2026-11-30 09:00 +09:00"]);
    assert_eq!(
        times("0 0 * * sat-sun", "", "2026-11-26T00:00:00Z", 3),
        ["Sat 2026-11-28 00:00 +00:00", "Sun 2026-11-29 00:00 +00:00", "Sat 2026-12-05 00:00 +00:00"]
    );
    for sunday in ["0 0 * * 7", "0 0 * * 0", "0 0 ? * SUN", "@weekly", "0 0 * * 7/7"] {
        assert_eq!(times(sunday, "", "2026-11-26T00:00:00Z", 1), ["Sun 2026-11-29 00:00 +00:00"], "{sunday}");
    }
}

#[test]
fn day_of_month_and_day_of_week_are_alternatives_if_both_select_days() {
    let either = ["Tue 2026-12-01 00:00 +00:00", "Mon 2026-12-07 00:00 +00:00", "Mon 2026-12-14 00:00 +00:00"];
    assert_eq!(times("0 0 1 * mon", "", "2026-11-30T00:00:00Z", 3), either);
    // As in Kubernetes, and not in crontab(5): `*/10` selects days, and `*/1` does not.
    let either = ["Mon 2026-12-07 00:00 +00:00", "Fri 2026-12-11 00:00 +00:00", "Mon 2026-12-14 00:00 +00:00"];
    assert_eq!(times("0 0 */10 * 1", "", "2026-12-01T00:00:00Z", 3), either);
    assert_eq!(times("0 0 */1 * 1", "", "2026-12-08T00:00:00Z", 1), ["Mon 2026-12-14 00:00 +00:00"]);
}

#[test]
fn lists_ranges_and_steps_are_read_as_kubernetes_reads_them() {
    let minutes = |schedule: &str| {
        let of_hour = times(schedule, "", "2026-11-29T23:59:00Z", 4);
        of_hour.iter().map(|time| time[18..20].parse().expect("a minute")).collect::<Vec<u32>>()
    };
    assert_eq!(minutes("10-20/5,40 * * * *"), [10, 15, 20, 40]);
    assert_eq!(minutes("5/20 * * * *"), [5, 25, 45, 5]);
    assert_eq!(minutes("*/90 * * * *"), [0, 0, 0, 0]);
    assert_eq!(minutes("  */30\t* * * *  "), [0, 30, 0, 30]);
    for (name, same) in [("@yearly", "0 0 1 1 *"), ("@Monthly", "0 0 1 * *"), ("@daily", "0 0 * * *")] {
        assert_eq!(times(name, "", "2026-11-29T23:59:00Z", 3), times(same, "", "2026-11-29T23:59:00Z", 3));
    }
}

#[test]
fn wrong_schedule_is_told_with_what_to_write_instead() {
    let problem = |schedule: &str| match next(schedule, "", 0) {
        Err(Problem::Schedule(sentence)) => sentence,
        other => panic!("{schedule}: {other:?}"),
    };
    assert_eq!(
        problem("61 3 * * *"),
        "minute \"61\" in the schedule \"61 3 * * *\" is not understood: write numbers from 0 to 59, ranges \"A-B\", lists \"A,B\", \
         steps \"*/N\", or \"*\" for all"
    );
    assert_eq!(
        problem("0 22-2 * * *"),
        "hour \"22-2\" in the schedule \"0 22-2 * * *\" goes backwards: write \"22-23,0-2\""
    );
    assert_eq!(
        problem("0 0 3 * * *"),
        "the schedule \"0 0 3 * * *\" has 6 fields instead of five: write minute, hour, day of month, month and day of week, such as \
         \"0 3 * * *\""
    );
    assert_eq!(
        problem("CRON_TZ=Europe/Berlin 0 3 * * *"),
        "the schedule \"CRON_TZ=Europe/Berlin 0 3 * * *\" has a time zone in it: write \"Europe/Berlin\" as the time zone instead"
    );
    assert_eq!(
        problem("0 0 30 2 *"),
        "the schedule \"0 0 30 2 *\" never happens: none of its months has one of its days"
    );
    assert!(problem("0 0 31 4,6,9,11 *").contains("never happens"));
    assert!(problem("0 0 * * mon#2").starts_with("day of week \"mon#2\" "), "extension of other schedulers");
    assert!(problem("0 0 L * *").starts_with("day of month \"L\" "), "extension of other schedulers");
    assert!(problem("*/0 * * * *").contains("wrong step"));
    assert!(problem("@every 5m").contains("\"*/5 * * * *\""));
    assert!(problem("@reboot").contains("@hourly"));
    for wrong in [
        "",
        "* * * *",
        "1,,2 * * * *",
        "1- * * * *",
        "-1 * * * *",
        "+1 * * * *",
        "* * 0 * *",
        "* * * 13 *",
        "* * * * 8",
        "* * * montue *",
    ] {
        assert!(problem(wrong).contains("write "), "{wrong}");
    }
    assert_eq!(problem("\u{1b}[2J 0 * * *").chars().find(|c| c.is_control()), None, "a terminal obeys it");
    assert_eq!(problem(&"1,".repeat(300)), "the schedule has 600 bytes, of which 512 are allowed");
}

#[test]
fn wrong_time_zone_is_told_with_what_to_write_instead() {
    for wrong in ["Mars/Olympus", "+02:00", "Local", "Etc/Unknown", " ", &"x".repeat(1 << 20)] {
        let Err(Problem::TimeZone(sentence)) = next("0 3 * * *", wrong, 0) else { panic!("{wrong}") };
        assert!(
            sentence.ends_with("such as \"Europe/Berlin\", or nothing for UTC") && sentence.len() < 300,
            "{sentence}"
        );
    }
}

#[test]
fn times_outside_the_calendar_are_a_problem_or_none() {
    assert!(matches!(next("0 3 * * *", "", u64::MAX), Err(Problem::Schedule(_))));
    assert!(matches!(previous("0 3 * * *", "", u64::MAX), Err(Problem::Schedule(_))));
    let last = at("9999-12-30T00:00:00Z");
    assert!(matches!(next("0 3 1 1 *", "Pacific/Kiritimati", last), Err(Problem::Schedule(_))));
    assert_eq!(previous("0 3 * * *", "", at("1970-01-01T02:00:00Z")), Ok(None));
    assert_eq!(previous("0 3 * * *", "", at("1970-01-01T03:00:00Z")), Ok(Some(at("1970-01-01T03:00:00Z"))));
    assert_eq!(previous("0 0 1 1 *", "America/New_York", at("1970-01-01T00:00:00Z")), Ok(None));
}

const ZONES: [&str; 7] = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "Africa/Casablanca",
    "America/St_Johns",
];

/// Whether a schedule has this time, by its definition alone: the time is looked at by itself, without a search.
fn has(fields: &Fields, zone: &TimeZone, time: Timestamp) -> bool {
    let shown = time.to_zoned(zone.clone()).datetime();
    let matches = fields.first(shown, shown + 1.minute()) == Some(shown);
    if fields.follow_clock() {
        return matches;
    }
    let is_first = match zone.to_ambiguous_timestamp(shown).offset() {
        AmbiguousOffset::Fold { before, .. } => before.to_timestamp(shown).expect("a time") == time,
        _ => true,
    };
    let before = (time - 1.nanosecond()).to_zoned(zone.clone()).datetime() + 1.nanosecond();
    (matches && is_first) || (before < shown && fields.first(before, shown).is_some())
}

fn minutes(range: Range<i64>) -> impl DoubleEndedIterator<Item = Timestamp> {
    range.map(|minute| Timestamp::from_second(minute * 60).expect("a time"))
}

fn field(values: Range<u32>) -> impl Strategy<Value = String> {
    let value = || values.clone().prop_map(|value| value.to_string());
    prop_oneof![
        Just("*".to_owned()),
        value(),
        (value(), value()).prop_map(|(a, b)| format!("{a},{b}")),
        (1..40_u32).prop_map(|step| format!("*/{step}"))
    ]
}

proptest! {
    #[test]
    fn any_text_has_an_answer_or_a_sentence_of_bounded_length(
        schedule in "[0-9*/,@?mon-]{1,9}( [0-9*/,-]{1,4}){4}|\\PC{0,40}|.{0,600}", zone in "|[A-Z][a-z]+/[A-Z][a-z]+|.{0,200}", time: u64,
    ) {
        for problem in [next(&schedule, &zone, time).err(), previous(&schedule, &zone, time).err()].into_iter().flatten() {
            prop_assert!(problem.to_string().len() < 8 * 1024, "{problem}");
        }
    }

    /// The search finds what looking at every minute of four days finds, around changes of the clock above all.
    #[test]
    fn search_finds_what_a_look_at_every_minute_finds(
        minute in field(0..60), hour in field(0..5), day in field(1..29), weekday in field(0..7), zone in 0..ZONES.len(),
        year in 2005..2030_i16, change in 0..4_usize, offset in -3000..3000_i64,
    ) {
        let schedule = format!("{minute} {hour} {day} * {weekday}");
        let zone = TimeZoneDatabase::bundled().get(ZONES[zone]).expect("a zone");
        let new_year = jiff::civil::date(year, 1, 1).to_zoned(zone.clone()).expect("a time");
        let middle = zone.following(new_year.timestamp()).nth(change).map_or(new_year.timestamp(), |change| change.timestamp());
        let at = middle.as_second() / 60 + offset;
        let milliseconds = u64::try_from(at * 60_000).expect("since 1970");
        let fields = Fields::parse(&schedule).expect("a schedule");
        let name = zone.iana_name().expect("a name");
        let expected = minutes(at + 1..at + 4 * 1440).find(|time| has(&fields, &zone, *time));
        let found = next(&schedule, name, milliseconds).expect("a time");
        let found = Timestamp::from_millisecond(found.try_into().expect("a time")).expect("a time");
        match expected {
            Some(expected) => prop_assert_eq!(found, expected, "{} in {} after {}", schedule, name, at),
            None => prop_assert!(found.as_second() / 60 >= at + 4 * 1440 && has(&fields, &zone, found)),
        }
        let expected = minutes(at - 4 * 1440..at + 1).rev().find(|time| has(&fields, &zone, *time));
        let found = previous(&schedule, name, milliseconds).expect("an answer").expect("a time");
        let found = Zoned::new(Timestamp::from_millisecond(found.try_into().expect("a time")).expect("a time"), zone.clone());
        match expected {
            Some(expected) => prop_assert_eq!(found.timestamp(), expected, "{} in {} before {}", schedule, name, at),
            None => prop_assert!(found.timestamp().as_second() / 60 < at - 4 * 1440 && has(&fields, &zone, found.timestamp())),
        }
    }
}
