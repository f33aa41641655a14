//! Timestamps as the protocol writes them: RFC 3339, UTC, `Z`.

use crate::UnixMillis;
use jiff::{Timestamp, fmt::temporal::DateTimePrinter};

static PRINTER: DateTimePrinter = DateTimePrinter::new().precision(Some(3));

/// Appends `at` as `2026-11-20T09:00:00.000Z`, without quotes. Always 24 characters, so that texts sort like points in time; those
/// before 1970 or after 9999-12-30T22:00 are moved to the nearest that can be written.
pub fn push_timestamp(out: &mut String, at: UnixMillis) {
    // From 1970 on, what jiff cannot hold can only be too late.
    let timestamp = Timestamp::from_millisecond(at.0.max(0)).unwrap_or(Timestamp::MAX);
    // Writing into a String cannot fail.
    let _ = PRINTER.print_timestamp(&timestamp, out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// 9999-12-30T00:00:00Z
    const LAST: i64 = 253_402_128_000_000;

    fn written(millis: i64) -> String {
        let mut out = String::new();
        push_timestamp(&mut out, UnixMillis(millis));
        out
    }

    proptest! {
        #[test]
        fn timestamps_read_back_and_texts_sort_like_them(a in 0..=LAST, b in 0..=LAST) {
            let (first, second) = (written(a), written(b));
            prop_assert_eq!(first.len(), 24);
            prop_assert_eq!(first.parse::<Timestamp>().unwrap().as_millisecond(), a);
            prop_assert_eq!(a.cmp(&b), first.cmp(&second));
        }
    }

    #[test]
    fn known_timestamps_and_both_ends_of_the_range() {
        assert_eq!(written(1_795_165_200_000), "2026-11-20T09:00:00.000Z");
        assert_eq!(written(951_782_400_007), "2000-02-29T00:00:00.007Z");
        assert_eq!(written(i64::MIN), "1970-01-01T00:00:00.000Z");
        assert_eq!(written(i64::MAX), "9999-12-30T22:00:00.999Z");
    }
}
