//! Servers as they are shown and listed: without the secrets in their URLs and command lines.

use longhaul_core::{MASK, Masking, is_secret};

/// A text without the secrets in it.
pub(crate) fn masked(text: &str) -> String {
    Masking::default().text(text).into_owned()
}

/// The words of a command line without the secrets in them. That of `--token` is the next word.
pub(super) fn masked_words<'a>(words: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut option = None;
    let masked = words.into_iter().map(|word| {
        let is_hidden = |name: &str| is_secret(name, word) && !word.starts_with('-');
        let shown = match option.is_some_and(is_hidden) {
            true => MASK.to_owned(),
            false => masked(word),
        };
        option = word.starts_with('-').then(|| word.trim_start_matches('-'));
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
            (
                &["server", "--api-keys", "k-1", "--max-tokens", "512"],
                "server --api-keys *** --max-tokens 512",
            ),
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
