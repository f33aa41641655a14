//! Parts of texts that may be long.

/// The longest beginning of `text` that has at most `most` bytes.
///
/// ```
/// assert_eq!(longhaul_core::beginning("aéz", 2), "a");
/// ```
pub fn beginning(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}
