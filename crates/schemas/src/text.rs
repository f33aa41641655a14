//! Reading the text of a message.

use serde_json::Value;

/// Reads a message. JSON allows lone surrogates in strings, and `serde_json` does not: a message with one is read with all surrogates replaced by
/// private-use characters.
///
/// # Errors
/// If it is not JSON.
pub fn read(text: &str) -> serde_json::Result<Value> {
    serde_json::from_str(text).or_else(|error| {
        if text.contains("\\u") {
            serde_json::from_str(&replace_surrogates(text))
        } else {
            Err(error)
        }
    })
}

fn replace_surrogates(text: &str) -> String {
    let lower = text.replace("\\uD", "\\ud");
    let mut pieces = lower.split("\\ud");
    let mut whole = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let is_half = piece.starts_with(|digit: char| "89abcdefABCDEF".contains(digit));
        whole.push_str(if is_half { "\\ue" } else { "\\ud" });
        whole.push_str(piece);
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn lone_surrogates_are_replaced() {
        assert_eq!(read(r#"{"id":"\ud83d\ude00"}"#).unwrap(), json!({"id": "😀"}));
        assert_eq!(read(r#"{"id":"\uD800x"}"#).unwrap(), json!({"id": "\u{e800}x"}));
        assert_eq!(read(r#""\ud7ff\ud800""#).unwrap(), json!("\u{d7ff}\u{e800}"));
        assert!(read(r#""\u12""#).is_err());
    }
}
