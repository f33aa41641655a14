//! Standard output for data, standard error for everything else.

pub(crate) mod amounts;
pub(crate) mod closed_stdout;
pub(crate) mod columns;
pub(crate) mod fraction;
pub(crate) mod json_text;
pub(crate) mod kinds;
pub(crate) mod nearest;
pub(crate) mod pace;
pub(crate) mod shell_word;
pub(crate) mod states;
pub(crate) mod timestamp;
pub(crate) mod transport_warnings;

use longhaul_client::{SystemClock, stderr};
pub(crate) use longhaul_core::plain_text as plain;
use longhaul_core::{Clock as _, is_hidden, is_reordering, push_timestamp};
use parking_lot::Mutex;
use serde_json::json;
use shell_word::shell_word;
use std::{
    borrow::Cow,
    fmt::Display,
    io::{self, ErrorKind, IsTerminal, Write},
    sync::atomic::{AtomicBool, Ordering},
};

/// Whether data could not be written.
static FAILED: AtomicBool = AtomicBool::new(false);
/// Whether the reader of the pipe has closed it before all was written.
static CLOSED: AtomicBool = AtomicBool::new(false);
/// The lines for people that wait for the end of a form.
static HELD: Mutex<Option<Vec<String>>> = Mutex::new(None);
/// Whether lines for people are written as JSON.
static JSON_NOTES: AtomicBool = AtomicBool::new(false);
/// Whether a line for people is dropped rather than waited for.
static DROPS_NOTES: AtomicBool = AtomicBool::new(false);

/// From now on lines for people are JSON objects, as those of the log are.
pub(crate) fn notes_as_json() {
    JSON_NOTES.store(true, Ordering::Relaxed);
}

/// From now on lines for people that nobody reads are dropped, as those of the log are: a server must not wait for them.
pub(crate) fn drop_unread_notes() {
    DROPS_NOTES.store(true, Ordering::Relaxed);
}

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

/// Prints a line for people to standard error. One that begins with `warning: ` is a warning in a log of JSON, too.
pub(crate) fn note(line: &str) {
    say(if line.starts_with("warning: ") { "WARN" } else { "INFO" }, line);
}

/// Prints to standard error why a command ends.
pub(crate) fn failure(line: &str) {
    say("ERROR", line);
}

fn say(level: &str, line: &str) {
    let line = match JSON_NOTES.load(Ordering::Relaxed) {
        false => plain(line, "\n\t"),
        true => as_json_note(level, line),
    };
    match &mut *HELD.lock() {
        Some(held) => held.push(line),
        None if DROPS_NOTES.load(Ordering::Relaxed) => drop(stderr::write_or_drop((line + "\n").as_bytes())),
        None => drop(writeln!(io::stderr().lock(), "{line}")),
    }
}

/// A note as the server's log has its lines in JSON.
pub(crate) fn as_json_note(level: &str, line: &str) -> String {
    let mut timestamp = String::new();
    push_timestamp(&mut timestamp, SystemClock.wall());
    json!({"timestamp": timestamp, "level": level, "message": line, "target": "longhaul"}).to_string()
}

/// While a form is shown, lines for people wait: they would be written into it.
pub(crate) struct HeldNotes(());

impl HeldNotes {
    pub(crate) fn begin() -> Self {
        HELD.lock().get_or_insert_default();
        Self(())
    }
}

impl Drop for HeldNotes {
    fn drop(&mut self) {
        let held = HELD.lock().take().unwrap_or_default();
        for line in held {
            let _ = writeln!(io::stderr().lock(), "{line}");
        }
    }
}

/// An id of a server's: as it is, so that it can be copied. One with characters that are not shown is written as hints write it, for a shell.
pub(crate) fn id(id: &str) -> Cow<'_, str> {
    match id.contains(is_hidden) {
        true => Cow::Owned(shell_word(id)),
        false => Cow::Borrowed(id),
    }
}

/// A URL that a server has sent, as a browser opens it: what could be shown as something else is percent-encoded.
pub(crate) fn url(url: &str) -> String {
    let mut shown = String::new();
    for char in url.chars() {
        match char.is_ascii_graphic() || (char.is_alphanumeric() && !is_reordering(char)) {
            true => shown.push(char),
            false => {
                let mut bytes = [0; 4];
                let bytes = char.encode_utf8(&mut bytes).bytes();
                shown.extend(bytes.map(|byte| format!("%{byte:02X}")));
            }
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_for_people_wait_while_a_form_is_shown() {
        let held = HeldNotes::begin();
        note("one");
        note("two");
        assert_eq!(HELD.lock().as_deref(), Some(&["one".to_owned(), "two".to_owned()][..]));
        drop(held);
        assert_eq!(*HELD.lock(), None);
    }

    #[test]
    fn a_url_is_shown_as_it_is_opened() {
        assert_eq!(url("https://a.example/ü?q=1#x"), "https://a.example/ü?q=1#x");
        assert_eq!(url("https://a/\u{202e}x\u{1b}[2J y"), "https://a/%E2%80%AEx%1B[2J%20y");
    }

    #[test]
    fn an_id_is_shown_as_it_is_given_to_a_command() {
        assert_eq!(id("task-1 'x'"), "task-1 'x'");
        assert_eq!(id("a\u{1b}[2J'\u{202e}"), r"$'a\x1b[2J\'\xe2\x80\xae'");
        assert_eq!(id("a\nb"), shell_word("a\nb"));
    }
}
