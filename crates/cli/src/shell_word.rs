//! Words of a command line, as a shell reads them and a terminal shows them.

use longhaul_core::is_hidden;

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
