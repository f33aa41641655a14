//! Durations as functions, such as `minutes(5)`, and timestamps.

mod timestamp;

pub use std::time::Duration;
pub use timestamp::{InvalidTimestamp, Timestamp};

/// A number of milliseconds.
pub const fn millis(number: u64) -> Duration {
    Duration::from_millis(number)
}

/// A number of seconds.
pub const fn seconds(number: u64) -> Duration {
    Duration::from_secs(number)
}

/// A number of minutes.
pub const fn minutes(number: u64) -> Duration {
    seconds(number.saturating_mul(60))
}

/// A number of hours.
///
/// ```
/// use longhaul::time::{hours, minutes};
/// assert_eq!(hours(2), minutes(120));
/// ```
pub const fn hours(number: u64) -> Duration {
    minutes(number.saturating_mul(60))
}

/// A number of days of 24 hours.
pub const fn days(number: u64) -> Duration {
    hours(number.saturating_mul(24))
}

pub(crate) use longhaul_core::whole_millis;
