//! Whether a number that a command gets as text is the one that its schema has judged.

use serde_json::Number;

/// Whether the JSON number `text` means what it is read as, a 64-bit integer or the nearest double: whether that, written as short as it can
/// be, has the same digits. `100.0000000000000000001` is read as 100, and `1e-400` as 0.
pub(crate) fn is_exact(text: &str) -> bool {
    let is_integer = !text.contains(['.', 'e', 'E']);
    if is_integer && (text.parse::<i64>().is_ok() || text.parse::<u64>().is_ok()) {
        return true;
    }
    let Ok(read) = text.parse::<f64>() else { return false };
    // Two shortest forms can be equally near (1242835330320970.2 and .3): programs differ in which of them they write.
    let written = [
        Some(format!("{read:e}")),
        Number::from_f64(read).map(|read| read.to_string()),
    ];
    let Some(given) = Decimal::of(text) else { return false };
    written
        .iter()
        .flatten()
        .any(|written| Decimal::of(written).as_ref() == Some(&given))
}

/// The integer that a JSON number with a fraction or an exponent is, without them; `None` if it has neither, is no integer, or a very long one.
pub(crate) fn as_integer(text: &str) -> Option<String> {
    /// A double has no more digits before its point.
    const MOST_ZEROS: i64 = 308;
    if !text.contains(['.', 'e', 'E']) {
        return None;
    }
    let Decimal {
        is_negative,
        digits,
        exponent,
    } = Decimal::of(text)?;
    if digits.is_empty() {
        return Some("0".to_owned());
    }
    if !(0..=MOST_ZEROS).contains(&exponent) {
        return None;
    }
    let sign = if is_negative { "-" } else { "" };
    let zeros = "0".repeat(usize::try_from(exponent).ok()?);
    Some(format!("{sign}{digits}{zeros}"))
}

/// A number's digits without zeros at either end, and the place of the last one.
#[derive(PartialEq)]
struct Decimal {
    is_negative: bool,
    digits: String,
    exponent: i64,
}

impl Decimal {
    /// `None` for an exponent beyond any number's.
    fn of(text: &str) -> Option<Self> {
        let (is_negative, text) = match text.strip_prefix('-') {
            Some(text) => (true, text),
            None => (false, text),
        };
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = [whole, fraction].concat();
        let digits = digits.trim_start_matches('0');
        let significant = digits.trim_end_matches('0');
        if significant.is_empty() {
            return Some(Self {
                is_negative,
                digits: String::new(),
                exponent: 0,
            });
        }
        let trimmed = i64::try_from(digits.len() - significant.len()).ok()?;
        let places = i64::try_from(fraction.len()).ok()?;
        let exponent: i64 = exponent.parse().ok()?;
        Some(Self {
            is_negative,
            digits: significant.to_owned(),
            exponent: exponent.checked_sub(places)?.checked_add(trimmed)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::as_integer;

    #[test]
    fn integers_are_written_without_fraction_and_exponent() {
        for (text, expected) in [
            ("5.0", Some("5")),
            ("-5.00", Some("-5")),
            ("50e-1", Some("5")),
            ("1.5E3", Some("1500")),
            ("0.0", Some("0")),
            ("-0.0", Some("0")),
            ("5", None),
            ("5.5", None),
            ("1e400", None),
        ] {
            assert_eq!(as_integer(text).as_deref(), expected, "{text}");
        }
    }
}
