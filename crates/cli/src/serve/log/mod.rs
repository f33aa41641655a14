//! The server's log and its filter.

pub(crate) mod owner_log;

use crate::{args::LogFormat, output};
use longhaul_client::stderr;
use longhaul_core::plain_text;
use std::{env, ffi::OsString, io};
use tracing_subscriber::EnvFilter;

/// The environment variable with the log filter.
const VARIABLE: &str = "LONGHAUL_LOG";
/// At `info` each task logs three lines, which is too much by default. Those of the gateway tell what became of cancelled calls, and why requests failed.
/// The pool of connections to PostgreSQL tells each that is lost, and the store what follows from it.
const DEFAULT: &str = "warn,longhaul_gateway=info,deadpool=error";
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// `LONGHAUL_LOG` is not a valid filter.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "LONGHAUL_LOG is not a log filter: {why}; use a level (off, error, warn, info, debug, trace), or levels for modules such as \"info,longhaul_server=debug\""
)]
pub(crate) struct InvalidFilter {
    why: String,
}

/// Reads the filter from the environment.
///
/// # Errors
/// [`InvalidFilter`].
pub(crate) fn filter() -> Result<EnvFilter, InvalidFilter> {
    parse(env::var_os(VARIABLE))
}

/// Writes whole events to standard error, or drops them.
struct StderrLog;

/// An event of a text log as one line, whatever names of others it has. What its colours begin with was replaced in those.
fn as_line(event: &str) -> String {
    plain_text(event.trim_end(), "\u{1b}\t") + "\n"
}

impl io::Write for StderrLog {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        match std::str::from_utf8(line) {
            Ok(text) => stderr::write_or_drop(as_line(text).as_bytes()),
            Err(_) => stderr::write_or_drop(line),
        };
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Logs to standard error.
pub(super) fn to_stderr(filter: EnvFilter, format: LogFormat) {
    if format == LogFormat::Json {
        stderr::describe_dropped(dropped_as_json);
    }
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| StderrLog)
        // Reporting such an error would panic if standard error is closed.
        .log_internal_errors(false);
    match format {
        LogFormat::Text => subscriber.with_ansi(io::IsTerminal::is_terminal(&io::stderr())).init(),
        LogFormat::Json => subscriber.json().flatten_event(true).init(),
    }
}

fn dropped_as_json(dropped: u64) -> String {
    output::as_json_note(
        "WARN",
        &format!("{dropped} log lines were dropped here: nobody read standard error"),
    ) + "\n"
}

fn parse(value: Option<OsString>) -> Result<EnvFilter, InvalidFilter> {
    let Some(value) = value.filter(|value| !value.is_empty()) else {
        return Ok(EnvFilter::new(DEFAULT));
    };
    let invalid = |why: String| InvalidFilter { why };
    let text = value.into_string().map_err(|_| invalid("it is not UTF-8".to_owned()))?;
    // `EnvFilter` takes an unknown word for a module name, which would silence everything else.
    let words: Vec<&str> = text.split(',').map(str::trim).filter(|word| !word.is_empty()).collect();
    for word in &words {
        let is_level = LEVELS.contains(&&*word.to_ascii_lowercase());
        let names_a_module = word.contains(['=', '[', '/', ']', '}']) || word.starts_with("longhaul");
        if !is_level && !names_a_module {
            let hint = crate::output::nearest::suggestion(word, LEVELS).unwrap_or_default();
            return Err(invalid(format!("`{word}` is not a level; {hint}")));
        }
    }
    EnvFilter::builder()
        .parse(words.join(","))
        .map_err(|error| invalid(format!("`{text}`: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line() {
        let event = "\u{1b}[33m WARN\u{1b}[0m longhaul: tool=a\nINFO b\u{202e}c\n";
        assert_eq!(as_line(event), "\u{1b}[33m WARN\u{1b}[0m longhaul: tool=a INFO b c\n");
    }

    #[test]
    fn invalid_filters_are_refused() {
        for good in [
            "",
            "info",
            "DEBUG",
            "off",
            "warn,longhaul_server=debug",
            "longhaul",
            "hyper=info",
            "info, longhaul_runtime=trace",
        ] {
            assert!(parse(Some(good.into())).is_ok(), "{good}");
        }
        let expected = "longhaul_gateway=info,deadpool=error,warn";
        assert_eq!(parse(None).unwrap().to_string(), expected);
        for (bad, told) in [
            ("inof", "`inof` is not a level; did you mean `info`?"),
            ("verbose", "`verbose` is not a level"),
            ("info,longhaul_server=debgu", "longhaul_server=debgu"),
            ("info,debgu", "`debgu` is not a level"),
            ("longhaul=5x", "longhaul=5x"),
        ] {
            let error = parse(Some(bad.into())).unwrap_err().to_string();
            assert!(error.contains(told) && error.contains("LONGHAUL_LOG"), "{error}");
        }
    }
}
