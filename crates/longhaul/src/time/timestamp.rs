//! A point in time.

use crate::time::whole_millis;
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

/// A point in time, to the millisecond. As text and in JSON it is RFC 3339 with an offset, such as
/// `2026-11-20T09:00:00Z`, and a form asks for it as such. Arithmetic saturates.
///
/// ```
/// use longhaul::time::{Timestamp, hours};
/// let nine: Timestamp = "2026-11-20T09:00:00Z".parse()?;
/// assert_eq!((nine + hours(1)).to_string(), "2026-11-20T10:00:00.000Z");
/// assert_eq!(nine + hours(1) - nine, hours(1));
/// # Ok::<_, longhaul::time::InvalidTimestamp>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub(crate) UnixMillis);

/// A text that is not a [`Timestamp`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a timestamp such as 2026-11-20T09:00:00Z or 2026-11-20T10:00:00+01:00: {why}")]
pub struct InvalidTimestamp {
    text: String,
    why: String,
}

impl Timestamp {
    /// The timestamp of unix milliseconds: milliseconds since 1970-01-01T00:00:00Z.
    pub const fn from_unix_millis(millis: i64) -> Self {
        Self(UnixMillis(millis))
    }

    /// Milliseconds since 1970-01-01T00:00:00Z.
    pub const fn unix_millis(self) -> i64 {
        self.0.0
    }
}

impl FromStr for Timestamp {
    type Err = InvalidTimestamp;

    fn from_str(text: &str) -> Result<Self, InvalidTimestamp> {
        match text.parse::<jiff::Timestamp>() {
            Ok(timestamp) => Ok(Self::from_unix_millis(timestamp.as_millisecond())),
            Err(error) => Err(InvalidTimestamp {
                text: text.to_owned(),
                why: error.to_string(),
            }),
        }
    }
}

/// Timestamps before 1970 or after the year 9999 are clamped.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        push_timestamp(&mut text, self.0);
        f.write_str(&text)
    }
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        match time.duration_since(UNIX_EPOCH) {
            Ok(since) => Self(UnixMillis(0).plus(whole_millis(since))),
            Err(before) => Self(UnixMillis(0)) - before.duration(),
        }
    }
}

/// Of unix milliseconds.
impl From<i64> for Timestamp {
    fn from(millis: i64) -> Self {
        Self::from_unix_millis(millis)
    }
}

/// Saturates at the latest timestamp.
impl Add<Duration> for Timestamp {
    type Output = Self;

    fn add(self, time: Duration) -> Self {
        Self(self.0.plus(whole_millis(time)))
    }
}

/// Saturates at the earliest timestamp.
impl Sub<Duration> for Timestamp {
    type Output = Self;

    fn sub(self, time: Duration) -> Self {
        let time = i64::try_from(whole_millis(time)).unwrap_or(i64::MAX);
        Self::from_unix_millis(self.unix_millis().saturating_sub(time))
    }
}

/// The time between two timestamps; zero if the other one is later.
impl Sub for Timestamp {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.since(earlier.0))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Timestamp {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Timestamp".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"type": "string", "format": "date-time"})
    }
}
