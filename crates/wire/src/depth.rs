//! How deep a message may be nested.

/// Deepest nesting of arrays and objects in a message. What passes can be parsed by anything behind us, serde_json's own
/// limit of 128 included; a stack is never at risk.
pub const MAX_DEPTH: usize = 100;

/// Whether `text` opens more than [`MAX_DEPTH`] brackets within each other. Never recurses; `text` need not be valid JSON.
pub(crate) fn is_too_deep(text: &[u8]) -> bool {
    // Nearly every message holds fewer brackets in all than it may nest; counting runs at memory speed.
    let opened = text.iter().filter(|byte| matches!(byte, b'[' | b'{')).count();
    opened > MAX_DEPTH && deepest(text) > MAX_DEPTH
}

fn deepest(text: &[u8]) -> usize {
    let (mut depth, mut deepest, mut in_string, mut escaped) = (0usize, 0usize, false, false);
    for byte in text {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'[' | b'{' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nested(depth: usize) -> String {
        "[".repeat(depth) + &"]".repeat(depth)
    }

    #[test]
    fn only_nesting_counts() {
        assert!(!is_too_deep(nested(MAX_DEPTH).as_bytes()));
        assert!(is_too_deep(nested(MAX_DEPTH + 1).as_bytes()));
        assert!(!is_too_deep(format!("[{}]", vec!["[]"; 5_000].join(",")).as_bytes()));
        assert!(!is_too_deep(format!("\"\\\"{}\"", "[".repeat(5_000)).as_bytes()));
    }
}
