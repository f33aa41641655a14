//! Durations as people write them: `500ms`, `5s`, `1h30m`, `7d`.

use crate::Millis;
use std::time::Duration;

const UNITS: [(&str, Millis); 5] = [
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
];

/// The text is not a duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a duration; write for example \"500ms\", \"5s\", \"1h30m\" or \"7d\"")]
pub struct InvalidDuration(pub String);

/// Reads a duration such as `90s` or `1h30m` into milliseconds.
///
/// ```
/// assert_eq!(longhaul_core::parse_duration("1h30m"), Ok(5_400_000));
/// assert!(longhaul_core::parse_duration("90").is_err());
/// ```
///
/// # Errors
/// [`InvalidDuration`] for an empty text, a number without unit, an unknown unit, or more than 2^64 milliseconds.
pub fn parse_duration(text: &str) -> Result<Millis, InvalidDuration> {
    let invalid = || InvalidDuration(text.to_owned());
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total: Millis = 0;
    while !rest.is_empty() {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let number: Millis = rest[..digits].parse().map_err(|_| invalid())?;
        let tail = &rest[digits..];
        let letters = tail.len() - tail.trim_start_matches(|c: char| c.is_ascii_alphabetic()).len();
        let (_, unit) = UNITS
            .iter()
            .find(|(name, _)| *name == &tail[..letters])
            .ok_or_else(invalid)?;
        total = number
            .checked_mul(*unit)
            .and_then(|part| total.checked_add(part))
            .ok_or_else(invalid)?;
        rest = &tail[letters..];
    }
    Ok(total)
}

/// Whole milliseconds; saturates.
///
/// ```
/// use std::time::Duration;
/// assert_eq!(longhaul_core::whole_millis(Duration::from_micros(1_900)), 1);
/// assert_eq!(longhaul_core::whole_millis(Duration::MAX), u64::MAX);
/// ```
pub fn whole_millis(duration: Duration) -> Millis {
    u64::try_from(duration.as_millis()).unwrap_or(Millis::MAX)
}

/// Writes a duration the way [`parse_duration`] reads it, largest unit first.
///
/// ```
/// assert_eq!(longhaul_core::format_duration(3_600_000), "1h");
/// assert_eq!(longhaul_core::format_duration(90_500), "1m30s500ms");
/// ```
pub fn format_duration(millis: Millis) -> String {
    if millis == 0 {
        return "0s".to_owned();
    }
    let mut rest = millis;
    let mut text = String::new();
    for (name, unit) in UNITS {
        if rest >= unit {
            text.push_str(&format!("{}{name}", rest / unit));
            rest %= unit;
        }
    }
    text
}

/// Writes a measured length of time for people: its two largest units, and milliseconds only if it is shorter than a second.
///
/// ```
/// use longhaul_core::approximate_duration;
/// assert_eq!([999, 1_799_959, 3_601_000, 90_000_000].map(approximate_duration), ["999ms", "29m59s", "1h", "1d1h"]);
/// ```
pub fn approximate_duration(millis: Millis) -> String {
    let Some(first) = UNITS.iter().position(|(_, unit)| millis >= *unit) else {
        return format_duration(millis);
    };
    let second = UNITS.get(first + 1).filter(|(_, unit)| *unit > 1);
    let smallest = second.unwrap_or(&UNITS[first]).1;
    format_duration(millis - millis % smallest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_reads_back(millis in any::<u64>()) {
            prop_assert_eq!(parse_duration(&format_duration(millis)), Ok(millis));
        }

        #[test]
        fn any_text_is_read_or_refused(text in ".{0,20}") {
            let _ = parse_duration(&text);
        }
    }
}
