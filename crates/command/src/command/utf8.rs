//! Cutting text and bytes between characters, never through one.

/// How many bytes at the front of `raw` belong to a character that began before it.
pub(super) fn orphans(raw: &[u8]) -> usize {
    raw.iter().take(3).take_while(|byte| **byte & 0xC0 == 0x80).count()
}

/// How many bytes at the end of `raw` are the beginning of a character that is not complete.
pub(super) fn unfinished(raw: &[u8]) -> usize {
    let last = raw.utf8_chunks().last().map_or(&[][..], |chunk| chunk.invalid());
    let wanted = match last.first() {
        Some(0xC2..=0xDF) => 2,
        Some(0xE0..=0xEF) => 3,
        Some(0xF0..=0xF4) => 4,
        _ => 0,
    };
    if last.len() < wanted { last.len() } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_cut_of_a_text_gives_whole_characters(text in "[aé€😀]{0,12}", at in 0usize..48) {
            let raw = text.as_bytes();
            let at = at.min(raw.len());
            let (front, back) = raw.split_at(at);
            prop_assert!(std::str::from_utf8(&front[..front.len() - unfinished(front)]).is_ok());
            prop_assert!(std::str::from_utf8(&back[orphans(back)..]).is_ok());
        }
    }
}
