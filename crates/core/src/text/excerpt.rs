//! Parts of texts that may be long.

use std::borrow::Cow;

/// The longest status message, in bytes. It is stored with each change of the task.
pub const MAX_STATUS_BYTES: usize = 1024;

/// The longest beginning of `text` that has at most `max` bytes and ends with a whole character.
///
/// ```
/// assert_eq!(longhaul_core::truncate("aéz", 2), "a");
/// ```
pub fn truncate(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}

/// `text`, or its beginning of at most `max` bytes and an ellipsis.
///
/// ```
/// assert_eq!(longhaul_core::shorten("a long text", 6), "a long…");
/// ```
pub fn shorten(text: &str, max: usize) -> Cow<'_, str> {
    let shown = truncate(text, max);
    if shown.len() == text.len() {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(format!("{shown}…"))
    }
}
