//! How often attempts of a tool begin.

use crate::{Millis, UnixMillis};
use std::{fmt, str::FromStr};

/// The units that a rate can have.
const UNITS: [(&str, Millis); 3] = [("s", 1_000), ("m", 60_000), ("h", 3_600_000)];
/// A start that seems to lie further in the future was noted by a clock that was wrong.
const LARGEST_SKEW: Millis = 60_000;

/// How often attempts of a tool begin at most, on all nodes together: `10/m`. They are spaced evenly, so that there is no burst: after one begins, the next begins
/// when the time of the unit divided by the number has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StartRate {
    starts: u32,
    unit: &'static str,
    window: Millis,
}

/// The text is not a rate of starts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a rate; write for example \"1/s\", \"10/m\" or \"100/h\", with a number from 1 to 1000")]
pub struct InvalidStartRate(pub String);

impl StartRate {
    /// The least time between two starts.
    pub fn spacing(&self) -> Millis {
        self.window.div_ceil(self.starts.into())
    }

    /// When the next attempt may begin, at `at` or later, if the last one has begun at `last`.
    pub fn next_start(&self, last: Option<UnixMillis>, at: UnixMillis) -> UnixMillis {
        let last = last.filter(|last| *last <= at.plus(LARGEST_SKEW));
        last.map_or(at, |last| last.plus(self.spacing()).max(at))
    }
}

impl FromStr for StartRate {
    type Err = InvalidStartRate;

    fn from_str(text: &str) -> Result<Self, InvalidStartRate> {
        let invalid = || InvalidStartRate(text.to_owned());
        let (starts, unit) = text.split_once('/').ok_or_else(invalid)?;
        let starts = starts.parse().ok().filter(|starts| (1..=1_000).contains(starts));
        let unit = UNITS.into_iter().find(|(name, _)| *name == unit);
        let (starts, (unit, window)) = starts.zip(unit).ok_or_else(invalid)?;
        Ok(Self { starts, unit, window })
    }
}

impl fmt::Display for StartRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.starts, self.unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_a_number_of_starts_and_a_unit() {
        for (text, spacing) in [
            ("1/s", 1_000),
            ("10/m", 6_000),
            ("7/s", 143),
            ("1000/h", 3_600),
            ("1/h", 3_600_000),
        ] {
            let rate: StartRate = text.parse().unwrap();
            assert_eq!((rate.spacing(), rate.to_string().as_str()), (spacing, text));
        }
        for text in [
            "", "10", "10/", "/m", "0/m", "1001/s", "1.5/s", "-1/s", "10/d", "10/ms", "10 / m", "10/m/s",
        ] {
            assert_eq!(text.parse::<StartRate>(), Err(InvalidStartRate(text.to_owned())));
        }
    }

    #[test]
    fn no_window_has_more_starts_than_the_rate() {
        for (text, most, window) in [("7/s", 7, 1_000), ("10/m", 10, 60_000), ("999/s", 999, 1_000)] {
            let rate: StartRate = text.parse().unwrap();
            let mut last = UnixMillis(0);
            let mut starts = vec![last];
            while starts.len() < 3 * most {
                last = rate.next_start(Some(last), last);
                starts.push(last);
            }
            for pair in starts.windows(most + 1) {
                assert!(pair[most].since(pair[0]) >= window, "{text}");
            }
        }
        let rate: StartRate = "1/m".parse().unwrap();
        let next = |last, at| rate.next_start(last, UnixMillis(at)).0;
        assert_eq!(next(None, 5), 5);
        assert_eq!(next(Some(UnixMillis(5)), 6), 60_005);
        assert_eq!(next(Some(UnixMillis(5)), 70_000), 70_000);
        assert_eq!(
            next(Some(UnixMillis(50_000)), 0),
            110_000,
            "of a clock that is a little ahead"
        );
        assert_eq!(next(Some(UnixMillis(900_000)), 0), 0, "of a clock that was wrong");
    }
}
