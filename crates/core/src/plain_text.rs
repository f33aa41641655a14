//! Texts of others, as they are shown among ours: none of their characters rewrites or reverses what stands around them.

/// Whether a character shows the letters behind it backwards, or begins a line as a line break does.
pub fn is_reordering(char: char) -> bool {
    matches!(char, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Whether a character is not shown as it is, because it could rewrite what a reader sees: a control character, also a line break, or one that
/// [reorders](is_reordering) letters.
pub fn is_hidden(char: char) -> bool {
    char.is_control() || is_reordering(char)
}

/// The text with a space in place of each character that is [hidden](is_hidden), except those in `keep`.
pub fn plain_text(text: &str, keep: &str) -> String {
    let shown = |char| match is_hidden(char) && !keep.contains(char) {
        true => ' ',
        false => char,
    };
    text.chars().map(shown).collect()
}

/// The same on one line.
///
/// ```
/// assert_eq!(longhaul_core::plain_line("user:a\u{202e}nimda\u{1b}[2J\nx"), "user:a nimda [2J x");
/// assert_eq!(longhaul_core::plain_line("Zoë שלום"), "Zoë שלום");
/// ```
pub fn plain_line(text: &str) -> String {
    plain_text(text, "")
}
