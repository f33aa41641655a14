//! The limits on the nesting of messages and of the results they carry.

/// The deepest allowed nesting of arrays and objects in a message. It is below serde_json's own limit of 128, so a message that
/// passes can be parsed anywhere later.
pub const MAX_DEPTH: usize = 100;

/// The deepest allowed nesting of a `CallToolResult`, its own object included. A message adds at most two levels around it: the response to a
/// modern `tasks/get` has it in an object (`result`) of an object (the response).
pub const MAX_RESULT_DEPTH: usize = MAX_DEPTH - 2;

/// Whether brackets in `text` nest deeper than `max` levels. Does not recurse. `text` need not be valid JSON.
///
/// ```
/// use longhaul_core::nests_deeper;
/// assert!(nests_deeper(br#"{"a":[1]}"#, 1));
/// assert!(!nests_deeper(br#"{"a":[1]}"#, 2));
/// ```
pub fn nests_deeper(text: &[u8], max: usize) -> bool {
    // Most messages have fewer brackets in total than the limit, and counting them is much faster than tracking depth.
    count_opened(text) > max && is_nested_deeper(text, max)
}

/// Counts the bytes of `text` that are `[` or `{`, also inside strings.
fn count_opened(text: &[u8]) -> usize {
    // The two differ in one bit and a chunk's count fits a byte, so the compiler can vectorize the loop.
    let in_chunk = |chunk: &[u8]| chunk.iter().map(|byte| u8::from(byte | 0x20 == b'{')).sum::<u8>();
    text.chunks(usize::from(u8::MAX))
        .map(|chunk| usize::from(in_chunk(chunk)))
        .sum()
}

fn is_nested_deeper(text: &[u8], max: usize) -> bool {
    let (mut depth, mut rest) = (0usize, text);
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'"' => rest = after_string(after),
            b'[' | b'{' if depth == max => return true,
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
}

/// Skips the rest of a string whose opening quote has been read.
fn after_string(mut text: &[u8]) -> &[u8] {
    while let Some(at) = text.iter().position(|byte| matches!(byte, b'"' | b'\\')) {
        let escape = usize::from(text[at] == b'\\');
        text = text.get(at + 1 + escape..).unwrap_or_default();
        if escape == 0 {
            return text;
        }
    }
    &[]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nested(depth: usize) -> String {
        "[".repeat(depth) + &"]".repeat(depth)
    }

    fn is_too_deep(text: &[u8]) -> bool {
        nests_deeper(text, MAX_DEPTH)
    }

    #[test]
    fn only_nesting_counts() {
        assert!(!is_too_deep(nested(MAX_DEPTH).as_bytes()));
        assert!(is_too_deep(nested(MAX_DEPTH + 1).as_bytes()));
        assert!(!is_too_deep(format!("[{}]", vec!["[]"; 5_000].join(",")).as_bytes()));
        assert!(!is_too_deep(format!("\"\\\"{}\"", "[".repeat(5_000)).as_bytes()));
        assert!(is_too_deep(format!("[\"\\\\\",{}", "{".repeat(MAX_DEPTH)).as_bytes()));
        assert!(!is_too_deep(
            format!("[\"\\\\\",{}", "{".repeat(MAX_DEPTH - 1)).as_bytes()
        ));
        assert!(
            !is_too_deep(format!("\"{}\\", "[".repeat(5_000)).as_bytes()),
            "cut off within an escape"
        );
    }
}
