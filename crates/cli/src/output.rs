//! Standard output for data, standard error for everything else.

use crate::closed_stdout;
use std::{
    fmt::Display,
    io::{self, ErrorKind, IsTerminal, Write},
    sync::atomic::{AtomicBool, Ordering},
};

/// Whether data could not be written.
static FAILED: AtomicBool = AtomicBool::new(false);
/// Whether the reader of the pipe has closed it before all was written.
static CLOSED: AtomicBool = AtomicBool::new(false);

/// Whether data could not be written to standard output, for another reason than that its reader has closed it.
pub(crate) fn has_failed() -> bool {
    FAILED.load(Ordering::Relaxed)
}

/// Whether all data was written so far. A result that was not is not fetched.
pub(crate) fn is_written() -> bool {
    !has_failed() && !CLOSED.load(Ordering::Relaxed)
}

/// A reader that has closed the pipe (`| head`) is no error of a list.
fn written(result: io::Result<()>) {
    let result = match closed_stdout::is_closed() {
        // What was written has gone to /dev/null.
        true => Err(io::Error::from(ErrorKind::NotConnected)),
        false => result,
    };
    match result {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::BrokenPipe => CLOSED.store(true, Ordering::Relaxed),
        Err(_) if FAILED.swap(true, Ordering::Relaxed) => {}
        Err(error) if error.kind() == ErrorKind::NotConnected => {
            note("longhaul: standard output cannot be written: it is closed");
        }
        Err(error) => note(&format!("longhaul: standard output cannot be written: {error}")),
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
