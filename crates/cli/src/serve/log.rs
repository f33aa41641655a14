//! What the server itself logs, and how much of it.

use std::{env, ffi::OsString, io};
use tracing_subscriber::EnvFilter;

/// The variable that chooses what is logged.
const VARIABLE: &str = "LONGHAUL_LOG";
/// What goes wrong. The life of each task is at `info`: three lines a task are too much for a server that nobody reads.
const DEFAULT: &str = "warn";
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// `LONGHAUL_LOG` is no filter.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "LONGHAUL_LOG is not a log filter: {why}; write a level (off, error, warn, info, debug, trace), or one for a part of the program, such as \"info,longhaul_server=debug\""
)]
pub(crate) struct InvalidFilter {
    why: String,
}

/// The filter that this process's environment asks for.
///
/// # Errors
/// [`InvalidFilter`].
pub(crate) fn filter() -> Result<EnvFilter, InvalidFilter> {
    parse(env::var_os(VARIABLE))
}

/// Logs to standard error.
pub(super) fn to_stderr(filter: EnvFilter) {
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(io::IsTerminal::is_terminal(&io::stderr()))
        // It would panic where standard error is gone, as after a SIGHUP.
        .log_internal_errors(false)
        .init();
}

fn parse(value: Option<OsString>) -> Result<EnvFilter, InvalidFilter> {
    let Some(value) = value.filter(|value| !value.is_empty()) else {
        return Ok(EnvFilter::new(DEFAULT));
    };
    let invalid = |why: String| InvalidFilter { why };
    let text = value.into_string().map_err(|_| invalid("it is not UTF-8".to_owned()))?;
    // A word that is no level would be taken for a part of the program, and be a filter that lets nothing else through.
    let words: Vec<&str> = text.split(',').map(str::trim).filter(|word| !word.is_empty()).collect();
    for word in &words {
        let is_level = LEVELS.contains(&&*word.to_ascii_lowercase());
        let names_a_part = word.contains(['=', '[', '/', ']', '}']) || word.starts_with("longhaul");
        if !is_level && !names_a_part {
            let hint = crate::nearest::suggestion(word, LEVELS).unwrap_or_default();
            return Err(invalid(format!("`{word}` is no level; {hint}")));
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
    fn what_is_no_filter_is_refused() {
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
        assert_eq!(parse(None).unwrap().to_string(), "warn");
        for (bad, told) in [
            ("inof", "`inof` is no level; did you mean `info`?"),
            ("verbose", "`verbose` is no level"),
            ("info,longhaul_server=debgu", "longhaul_server=debgu"),
            ("info,debgu", "`debgu` is no level"),
            ("longhaul=5x", "longhaul=5x"),
        ] {
            let error = parse(Some(bad.into())).unwrap_err().to_string();
            assert!(error.contains(told) && error.contains("LONGHAUL_LOG"), "{error}");
        }
    }
}
