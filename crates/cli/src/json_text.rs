//! JSON that the user writes, read without changing a number silently.

use serde::de::DeserializeOwned;

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

/// Reads JSON. Whole numbers are exact; a number with a point or an exponent is the nearest 64-bit floating point number.
///
/// # Errors
/// If it is no JSON or not what is wanted, or if a whole number fits neither into `i64` nor into `u64`.
pub(crate) fn read<T: DeserializeOwned>(text: &str) -> Result<T, TextError> {
    let value = serde_json::from_str(text).map_err(|error| TextError::NotJson(error.to_string()))?;
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
