//! Parts of texts that may be long.

/// The longest beginning of `text` that has at most `most` bytes.
///
/// ```
/// assert_eq!(longhaul_core::beginning("aéz", 2), "a");
/// ```
pub fn beginning(text: &str, most: usize) -> &str {
    let ends = (0..=most.min(text.len())).rev();
    let end = ends.into_iter().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or_default()]
}
