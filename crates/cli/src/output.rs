//! Standard output for data, standard error for everything else.

use serde_json::Value;
use std::io::{self, IsTerminal, Write};

/// Prints data, with an end of line if it has none. To a terminal, control characters of strangers are not passed on: they
/// could rewrite what the user sees.
pub(crate) fn text(text: &str) {
    let mut out = io::stdout().lock();
    let shown = if out.is_terminal() {
        plain(text, "\n\t")
    } else {
        text.to_owned()
    };
    let end = if shown.is_empty() || shown.ends_with('\n') {
        ""
    } else {
        "\n"
    };
    // A reader that hung up (`| head`) has what it wanted.
    let _ = write!(out, "{shown}{end}").and_then(|()| out.flush());
}

/// Prints a value as one line of JSON.
pub(crate) fn json_line(value: &Value) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{value}").and_then(|()| out.flush());
}

/// Prints a line for the user, not for a program.
pub(crate) fn note(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", plain(line, "\n\t"));
}

/// `text` without control characters but those in `keep`.
pub(crate) fn plain(text: &str, keep: &str) -> String {
    text.chars()
        .map(|char| {
            if char.is_control() && !keep.contains(char) {
                ' '
            } else {
                char
            }
        })
        .collect()
}
