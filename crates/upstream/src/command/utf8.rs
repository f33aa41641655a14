//! Cutting text and bytes between characters, never through one.

/// The last `max` bytes at most of `raw` after decoding, in which what is not UTF-8 was replaced, and how many raw bytes stand
/// before them.
pub(super) fn decoded_tail(raw: &[u8], max: usize) -> (String, usize) {
    let decoded: usize = raw
        .utf8_chunks()
        .map(|chunk| chunk.valid().len() + replacement(chunk.invalid()))
        .sum();
    let mut excess = decoded.saturating_sub(max);
    let mut skip = 0;
    for chunk in raw.utf8_chunks() {
        if excess == 0 {
            break;
        }
        let valid = chunk.valid();
        if excess <= valid.len() {
            skip += valid.ceil_char_boundary(excess);
            break;
        }
        excess = excess.saturating_sub(valid.len() + replacement(chunk.invalid()));
        skip += valid.len() + chunk.invalid().len();
    }
    (String::from_utf8_lossy(&raw[skip..]).into_owned(), skip)
}

fn replacement(invalid: &[u8]) -> usize {
    if invalid.is_empty() {
        0
    } else {
        char::REPLACEMENT_CHARACTER.len_utf8()
    }
}

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
        fn the_tail_is_the_end_of_the_whole_and_fits(raw in proptest::collection::vec(prop_oneof![any::<u8>(), Just(0xC3), Just(0xA9), Just(b'a')], 0..60), max in 0usize..40) {
            let (tail, skip) = decoded_tail(&raw, max);
            prop_assert!(tail.len() <= max);
            prop_assert!(String::from_utf8_lossy(&raw).ends_with(&tail));
            prop_assert_eq!(String::from_utf8_lossy(&raw[skip..]).into_owned(), tail.clone());
            // Nothing more would have fitted.
            let before = String::from_utf8_lossy(&raw).len() - tail.len();
            prop_assert!(before == 0 || tail.len() + 4 > max);
        }

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
