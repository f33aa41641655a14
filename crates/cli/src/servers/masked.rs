//! Servers as they are shown and listed: without the secrets in their URLs and command lines.

use longhaul_core::{MASK, Masking, is_secret_name};

/// A text without the secrets in it.
pub(crate) fn masked(text: &str) -> String {
    Masking::default().text(text).into_owned()
}

/// The words of a command line without the secrets in them. That of `--token` is the next word.
pub(super) fn masked_words<'a>(words: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut is_secret = false;
    let masked = words.into_iter().map(|word| {
        let shown = match is_secret && !word.starts_with('-') {
            true => MASK.to_owned(),
            false => masked(word),
        };
        is_secret = word.starts_with('-') && is_secret_name(word.trim_start_matches('-'));
        shown
    });
    masked.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_of_command_lines_are_masked() {
        let shown = |words: &[&str]| masked_words(words.iter().copied()).join(" ");
        for (words, expected) in [
            (&["server", "--token", "t-1", "--fast"][..], "server --token *** --fast"),
            (&["server", "--token", "--fast"], "server --token --fast"),
            (&["server", "--api-key=t-1", "x"], "server --api-key=*** x"),
            (
                &["proxy", "https://u:p@h/mcp?key=t-1&n=1"],
                "proxy https://u:***@h/mcp?key=***&n=1",
            ),
        ] {
            assert_eq!(shown(words), expected);
        }
    }
}
