//! Moments as the protocol writes them: RFC 3339, UTC, `Z`.

use longhaul_core::UnixMillis;

/// 9999-12-31T23:59:59.999Z, the last moment RFC 3339 can write.
const LAST: i64 = 253_402_300_799_999;
const MILLIS_PER_DAY: i64 = 86_400_000;

/// Appends `at` as `2026-11-20T09:00:00.000Z`, without quotes. Always 24 characters, so that texts sort like moments; moments
/// before 1970 or after 9999 are moved to the nearest that can be written.
///
/// A formatter of our own because every answer about a task holds two moments: it takes about a fifth of the time of the
/// general one, which the tests hold it against.
pub fn push_timestamp(out: &mut String, at: UnixMillis) {
    let millis = at.0.clamp(0, LAST);
    let (year, month, day) = civil(millis / MILLIS_PER_DAY);
    let of_day = millis % MILLIS_PER_DAY;
    let mut text = *b"0000-00-00T00:00:00.000Z";
    put(&mut text[0..4], year);
    put(&mut text[5..7], month);
    put(&mut text[8..10], day);
    put(&mut text[11..13], of_day / 3_600_000);
    put(&mut text[14..16], of_day / 60_000 % 60);
    put(&mut text[17..19], of_day / 1_000 % 60);
    put(&mut text[20..23], of_day % 1_000);
    // Only ASCII digits were put, so this is always text.
    out.push_str(std::str::from_utf8(&text).unwrap_or_default());
}

/// Writes `number` right-aligned over zeros.
fn put(digits: &mut [u8], mut number: i64) {
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

/// Year, month and day of the Gregorian calendar, `days` (0 or more) after 1970-01-01.
///
/// Years are counted from March, so that the leap day is a year's last and needs no case of its own.
fn civil(days: i64) -> (i64, i64, i64) {
    const DAYS_TO_1970_FROM_MARCH_0: i64 = 719_468;
    const DAYS_IN_400_YEARS: i64 = 146_097;
    let shifted = days + DAYS_TO_1970_FROM_MARCH_0;
    let (era, of_era) = (shifted / DAYS_IN_400_YEARS, shifted % DAYS_IN_400_YEARS);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 {
        march_month + 3
    } else {
        march_month - 9
    };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn written(millis: i64) -> String {
        let mut out = String::new();
        push_timestamp(&mut out, UnixMillis(millis));
        out
    }

    proptest! {
        #[test]
        fn every_moment_is_what_jiff_says(millis in 0..=LAST) {
            let expected = jiff::Timestamp::from_millisecond(millis.min(253_402_207_200_000)).unwrap();
            prop_assert_eq!(written(expected.as_millisecond()), format!("{expected:.3}"));
        }
    }

    #[test]
    fn every_day_of_four_centuries_is_what_jiff_says() {
        for day in 0..146_097 {
            let millis = day * MILLIS_PER_DAY;
            let expected = jiff::Timestamp::from_millisecond(millis).unwrap();
            assert_eq!(written(millis), format!("{expected:.3}"));
        }
    }

    #[test]
    fn the_ends_of_time_can_be_written() {
        assert_eq!(written(i64::MIN), "1970-01-01T00:00:00.000Z");
        assert_eq!(written(i64::MAX), "9999-12-31T23:59:59.999Z");
    }
}
