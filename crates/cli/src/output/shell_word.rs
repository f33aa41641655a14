//! Words of a command line, as a shell reads them and a terminal shows them.

use longhaul_core::is_hidden;

/// Words as on a command line, for people: quoted only where they would be taken for something else.
pub(crate) fn command_line(words: &[String]) -> String {
    let word = |word: &String| match word.is_empty()
        || word.contains(|c: char| is_hidden(c) || c.is_whitespace() || "'\"$\\".contains(c))
    {
        true => shell_word(word),
        false => word.clone(),
    };
    words.iter().map(word).collect::<Vec<_>>().join(" ")
}

/// A command line that ends within a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UnfinishedWord {
    #[error("the quote {0} is not closed")]
    Quote(char),
    #[error("nothing stands behind the backslash at its end")]
    Backslash,
}

/// The words of a command line, as a shell parts them. Nothing is replaced: variables, patterns, operators and `~` stay as they stand.
///
/// # Errors
/// [`UnfinishedWord`].
pub(crate) fn split_words(line: &str) -> Result<Vec<String>, UnfinishedWord> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut chars = line.chars();
    while let Some(char) = chars.next() {
        match (quote, char) {
            (Some(open), char) if char == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(char);
                word.get_or_insert_default();
            }
            (None | Some('"'), '\\') => {
                let escaped = chars.next().ok_or(UnfinishedWord::Backslash)?;
                let word = word.get_or_insert_default();
                if quote.is_some() && !"\\\"$`".contains(escaped) {
                    word.push('\\');
                }
                word.push(escaped);
            }
            (None, char) if char.is_whitespace() => words.extend(word.take()),
            (_, char) => word.get_or_insert_default().push(char),
        }
    }
    words.extend(word);
    match quote {
        Some(quote) => Err(UnfinishedWord::Quote(quote)),
        None => Ok(words),
    }
}

/// Quotes a word for a shell if needed.
pub(crate) fn shell_word(word: &str) -> String {
    let harmless = |char: char| char.is_ascii_alphanumeric() || "-_./:@%+=,".contains(char);
    if !word.is_empty() && word.chars().all(harmless) {
        return word.to_owned();
    }
    if word.contains(is_hidden) {
        // A terminal would obey them, and what is shown in their place would be another word.
        let quoted: String = word.chars().map(ansi_c_quoted).collect();
        return format!("$'{quoted}'");
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// A character between `$'` and `'`.
fn ansi_c_quoted(char: char) -> String {
    match char {
        '\'' | '\\' => format!("\\{char}"),
        char if is_hidden(char) => {
            let mut bytes = [0; 4];
            let bytes = char.encode_utf8(&mut bytes).bytes();
            bytes.map(|byte| format!("\\x{byte:02x}")).collect()
        }
        char => char.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_is_parted_as_a_shell_does_it() {
        for (line, words) in [
            ("", &[][..]),
            ("  ", &[]),
            ("a  b\tc", &["a", "b", "c"]),
            ("'a b' \"c d\"e f\\ g", &["a b", "c de", "f g"]),
            ("'' \"\"", &["", ""]),
            (r#""a\"b\\c\d" '\n'"#, &[r#"a"b\c\d"#, r"\n"]),
            ("echo $HOME | ~ * # é", &["echo", "$HOME", "|", "~", "*", "#", "é"]),
        ] {
            assert_eq!(split_words(line).unwrap(), words, "{line}");
            let quoted: Vec<String> = words.iter().map(|word| shell_word(word)).collect();
            assert_eq!(split_words(&quoted.join(" ")).unwrap(), words, "{quoted:?}");
        }
        assert_eq!(split_words("a 'b"), Err(UnfinishedWord::Quote('\'')));
        assert_eq!(split_words("a \"b'"), Err(UnfinishedWord::Quote('"')));
        assert_eq!(split_words("a \\"), Err(UnfinishedWord::Backslash));
    }
}
