//! When two calls' arguments are the same: a digest of their values, which does not depend on the order of members, on white space, or on
//! how numbers and strings are written.

use super::ParsedJson;
use crate::Json;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use std::{collections::BTreeMap, fmt::Write};

/// Deeper than that, a value counts as it is written. `serde_json` reads no deeper either.
const DEEPEST: usize = 128;

/// The SHA-256 of `json` in its canonical form.
pub fn canonical_digest(json: &Json) -> [u8; 32] {
    let mut text = String::with_capacity(json.as_str().len());
    write(&mut text, json.as_str(), DEEPEST);
    Sha256::digest(text.as_bytes()).into()
}

/// Members sorted by name, of two with the same name the last; no white space; strings with the fewest escapes; numbers as
/// [`number`] has them. What cannot be read, such as half a surrogate pair, counts as it is written.
fn write(out: &mut String, raw: &str, depth: usize) {
    let raw = raw.trim();
    let understood = match raw.as_bytes().first() {
        Some(b'{') if depth > 0 => object(out, raw, depth),
        Some(b'[') if depth > 0 => array(out, raw, depth),
        Some(b'"') => string(out, raw),
        Some(b'-' | b'0'..=b'9') => number(out, raw),
        _ => None,
    };
    if understood.is_none() {
        out.push_str(raw);
    }
}

fn object(out: &mut String, raw: &str, depth: usize) -> Option<()> {
    let members: BTreeMap<String, &RawValue> = serde_json::from_str(raw).ok()?;
    out.push('{');
    for (nth, (name, value)) in members.iter().enumerate() {
        if nth > 0 {
            out.push(',');
        }
        quote(out, name);
        out.push(':');
        write(out, value.get(), depth - 1);
    }
    out.push('}');
    Some(())
}

fn array(out: &mut String, raw: &str, depth: usize) -> Option<()> {
    let items: Vec<&RawValue> = serde_json::from_str(raw).ok()?;
    out.push('[');
    for (nth, item) in items.iter().enumerate() {
        if nth > 0 {
            out.push(',');
        }
        write(out, item.get(), depth - 1);
    }
    out.push(']');
    Some(())
}

fn string(out: &mut String, raw: &str) -> Option<()> {
    let text: String = serde_json::from_str(raw).ok()?;
    quote(out, &text);
    Some(())
}

fn quote(out: &mut String, text: &str) {
    let _ = write!(out, "{}", serde_json::Value::from(text));
}

/// A number by its value: digits without zeros at either end, times a power of ten. No number is too long for it.
fn number(out: &mut String, raw: &str) -> Option<()> {
    let (negative, unsigned) = match raw.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, raw),
    };
    let (mantissa, power) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, power)) => (mantissa, power.parse::<i64>().ok()?),
        None => (unsigned, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = [whole, fraction].concat();
    let significant = digits.trim_end_matches('0');
    let dropped = i64::try_from(digits.len() - significant.len()).ok()?;
    let power = power
        .checked_sub(i64::try_from(fraction.len()).ok()?)?
        .checked_add(dropped)?;
    match significant.trim_start_matches('0') {
        "" => out.push('0'),
        significant => {
            let sign = if negative { "-" } else { "" };
            let _ = write!(out, "{sign}{significant}e{power}");
        }
    }
    Some(())
}

/// Whether both mean the same, however it is written.
impl PartialEq for ParsedJson {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
            && (self.text == other.text || canonical_digest(&self.text) == canonical_digest(&other.text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    fn of(text: &str) -> [u8; 32] {
        canonical_digest(&Json::parse(text).unwrap())
    }

    #[test]
    fn equal_arguments_are_equal_however_they_are_written() {
        for (one, other) in [
            (
                r#"{"a":1,"b":[true,null]}"#,
                " { \"b\" : [ true , null ] ,\n\t\"a\" : 1 } ",
            ),
            (r#"{"a":"\u00e4\/"}"#, r#"{"\u0061":"ä/"}"#),
            ("[1,100,0.5,-0,1e400]", "[1.0,1E+2,5e-1,0.00,10.0e399]"),
            (r#"{"a":1,"a":2}"#, r#"{"a":2}"#),
            ("[9007199254740993]", "[9007199254740993.0]"),
        ] {
            assert_eq!(of(one), of(other), "{one} {other}");
        }
    }

    #[test]
    fn other_arguments_are_other() {
        let all = [
            "{}",
            "[]",
            "null",
            "0",
            "\"0\"",
            "false",
            "\"\"",
            "[[]]",
            "[{}]",
            "1",
            "-1",
            "10",
            "0.1",
            "1e400",
            "1e401",
            "9007199254740992",
            "9007199254740993",
            "1e99999999999999999999",
            "1e99999999999999999998",
            r#"{"a":1}"#,
            r#"{"a":"1"}"#,
            r#"{"b":1}"#,
            r#"{"a":1,"b":1}"#,
            r#"{"a":{"b":1}}"#,
            "[1,2]",
            "[2,1]",
            "[12]",
            r#"["1,2"]"#,
            r#"{"a\":1,\"b":1}"#,
            r#""\ud800""#,
            r#""\ud801""#,
        ];
        for (nth, one) in all.iter().enumerate() {
            for other in &all[..nth] {
                assert_ne!(of(one), of(other), "{one} {other}");
            }
        }
    }

    #[test]
    fn no_depth_is_too_deep() {
        let deep = |inner: &str| [&"[".repeat(100_000), inner, &"]".repeat(100_000)].concat();
        assert_ne!(
            canonical_digest(&Json::trusted(deep("1"))),
            canonical_digest(&Json::trusted(deep("2")))
        );
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (-3i64..120).prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "[a-b\"\\\\\u{e4}\u{1F40C}]{0,2}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::btree_map("[a-c\u{e4}]{0,2}", inner, 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    /// Writes values in ways that differ and mean the same, by turns.
    struct Speller(std::iter::Cycle<std::vec::IntoIter<u8>>);

    impl Speller {
        fn choose(&mut self, of: usize) -> usize {
            usize::from(self.0.next().unwrap()) % of
        }

        fn space(&mut self) -> &'static str {
            ["", " ", "\n\t", "\r\n  "][self.choose(4)]
        }

        fn spell(&mut self, value: &Value) -> String {
            let (before, after) = (self.space(), self.space());
            let text = match value {
                Value::Number(number) => {
                    let zeros = "0".repeat(self.choose(3));
                    match self.choose(4) {
                        0 => number.to_string(),
                        1 => format!("{number}.0{zeros}"),
                        // JSON has no 00.
                        2 if number.as_i64() != Some(0) => format!("{number}{zeros}e-{}", zeros.len()),
                        _ => format!("{number}.{zeros}0E+00"),
                    }
                }
                Value::String(text) => self.quote(text),
                Value::Array(items) => {
                    let items: Vec<_> = items.iter().map(|item| self.spell(item)).collect();
                    format!("[{}]", items.join(","))
                }
                Value::Object(members) => {
                    let mut members: Vec<_> = members
                        .iter()
                        .map(|(name, value)| {
                            let (name, space) = (self.quote(name), self.space());
                            format!("{space}{name}{space}:{}", self.spell(value))
                        })
                        .collect();
                    if !members.is_empty() {
                        let turn = self.choose(members.len());
                        members.rotate_left(turn);
                    }
                    if self.choose(2) == 0 {
                        members.reverse();
                    }
                    format!("{{{}}}", members.join(","))
                }
                other => other.to_string(),
            };
            [before, &text, after].concat()
        }

        fn quote(&mut self, text: &str) -> String {
            let mut quoted = String::from("\"");
            for character in text.chars() {
                if self.choose(2) == 0 || matches!(character, '"' | '\\') {
                    for unit in character.encode_utf16(&mut [0; 2]) {
                        quoted.push_str(&format!("\\u{unit:04X}"));
                    }
                } else {
                    quoted.push(character);
                }
            }
            quoted + "\""
        }
    }

    proptest! {
        #[test]
        fn how_arguments_are_written_does_not_matter(
            value in value(),
            turns in prop::collection::vec(any::<u8>(), 1..64),
        ) {
            let spelled = Speller(turns.into_iter().cycle()).spell(&value);
            prop_assert_eq!(serde_json::from_str::<Value>(&spelled).is_ok(), true, "{}", spelled);
            prop_assert_eq!(of(&spelled), of(&value.to_string()), "{}", spelled);
        }

        #[test]
        fn what_arguments_say_matters(one in value(), other in value()) {
            prop_assert_eq!(of(&one.to_string()) == of(&other.to_string()), one == other);
        }
    }
}
