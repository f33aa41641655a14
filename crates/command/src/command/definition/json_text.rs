//! The JSON text of an argument, for commands.

use super::{argument_error::CommandArgumentError, number};
use serde_json::value::RawValue;

/// The JSON without blanks. Whole numbers that 64 bits hold are written without point and exponent, as JavaScript writes them.
pub(super) fn compact(property: &str, raw: &RawValue) -> Result<String, CommandArgumentError> {
    let mut rest = raw.get();
    let mut text = String::with_capacity(rest.len());
    while let Some(first) = rest.bytes().next() {
        let length = match first {
            b'"' => string_length(rest),
            b'-' | b'0'..=b'9' => rest
                .find(|char: char| !char.is_ascii_digit() && !"+-.eE".contains(char))
                .unwrap_or(rest.len()),
            // Outside of strings JSON is ASCII.
            _ => 1,
        };
        let (token, after) = rest.split_at(length);
        match first {
            b' ' | b'\t' | b'\n' | b'\r' => {}
            b'-' | b'0'..=b'9' if !number::is_exact(token) => {
                return Err(CommandArgumentError::Imprecise(property.to_owned()));
            }
            b'-' | b'0'..=b'9' => match number::as_integer(token).filter(|integer| fits_64_bits(integer)) {
                Some(integer) => text.push_str(&integer),
                None => text.push_str(token),
            },
            _ => text.push_str(token),
        }
        rest = after;
    }
    Ok(text)
}

/// The length of the string that `text` begins with, its quotes included.
fn string_length(text: &str) -> usize {
    let mut is_escaped = false;
    let end = text.bytes().skip(1).position(|byte| {
        let is_end = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        is_end
    });
    end.map_or(text.len(), |end| "\"".len() + end + "\"".len())
}

fn fits_64_bits(integer: &str) -> bool {
    integer.parse::<i64>().is_ok() || integer.parse::<u64>().is_ok()
}
