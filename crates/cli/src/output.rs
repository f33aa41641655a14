//! Standard output for data, standard error for everything else.

use std::{
    fmt::Display,
    io::{self, ErrorKind, IsTerminal, Write},
    sync::atomic::{AtomicBool, Ordering},
};

/// Whether data could not be written.
static FAILED: AtomicBool = AtomicBool::new(false);

/// Whether data could not be written to standard output, for another reason than that its reader has closed it.
pub(crate) fn has_failed() -> bool {
    FAILED.load(Ordering::Relaxed)
}

/// A reader that has closed the pipe (`| head`) is no error.
fn written(result: io::Result<()>) {
    if let Err(error) = result
        && error.kind() != ErrorKind::BrokenPipe
        && !FAILED.swap(true, Ordering::Relaxed)
    {
        note(&format!("longhaul: standard output cannot be written: {error}"));
    }
}

/// Prints data, ending with a newline. On a terminal control characters are removed, because they could rewrite what the user sees.
pub(crate) fn text(text: &str) {
    part(text);
    if !text.is_empty() && !text.ends_with('\n') {
        part("\n");
    }
}

/// Prints a part of a text that goes on.
pub(crate) fn part(text: &str) {
    let mut out = io::stdout().lock();
    let shown = if out.is_terminal() {
        plain(text, "\n\t")
    } else {
        text.to_owned()
    };
    written(out.write_all(shown.as_bytes()).and_then(|()| out.flush()));
}

/// Prints bytes as they are.
pub(crate) fn bytes(bytes: &[u8]) {
    let mut out = io::stdout().lock();
    written(out.write_all(bytes).and_then(|()| out.flush()));
}

/// Prints a value that displays as one line of JSON.
pub(crate) fn json_line(value: &impl Display) {
    let mut out = io::stdout().lock();
    written(writeln!(out, "{value}").and_then(|()| out.flush()));
}

/// Prints a line for people to standard error.
pub(crate) fn note(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", plain(line, "\n\t"));
}

/// Replaces the control characters in `text` by spaces, except those in `keep`.
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
