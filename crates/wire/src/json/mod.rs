//! Appending JSON scalars to a buffer, and reading scalars from raw JSON.
//!
//! Longhaul's responses are mostly constant text with a few values, so the writers append to one buffer and build no tree.

pub(crate) mod object;
pub(crate) mod splice;

pub(crate) use object::{NestedObject, ObjectError, for_each_member};
pub(crate) use splice::Edit;

use serde_json::value::RawValue;
use std::{borrow::Cow, fmt::Write};

/// Appends `text` as a JSON string, quotes included.
///
/// ```
/// let mut out = String::new();
/// longhaul_wire::json::push_string(&mut out, "a \"b\"\n");
/// assert_eq!(out, r#""a \"b\"\n""#);
/// ```
pub fn push_string(out: &mut String, text: &str) {
    out.push('"');
    let mut clean_from = 0;
    for (at, byte) in text.bytes().enumerate() {
        if byte >= 0x20 && byte != b'"' && byte != b'\\' {
            continue;
        }
        // Every escaped byte is ASCII, so both slices end at a character boundary.
        out.push_str(&text[clean_from..at]);
        push_escape(out, byte);
        clean_from = at + 1;
    }
    out.push_str(&text[clean_from..]);
    out.push('"');
}

fn push_escape(out: &mut String, byte: u8) {
    match byte {
        b'"' => out.push_str("\\\""),
        b'\\' => out.push_str("\\\\"),
        b'\n' => out.push_str("\\n"),
        b'\r' => out.push_str("\\r"),
        b'\t' => out.push_str("\\t"),
        other => push_display(out, format_args!("\\u{other:04x}")),
    }
}

/// Appends an integer.
pub fn push_int(out: &mut String, number: impl itoa::Integer) {
    out.push_str(itoa::Buffer::new().format(number));
}

/// Appends a number. JSON has no infinities and no NaN: they become 0.
pub fn push_number(out: &mut String, number: f64) {
    match number {
        _ if !number.is_finite() => out.push('0'),
        // `{}` never uses an exponent: 1e300 would have 300 digits.
        _ if number.abs() < 1e15 => push_display(out, format_args!("{number}")),
        _ => push_display(out, format_args!("{number:e}")),
    }
}

fn push_display(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing into a String cannot fail.
    let _ = out.write_fmt(text);
}

/// The content of a JSON string, borrowed unless it holds escapes; `None` if `raw` is not a string or has a lone surrogate (`"\ud800"`).
pub fn string(raw: &RawValue) -> Option<Cow<'_, str>> {
    let inner = raw.get().strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') {
        serde_json::from_str(raw.get()).ok().map(Cow::Owned)
    } else {
        Some(Cow::Borrowed(inner))
    }
}

/// A non-negative whole number up to 2^53, also written as `5.0` or `5e3` (JSON Schema's `integer`); `None` for anything else.
pub fn whole(raw: &RawValue) -> Option<u64> {
    const LARGEST_EXACT: f64 = 9_007_199_254_740_992.0;
    if let Ok(number) = raw.get().parse::<u64>() {
        return Some(number);
    }
    let number = number(raw)?;
    let exact = (0.0..=LARGEST_EXACT).contains(&number) && number.fract() == 0.0;
    exact.then_some(number as u64)
}

/// A finite number; `None` for anything else.
pub fn number(raw: &RawValue) -> Option<f64> {
    let number: f64 = serde_json::from_str(raw.get()).ok()?;
    number.is_finite().then_some(number)
}

/// Whether `raw` is an object.
pub fn is_object(raw: &RawValue) -> bool {
    raw.get().starts_with('{')
}

/// Whether `raw` is `null`.
pub fn is_null(raw: &RawValue) -> bool {
    raw.get() == "null"
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn strings_round_trip(text in any::<String>()) {
            let mut out = String::new();
            push_string(&mut out, &text);
            prop_assert_eq!(&serde_json::from_str::<String>(&out).unwrap(), &text);
            let raw: &RawValue = serde_json::from_str(&out).unwrap();
            prop_assert_eq!(string(raw).unwrap(), text);
        }
    }

    #[test]
    fn every_ascii_character_round_trips() {
        let all: String = (0..=0x7f_u8).map(char::from).collect();
        let mut out = String::new();
        push_string(&mut out, &all);
        assert_eq!(serde_json::from_str::<String>(&out).unwrap(), all);
    }

    #[test]
    fn whole_numbers_are_what_json_schema_calls_integer() {
        let read = |text| whole(serde_json::from_str(text).unwrap());
        assert_eq!(read("0"), Some(0));
        assert_eq!(read("60000.0"), Some(60_000));
        assert_eq!(read("6e4"), Some(60_000));
        for text in ["-1", "1.5", "1e300", "null", "\"5\"", "[]", "true"] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn a_lone_surrogate_is_no_string() {
        assert_eq!(string(serde_json::from_str(r#""\ud800""#).unwrap()), None);
    }
}
