//! Five fields of cron, in a time zone.

use jiff::{
    Timestamp,
    civil::{Date, DateTime},
    tz::{AmbiguousOffset, TimeZone},
};
use longhaul_core::UnixMillis;
use std::fmt;

/// A field: what it is called, its least and greatest value, and the names of values from the least on.
struct FieldKind {
    name: &'static str,
    least: u8,
    most: u8,
    words: &'static [&'static str],
}

const MINUTE: FieldKind = FieldKind::numbers("minute", 0, 59);
const HOUR: FieldKind = FieldKind::numbers("hour", 0, 23);
const DAY: FieldKind = FieldKind::numbers("day of the month", 1, 31);
const MONTH: FieldKind = FieldKind {
    words: &[
        "JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC",
    ],
    ..FieldKind::numbers("month", 1, 12)
};
/// Sunday is 0 and 7.
const WEEKDAY: FieldKind = FieldKind {
    words: &["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"],
    ..FieldKind::numbers("day of the week", 0, 7)
};

impl FieldKind {
    const fn numbers(name: &'static str, least: u8, most: u8) -> Self {
        Self {
            name,
            least,
            most,
            words: &[],
        }
    }
}

/// A February 29 that must also be a Sunday, as in `0 0 29 2 */7`, may be 40 years away.
const SEARCHED_DAYS: u32 = 366 * 41;

/// Why a text is no schedule, and what would be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CronError {
    /// Not five.
    #[error(
        "`{text}` has {found} fields; write five: minute, hour, day of the month, month, day of the week, as in \"30 2 * * MON-FRI\""
    )]
    FieldCount {
        /// All of it.
        text: String,
        /// How many.
        found: usize,
    },
    /// One of the fields.
    #[error(
        "`{text}` is no {field}: write a number from {least} to {most}{words}, a range (`{least}-{most}`), a list (`a,b`), `*`, or a step (`*/5`)"
    )]
    Field {
        /// The part of it that is wrong.
        text: String,
        /// Its name.
        field: &'static str,
        /// The least value.
        least: u8,
        /// The greatest value.
        most: u8,
        /// The names that it may have.
        words: &'static str,
    },
    /// As February 30.
    #[error("no day is ever like `{0}`")]
    Never(String),
    /// The zone.
    #[error("`{0}` is no time zone; write a name of the IANA database, as \"UTC\" or \"Europe/Berlin\"")]
    Zone(String),
}

/// The values of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Values {
    bits: u64,
    /// Whether the field begins with `*`.
    is_star: bool,
}

impl Values {
    fn parse(text: &str, kind: &FieldKind) -> Result<Self, CronError> {
        let bits = text
            .split(',')
            .try_fold(0, |bits, part| Some(bits | part_bits(part, kind)?));
        let bits = bits.ok_or_else(|| CronError::Field {
            text: text.to_owned(),
            field: kind.name,
            least: kind.least,
            most: kind.most,
            words: match kind.words.first() {
                Some(&"JAN") => ", or JAN to DEC",
                Some(_) => ", or SUN to SAT",
                None => "",
            },
        })?;
        Ok(Self {
            bits,
            is_star: text.starts_with('*'),
        })
    }

    fn has(self, value: i8) -> bool {
        u32::try_from(value).is_ok_and(|value| self.bits >> value & 1 == 1)
    }

    fn from(self, least: i8) -> impl Iterator<Item = i8> {
        (least.max(0)..60).filter(move |value| self.has(*value))
    }
}

/// `*`, `5`, `1-5`, `*/2`, `1-9/2`.
fn part_bits(part: &str, kind: &FieldKind) -> Option<u64> {
    let (range, step) = match part.split_once('/') {
        Some((range, step)) => (range, Some(digits(step).filter(|step| *step > 0)?)),
        None => (part, None),
    };
    let (first, last) = match range.split_once('-') {
        _ if range == "*" => (kind.least, kind.most),
        Some((first, last)) => (value(first, kind)?, value(last, kind)?),
        // A step needs something to step through.
        None if step.is_some() => return None,
        None => (value(range, kind)?, value(range, kind)?),
    };
    if first > last {
        return None;
    }
    let values = (first..=last).step_by(usize::from(step.unwrap_or(1)));
    Some(values.fold(0, |bits, value| bits | 1 << value))
}

fn digits(text: &str) -> Option<u8> {
    let all = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    all.then(|| text.parse().ok()).flatten()
}

fn value(text: &str, kind: &FieldKind) -> Option<u8> {
    let named = kind.words.iter().position(|word| word.eq_ignore_ascii_case(text));
    let named = named.and_then(|place| u8::try_from(place).ok());
    let value = named.map(|place| kind.least + place).or_else(|| digits(text))?;
    (kind.least..=kind.most).contains(&value).then_some(value)
}

/// Times by the clocks of a place.
///
/// A time that does not exist, since clocks are set forward over it, comes at the first moment after the gap; one that comes twice comes the first time. If
/// the hours are `*` or `*/n`, the times are a distance and not a time of the day: then those that do not exist are left out, and those that come
/// twice come twice.
#[derive(Clone)]
pub struct Cron {
    minutes: Values,
    hours: Values,
    days: Values,
    months: Values,
    weekdays: Values,
    zone: TimeZone,
    text: String,
}

/// What becomes of a time that comes twice.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fold {
    First,
    Second,
}

impl Cron {
    /// Reads five fields, in a zone of the IANA database.
    ///
    /// # Errors
    /// [`CronError`].
    pub fn parse(text: &str, zone: &str) -> Result<Self, CronError> {
        let fields: Vec<&str> = text.split_ascii_whitespace().collect();
        let [minutes, hours, days, months, weekdays] = fields[..] else {
            let (text, found) = (text.to_owned(), fields.len());
            return Err(CronError::FieldCount { text, found });
        };
        let found = TimeZone::get(zone).map_err(|_| CronError::Zone(zone.to_owned()))?;
        let name = found.iana_name().unwrap_or(zone).to_owned();
        let mut weekdays = Values::parse(weekdays, &WEEKDAY)?;
        weekdays.bits |= weekdays.bits >> 7 & 1;
        let cron = Self {
            minutes: Values::parse(minutes, &MINUTE)?,
            hours: Values::parse(hours, &HOUR)?,
            days: Values::parse(days, &DAY)?,
            months: Values::parse(months, &MONTH)?,
            weekdays,
            zone: found,
            text: format!("{} {name}", fields.join(" ")),
        };
        match cron.next_after(UnixMillis(0)) {
            Some(_) => Ok(cron),
            None => Err(CronError::Never(text.to_owned())),
        }
    }

    /// The first time after `after`.
    pub fn next_after(&self, after: UnixMillis) -> Option<UnixMillis> {
        let after = Timestamp::from_millisecond(after.0).ok()?;
        let first = self.next(after, Fold::First);
        let next = match self.hours.is_star {
            true => first.into_iter().chain(self.next(after, Fold::Second)).min(),
            false => first,
        };
        next.map(|next| UnixMillis(next.as_millisecond()))
    }

    /// The times in the order of the clock on the wall are also in their order in time: each comes once.
    fn next(&self, after: Timestamp, fold: Fold) -> Option<Timestamp> {
        let local = self.zone.to_datetime(after);
        let is_folded = matches!(
            self.zone.to_ambiguous_zoned(local).offset(),
            AmbiguousOffset::Fold { .. }
        );
        // What the clock has shown before comes again.
        let from = match is_folded && fold == Fold::Second {
            true => local.date().yesterday().ok()?.to_datetime(local.time()),
            false => local,
        };
        let mut date = from.date();
        let mut earliest = (from.hour(), from.minute());
        for _ in 0..SEARCHED_DAYS {
            if self.has_day(date) {
                for hour in self.hours.from(earliest.0) {
                    let least = if hour == earliest.0 { earliest.1 } else { 0 };
                    for minute in self.minutes.from(least) {
                        match self.moment(date.at(hour, minute, 0, 0), fold) {
                            Some(moment) if moment > after => return Some(moment),
                            _ => {}
                        }
                    }
                }
            }
            earliest = (0, 0);
            date = date.tomorrow().ok()?;
        }
        None
    }

    /// As cron does: if both days are restricted, one of them is enough.
    fn has_day(&self, date: Date) -> bool {
        let day = self.days.has(date.day());
        let weekday = self.weekdays.has(date.weekday().to_sunday_zero_offset());
        let has_day = match self.days.is_star || self.weekdays.is_star {
            true => day && weekday,
            false => day || weekday,
        };
        self.months.has(date.month()) && has_day
    }

    /// When a clock of the zone shows this; `None` if it never does, and nothing comes instead.
    fn moment(&self, shown: DateTime, fold: Fold) -> Option<Timestamp> {
        let ambiguous = self.zone.to_ambiguous_zoned(shown);
        match ambiguous.offset() {
            AmbiguousOffset::Gap { .. } if self.hours.is_star => None,
            // The offset before the gap, so that the moment lies behind its end, which is the next transition before.
            AmbiguousOffset::Gap { before, .. } => {
                let moment = before.to_timestamp(shown).ok()?;
                let transition = self
                    .zone
                    .preceding(moment.checked_add(jiff::SignedDuration::from_nanos(1)).ok()?)
                    .next();
                Some(transition?.timestamp())
            }
            _ => {
                let found = match fold {
                    Fold::First => ambiguous.earlier(),
                    Fold::Second => ambiguous.later(),
                };
                Some(found.ok()?.timestamp())
            }
        }
    }
}

impl fmt::Display for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cron {}", self.text)
    }
}

impl fmt::Debug for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cron({})", self.text)
    }
}

impl PartialEq for Cron {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MINUTE: i64 = 60_000;
    const ZONES: [&str; 8] = [
        "UTC",
        "Europe/Berlin",
        "America/New_York",
        "America/Sao_Paulo",
        "Australia/Lord_Howe",
        "Africa/Casablanca",
        "Pacific/Apia",
        "Asia/Kathmandu",
    ];

    fn at(text: &str) -> UnixMillis {
        UnixMillis(text.parse::<Timestamp>().unwrap().as_millisecond())
    }

    fn times(text: &str, zone: &str, after: &str, many: usize) -> Vec<String> {
        let cron = Cron::parse(text, zone).unwrap();
        let first = cron.next_after(at(after));
        let times = std::iter::successors(first, |last| cron.next_after(*last));
        let shown = times.map(|at| Timestamp::from_millisecond(at.0).unwrap().to_string());
        shown.take(many).collect()
    }

    #[test]
    fn what_cron_says_is_read() {
        for (text, after, expected) in [
            ("0 3 * * *", "2026-01-01T02:59:59Z", "2026-01-01T03:00:00Z"),
            ("0 3 * * *", "2026-01-01T03:00:00Z", "2026-01-02T03:00:00Z"),
            ("*/15 9-17/4 * * *", "2026-01-01T09:45:00Z", "2026-01-01T13:00:00Z"),
            ("5,35 0 1 jan,Jul *", "2026-01-01T00:05:00Z", "2026-01-01T00:35:00Z"),
            ("5,35 0 1 jan,Jul *", "2026-01-01T00:35:00Z", "2026-07-01T00:05:00Z"),
            ("0 0 29 2 *", "2096-03-01T00:00:00Z", "2104-02-29T00:00:00Z"),
            // A Sunday that is a February 29.
            ("0 0 29 2 */7", "2088-03-01T00:00:00Z", "2128-02-29T00:00:00Z"),
            // 2026-01-04 is a Sunday.
            ("0 0 * * 7", "2026-01-01T00:00:00Z", "2026-01-04T00:00:00Z"),
            ("0 0 * * sun", "2026-01-01T00:00:00Z", "2026-01-04T00:00:00Z"),
            // Both days are restricted: one of them is enough.
            ("0 0 13 * 5", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"),
            ("0 0 13 * 5", "2026-01-12T00:00:00Z", "2026-01-13T00:00:00Z"),
            ("0 0 */2 * 1", "2026-01-01T00:00:00Z", "2026-01-05T00:00:00Z"),
        ] {
            assert_eq!(times(text, "UTC", after, 1), [expected], "{text} after {after}");
        }
    }

    #[test]
    fn a_mistake_is_named() {
        for (text, zone, part) in [
            ("0 3 * *", "UTC", "has 4 fields; write five"),
            ("60 3 * * *", "UTC", "`60` is no minute: write a number from 0 to 59"),
            ("0 3-1 * * *", "UTC", "`3-1` is no hour"),
            ("0 3 0 * *", "UTC", "`0` is no day of the month"),
            (
                "0 3 * FOO *",
                "UTC",
                "`FOO` is no month: write a number from 1 to 12, or JAN to DEC",
            ),
            (
                "0 3 * * 8",
                "UTC",
                "`8` is no day of the week: write a number from 0 to 7, or SUN to SAT",
            ),
            ("5/10 3 * * *", "UTC", "`5/10` is no minute"),
            ("*/0 3 * * *", "UTC", "`*/0` is no minute"),
            ("+5 3 * * *", "UTC", "`+5` is no minute"),
            (", 3 * * *", "UTC", "`,` is no minute"),
            ("0 0 30 2 *", "UTC", "no day is ever like"),
            ("0 0 * * *", "Europe/Berlinn", "`Europe/Berlinn` is no time zone"),
        ] {
            let error = Cron::parse(text, zone).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    /// Clocks go from 02:00 to 03:00 on 2026-03-29, and from 03:00 to 02:00 on 2026-10-25.
    #[test]
    fn a_time_that_does_not_exist_comes_after_the_gap_and_one_that_comes_twice_comes_once() {
        let berlin = |text, after, many| times(text, "Europe/Berlin", after, many);
        let forward = "2026-03-28T12:00:00Z";
        assert_eq!(
            berlin("30 2 * * *", forward, 2),
            ["2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]
        );
        assert_eq!(
            berlin("0,30 2,3 29 3 *", forward, 2),
            ["2026-03-29T01:00:00Z", "2026-03-29T01:30:00Z"]
        );
        let back = "2026-10-24T12:00:00Z";
        assert_eq!(
            berlin("30 2 * * *", back, 2),
            ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]
        );
        let half_hours = berlin("*/30 * * * *", "2026-10-24T23:45:00Z", 6);
        assert_eq!(
            half_hours.join(" "),
            "2026-10-25T00:00:00Z 2026-10-25T00:30:00Z 2026-10-25T01:00:00Z 2026-10-25T01:30:00Z 2026-10-25T02:00:00Z 2026-10-25T02:30:00Z"
        );
        let forward = berlin("5 * * * *", "2026-03-29T00:00:00Z", 2);
        assert_eq!(forward, ["2026-03-29T00:05:00Z", "2026-03-29T01:05:00Z"]);
        // A day that a whole country has left out.
        assert_eq!(
            times("0 9 30 12 *", "Pacific/Apia", "2011-12-01T00:00:00Z", 1),
            ["2011-12-30T10:00:00Z"]
        );
    }

    /// Looks at each minute, in the order of time: what a clock on the wall shows, and what it has left out.
    fn minute_by_minute(cron: &Cron, after: UnixMillis, until: i64) -> Option<UnixMillis> {
        let shown = |at: i64| cron.zone.to_datetime(Timestamp::from_millisecond(at).unwrap());
        let fits = |time: DateTime| {
            cron.minutes.has(time.minute()) && cron.hours.has(time.hour()) && cron.has_day(time.date())
        };
        let mut at = after.0.div_euclid(MINUTE) * MINUTE + MINUTE;
        while at < until {
            let (before, now) = (shown(at - MINUTE), shown(at));
            let step = now.duration_since(before).as_mins();
            let is_repeated = cron.zone.to_ambiguous_zoned(now).offset();
            let is_second = matches!(is_repeated, AmbiguousOffset::Fold { before, .. } if before.to_timestamp(now).unwrap().as_millisecond() < at);
            let left_out = (1..step).map(|minute| before + jiff::SignedDuration::from_mins(minute));
            let any_left_out = !cron.hours.is_star && left_out.into_iter().any(fits);
            if any_left_out || (fits(now) && (cron.hours.is_star || !is_second)) {
                return Some(UnixMillis(at));
            }
            at += MINUTE;
        }
        None
    }

    fn field(least: u8, most: u8) -> impl Strategy<Value = String> {
        let value = least..=most;
        prop_oneof![
            3 => Just("*".to_owned()),
            1 => (1_u8..20).prop_map(|step| format!("*/{step}")),
            3 => value.clone().prop_map(|value| value.to_string()),
            1 => (value.clone(), value.clone()).prop_map(|(a, b)| format!("{}-{}", a.min(b), a.max(b))),
            1 => (value.clone(), value).prop_map(|(a, b)| format!("{a},{b}")),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]
        #[test]
        fn the_next_time_is_the_one_that_is_found_minute_by_minute(
            fields in (field(0, 59), field(0, 23), field(1, 31), field(1, 12), field(0, 7)),
            zone in prop::sample::select(&ZONES[..]),
            // From 2010 on; half of the times in the months in which most clocks are set.
            (year, month, day, minute) in (2010_i64..2040, prop::sample::select(&[1_i64, 3, 4, 10, 11, 12][..]), 0_i64..31, 0_i64..1_440),
        ) {
            let text = format!("{} {} {} {} {}", fields.0, fields.1, fields.2, fields.3, fields.4);
            let Ok(cron) = Cron::parse(&text, zone) else { return Ok(()) };
            let begin = jiff::civil::date(year as i16, month as i8, 1).to_zoned(TimeZone::UTC).unwrap();
            let after = UnixMillis(begin.timestamp().as_millisecond() + (day * 1_440 + minute) * MINUTE + 17);
            let until = after.0 + 4 * 1_440 * MINUTE;
            let naive = minute_by_minute(&cron, after, until);
            let next = cron.next_after(after).filter(|next| next.0 < until);
            prop_assert_eq!(next, naive, "{} after {:?}", cron, Timestamp::from_millisecond(after.0));
        }
    }
}
