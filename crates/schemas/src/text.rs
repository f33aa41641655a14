//! Messages as they are written.

use serde_json::Value;

/// Reads a message. A string in it may hold half a surrogate, which JSON allows and no tree holds, so that other characters stand in
/// for surrogates: in an id, say, which is given back as it came.
///
/// # Errors
/// If it is not JSON.
pub fn read(text: &str) -> serde_json::Result<Value> {
    serde_json::from_str(text).or_else(|error| {
        if text.contains("\\u") {
            serde_json::from_str(&with_stand_ins(text))
        } else {
            Err(error)
        }
    })
}

fn with_stand_ins(text: &str) -> String {
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
    fn half_a_surrogate_is_no_obstacle() {
        assert_eq!(read(r#"{"id":"\ud83d\ude00"}"#).unwrap(), json!({"id": "😀"}));
        assert_eq!(read(r#"{"id":"\uD800x"}"#).unwrap(), json!({"id": "\u{e800}x"}));
        assert_eq!(read(r#""\ud7ff\ud800""#).unwrap(), json!("\u{d7ff}\u{e800}"));
        assert!(read(r#""\u12""#).is_err());
    }
}
