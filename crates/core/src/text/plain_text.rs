//! Texts of others, as they are shown among ours: none of their characters rewrites or reverses what stands around them.

/// Whether a character changes the order in which the letters around it are shown, or begins a line as a line break does.
pub fn is_reordering(char: char) -> bool {
    matches!(
        char,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    )
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
/// assert_eq!(longhaul_core::plain_line("a\u{200e}b\u{200f}c\u{61c}d\u{2069}e"), "a b c d e");
/// ```
pub fn plain_line(text: &str) -> String {
    plain_text(text, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The controls of the Unicode Bidirectional Algorithm (UAX #9), and the two separators.
    #[test]
    fn all_controls_that_reorder_letters_are_hidden() {
        let all: String = ('\0'..=char::MAX).filter(|char| is_reordering(*char)).collect();
        assert_eq!(
            all,
            "\u{61c}\u{200e}\u{200f}\u{2028}\u{2029}\u{202a}\u{202b}\u{202c}\u{202d}\u{202e}\u{2066}\u{2067}\u{2068}\u{2069}"
        );
    }
}
