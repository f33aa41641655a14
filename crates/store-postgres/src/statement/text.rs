//! Texts that their authors chose freely, as PostgreSQL can keep them: it has no text with the character zero.
//!
//! `\0` becomes `\1` `0`, and `\1` becomes `\1` `1`. That keeps the order of bytes, and changes nothing of what people write, nor of JSON, which has
//! neither character.

use std::borrow::Cow;

const ESCAPE: char = '\u{1}';

/// As it is stored.
pub(crate) fn encode(text: &str) -> Cow<'_, str> {
    if !text.contains(['\0', ESCAPE]) {
        return Cow::Borrowed(text);
    }
    let mut stored = String::with_capacity(text.len() + 1);
    for character in text.chars() {
        match character {
            '\0' => stored.extend([ESCAPE, '0']),
            ESCAPE => stored.extend([ESCAPE, '1']),
            other => stored.push(other),
        }
    }
    Cow::Owned(stored)
}

/// As it was.
pub(crate) fn decode(stored: &str) -> Cow<'_, str> {
    if !stored.contains(ESCAPE) {
        return Cow::Borrowed(stored);
    }
    let mut text = String::with_capacity(stored.len());
    let mut characters = stored.chars();
    while let Some(character) = characters.next() {
        text.push(match character {
            ESCAPE if characters.next() == Some('0') => '\0',
            other => other,
        });
    }
    Cow::Owned(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_can_be_stored() {
        for text in ["", "plain", "\0", "\u{1}", "\u{1}0", "a\0b\u{1}1\0", "ä\u{2}"] {
            let stored = encode(text);
            assert!(!stored.contains('\0'), "{text:?}");
            assert_eq!(decode(&stored), text);
        }
    }

    #[test]
    fn the_order_stays() {
        let mut texts = ["a\0", "a\0b", "a\u{1}", "a\u{1}0", "a\u{2}", "a0", "a"];
        texts.sort_unstable();
        assert!(texts.is_sorted_by_key(|text| encode(text)));
    }
}
