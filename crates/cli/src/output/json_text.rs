//! JSON that the user writes, read without changing a number silently, or leaving out a member.

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, Error, MapAccess, SeqAccess, Visitor},
};
use std::{collections::HashSet, fmt};

/// Why a text was not read.
#[derive(Debug, PartialEq, thiserror::Error)]
pub(crate) enum TextError {
    #[error("{0}")]
    NotJson(String),
    /// JSON allows it, but numbers are held in 64 bits.
    #[error(
        "the whole number {0} does not fit into 64 bits and would be changed; if the nearest floating point number is meant, write it with an exponent"
    )]
    TooLarge(String),
}

/// The text of a file without the byte order mark that some editors write before it.
pub(crate) fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// JSON on one line: a line break in it is white space, since within a string it is escaped.
pub(crate) fn one_line(json: &str) -> String {
    json.trim().replace(['\n', '\r'], " ")
}

/// The object with this member behind its others. Both are taken as their texts are: a number that is parsed may become another one.
pub(crate) fn with_member(object: &str, name: &str, value: &str) -> String {
    let object = object.trim_end();
    let begin = object.strip_suffix('}').unwrap_or(object).trim_end();
    let comma = if begin.ends_with('{') { "" } else { "," };
    format!("{begin}{comma}\"{name}\":{}}}", one_line(value))
}

/// A value whose objects have no name twice: the last one would silently win.
struct DistinctNames;

impl<'de> Deserialize<'de> for DistinctNames {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Self)
    }
}

impl<'de> Visitor<'de> for DistinctNames {
    type Value = Self;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self, A::Error> {
        let mut seen = HashSet::new();
        while let Some(name) = members.next_key::<String>()? {
            if seen.contains(&name) {
                return Err(A::Error::custom(format_args!("`{name}` stands twice in one object")));
            }
            members.next_value::<Self>()?;
            seen.insert(name);
        }
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Self, A::Error> {
        while elements.next_element::<Self>()?.is_some() {}
        Ok(self)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(self)
    }
}

/// Reads JSON. Whole numbers are exact; a number with a point or an exponent is the nearest 64-bit floating point number.
///
/// # Errors
/// If it is no JSON or not what is wanted, if an object has a name twice, or if a whole number fits neither into `i64` nor into `u64`.
pub(crate) fn read<T: DeserializeOwned>(text: &str) -> Result<T, TextError> {
    let not_json = |error: serde_json::Error| TextError::NotJson(error.to_string());
    let value = serde_json::from_str(text).map_err(not_json)?;
    serde_json::from_str::<DistinctNames>(text).map_err(not_json)?;
    match too_large(text) {
        Some(number) => Err(TextError::TooLarge(number.to_owned())),
        None => Ok(value),
    }
}

/// Whether the text is a whole number that is held exactly.
pub(crate) fn is_exact(number: &str) -> bool {
    number.parse::<i64>().is_ok() || number.parse::<u64>().is_ok()
}

/// The first whole number in valid JSON that is not held exactly.
fn too_large(json: &str) -> Option<&str> {
    let bytes = json.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let start = at;
        at += 1;
        match bytes[start] {
            b'"' => {
                while bytes.get(at).is_some_and(|byte| *byte != b'"') {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
                at += 1;
            }
            b'-' | b'0'..=b'9' => {
                let is_part = |byte: &u8| byte.is_ascii_digit() || b"+-.eE".contains(byte);
                at += bytes[at..].iter().take_while(|byte| is_part(byte)).count();
                let number = &json[start..at];
                if !number.contains(['.', 'e', 'E']) && !is_exact(number) {
                    return Some(number);
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    #[test]
    fn a_member_is_added_and_no_number_is_changed() {
        let object = "{\"id\": 12345678901234567890123,\n \"x\": 1.10}";
        let expected = r#"{"id": 12345678901234567890123,  "x": 1.10,"result":{ "e": 1e400}}"#;
        assert_eq!(with_member(&one_line(object), "result", "{\n\"e\": 1e400}"), expected);
        assert_eq!(with_member("{ }", "a", "1"), r#"{"a":1}"#);
    }

    #[test]
    fn whole_numbers_are_exact_or_refused() {
        let large = "1000000000000000000000";
        let read = |text: &str| read::<Value>(text);
        assert_eq!(read(large), Err(TextError::TooLarge(large.to_owned())));
        assert_eq!(
            read(&format!("{{\"a\\\"1\":[-1, {large}]}}")),
            Err(TextError::TooLarge(large.to_owned()))
        );
        for exact in ["18446744073709551615", "-9223372036854775808", "[0,-0,\"1\"]"] {
            assert!(read(exact).is_ok(), "{exact}");
        }
        assert_eq!(read("1e21").unwrap(), Value::from(1e21));
        assert_eq!(read(&format!("[\"\\\\\", \"{large}\"]")).unwrap()[1], large);
        assert!(matches!(read("{"), Err(TextError::NotJson(_))));
    }

    #[test]
    fn a_name_stands_once_in_an_object() {
        for twice in [r#"{"a":1,"a":2}"#, r#"[{"b":{"a":1,"c":2,"\u0061":null}}]"#] {
            let error = read::<Value>(twice).unwrap_err().to_string();
            assert!(
                error.starts_with("`a` stands twice in one object at line 1 column"),
                "{error}"
            );
        }
        let once = r#"{"a":{"a":[true,null,1.5,-1,"a"]},"b":{"a":1}}"#;
        assert_eq!(read::<Value>(once).unwrap().to_string(), once);
    }

    proptest! {
        #[test]
        fn what_is_read_is_written_again(digits in "-?(0|[1-9][0-9]{0,25})", text in "[ -~]{0,8}") {
            let json = serde_json::json!([text]).to_string().replace(']', &format!(",{digits}]"));
            prop_assume!(json.matches(&digits).count() == 1);
            match read::<Value>(&json) {
                Ok(value) => prop_assert!(value.to_string().contains(&digits) || digits == "-0"),
                Err(error) => prop_assert!(matches!(error, TextError::TooLarge(_)) && !is_exact(&digits), "{error}"),
            }
        }
    }
}
