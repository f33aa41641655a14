//! A point in time.

use crate::tool::millis;
use longhaul_core::{UnixMillis, push_timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::{
    borrow::Cow,
    fmt,
    ops::{Add, Sub},
    str::FromStr,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// A point in time, to the millisecond. As text it is RFC 3339 with an offset, as `2026-11-20T09:00:00Z`; so it is read and written in
/// JSON, and a form asks for it as such.
///
/// ```
/// use longhaul::time::{Moment, hours};
/// let nine: Moment = "2026-11-20T09:00:00Z".parse()?;
/// assert_eq!((nine + hours(1)).to_string(), "2026-11-20T10:00:00.000Z");
/// assert_eq!(nine + hours(1) - nine, hours(1));
/// # Ok::<_, longhaul::time::InvalidMoment>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(pub(crate) UnixMillis);

/// A text that is no [`Moment`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no moment, as 2026-11-20T09:00:00Z or 2026-11-20T10:00:00+01:00 is: {why}")]
pub struct InvalidMoment {
    text: String,
    why: String,
}

impl Moment {
    /// So many milliseconds after 1970-01-01T00:00:00Z.
    pub const fn from_unix_millis(millis: i64) -> Self {
        Self(UnixMillis(millis))
    }

    /// Milliseconds since 1970-01-01T00:00:00Z.
    pub const fn unix_millis(self) -> i64 {
        self.0.0
    }
}

impl FromStr for Moment {
    type Err = InvalidMoment;

    fn from_str(text: &str) -> Result<Self, InvalidMoment> {
        match text.parse::<jiff::Timestamp>() {
            Ok(moment) => Ok(Self::from_unix_millis(moment.as_millisecond())),
            Err(error) => Err(InvalidMoment {
                text: text.to_owned(),
                why: error.to_string(),
            }),
        }
    }
}

/// Moments before 1970 or after the year 9999 are moved to the nearest that can be written.
impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        push_timestamp(&mut text, self.0);
        f.write_str(&text)
    }
}

impl From<SystemTime> for Moment {
    fn from(time: SystemTime) -> Self {
        match time.duration_since(UNIX_EPOCH) {
            Ok(since) => Self(UnixMillis(0).plus(millis(since))),
            Err(before) => Self(UnixMillis(0)) - before.duration(),
        }
    }
}

/// Of unix milliseconds.
impl From<i64> for Moment {
    fn from(millis: i64) -> Self {
        Self::from_unix_millis(millis)
    }
}

/// Stops at the end of time instead of wrapping.
impl Add<Duration> for Moment {
    type Output = Self;

    fn add(self, time: Duration) -> Self {
        Self(self.0.plus(millis(time)))
    }
}

/// Stops at the beginning of time instead of wrapping.
impl Sub<Duration> for Moment {
    type Output = Self;

    fn sub(self, time: Duration) -> Self {
        let time = i64::try_from(millis(time)).unwrap_or(i64::MAX);
        Self::from_unix_millis(self.unix_millis().saturating_sub(time))
    }
}

/// The time between two moments; none if the other one is later.
impl Sub for Moment {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.since(earlier.0))
    }
}

impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Moment {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Moment".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"type": "string", "format": "date-time"})
    }
}
