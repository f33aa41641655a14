//! What one attempt of a tool may take, how it ends, and when another one follows.

use crate::config::section::{Entry, Section};
use longhaul_command::{StopSettings, StopSignal, SuccessCodes};
use longhaul_core::{Millis, Retry, RetryOn};

const DEFAULT_BACKOFF: Millis = 10_000;
const MAX_ATTEMPTS: u32 = 1_000;
const MAX_GRACE: Millis = 60 * 60 * 1000;
const EXIT: &str = "exit:";

/// What a tool says of its attempts.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AttemptSettings {
    /// The exit codes that count as success.
    pub(crate) success: SuccessCodes,
    /// The longest time of one attempt, in milliseconds.
    pub(crate) timeout: Option<Millis>,
    /// How an attempt is stopped.
    pub(crate) stop: StopSettings,
    /// The retry policy.
    pub(crate) retry: Retry,
}

/// Reads what is said of attempts; `None` after a problem.
pub(super) fn read(section: &Section<'_>, deadline: Option<Millis>) -> Option<AttemptSettings> {
    let success = section.get_or("success", SuccessCodes::default(), read_success);
    let has_timeout = section.get("timeout").is_some();
    let timeout = section.optional("timeout", |entry| read_timeout(entry, deadline));
    let stop = section.get_or("stop", StopSettings::default(), read_stop);
    let retry = section.get_or("retry", Retry::default(), |entry| {
        read_policy(entry, |elements| read_ends(elements, success.as_ref(), has_timeout))
    });
    Some(AttemptSettings {
        success: success?,
        timeout: timeout?,
        stop: stop?,
        retry: retry?,
    })
}

fn read_success(entry: &Entry<'_>) -> Option<SuccessCodes> {
    let elements = entry.elements("an array of exit codes such as [0, 3]")?;
    if elements.is_empty() {
        entry.report("`success` must name an exit code: with none, every call would fail".to_owned());
        return None;
    }
    // Collected first, so that every wrong element is reported.
    let codes: Vec<Option<u32>> = elements.iter().map(|element| element.number_in(0..=255)).collect();
    codes
        .into_iter()
        .map(|code| code.and_then(|code| u8::try_from(code).ok()))
        .collect()
}

fn read_timeout(entry: &Entry<'_>, deadline: Option<Millis>) -> Option<Millis> {
    let timeout = entry.positive_duration()?;
    if deadline.is_some_and(|deadline| timeout >= deadline) {
        entry.warn(
            "`timeout` is not shorter than `deadline`, which is for all attempts and always passes first: it has no effect"
                .to_owned(),
        );
    }
    Some(timeout)
}

fn read_stop(entry: &Entry<'_>) -> Option<StopSettings> {
    let section = entry.section("`stop`", "such as { signal = \"INT\", grace = \"30s\" }")?;
    let signal = section.get_or("signal", StopSignal::default(), |entry| {
        let text = entry.text()?;
        let signal = StopSignal::named(text);
        if signal.is_none() {
            let names = StopSignal::ALL
                .map(|signal| format!("\"{}\"", signal.name()))
                .join(", ");
            entry.report(format!(
                "`signal` must be one of {names}, with or without SIG, not {text:?}"
            ));
        }
        signal
    });
    let grace_ms = section.optional("grace", |entry| entry.duration_in(0..=MAX_GRACE));
    section.finish();
    Some(StopSettings {
        signal: signal?,
        grace_ms: grace_ms?,
    })
}

/// Reads `retry` of an upstream.
pub(crate) fn read_retry(entry: &Entry<'_>) -> Option<Retry> {
    read_policy(entry, |elements| {
        let read = |element: &Entry<'_>| element.choice(&[("crash", RetryOn::Crash), ("error", RetryOn::Error)]);
        elements.iter().map(read).collect()
    })
}

/// Reads `retry`, with `read_on` for the elements of `on`.
fn read_policy(entry: &Entry<'_>, read_on: impl Fn(&[Entry<'_>]) -> Vec<Option<RetryOn>>) -> Option<Retry> {
    let section = entry.section(
        "`retry`",
        "such as { attempts = 3, backoff = \"10s\", on = [\"crash\"] }",
    )?;
    let attempts = section.require("attempts").and_then(|entry| entry.count(MAX_ATTEMPTS));
    let backoff = section.get_or("backoff", DEFAULT_BACKOFF, Entry::duration);
    let on = section.get_or("on", vec![RetryOn::Crash], |entry| {
        let elements = entry.elements("an array such as [\"crash\", \"error\"]")?;
        if elements.is_empty() {
            entry.report("`on` must name after which ends an attempt is retried, such as [\"crash\", \"error\"]; leave out `retry` for no retries".to_owned());
            return None;
        }
        read_on(&elements).into_iter().collect()
    });
    section.finish();
    Some(Retry {
        attempts: attempts?,
        backoff: backoff?,
        on: on?,
    })
}

/// Reads the ends after which a command is retried, each `None` after a problem.
fn read_ends(elements: &[Entry<'_>], success: Option<&SuccessCodes>, has_timeout: bool) -> Vec<Option<RetryOn>> {
    let ends: Vec<_> = elements.iter().map(read_end).collect();
    let has_error = ends.contains(&Some(RetryOn::Error));
    for (element, end) in elements.iter().zip(&ends) {
        match end {
            Some(RetryOn::Exit(code)) if success.is_some_and(|success| success.contains(*code)) => {
                element.report(format!(
                    "`on`: the exit code {code} counts as success, so it is never retried: leave it out here or in `success`"
                ));
            }
            Some(RetryOn::Exit(code)) if has_error => element.warn(format!(
                "`on`: \"error\" includes the exit code {code} already: leave out \"error\" to retry that code only"
            )),
            Some(RetryOn::Timeout) if !has_timeout => {
                element.report("`on` has \"timeout\", and the tool has no `timeout`: set how long an attempt may take, such as timeout = \"10m\"".to_owned());
            }
            _ => {}
        }
    }
    ends
}

fn read_end(element: &Entry<'_>) -> Option<RetryOn> {
    const EXPECTED: &str = "\"crash\", \"error\", \"timeout\" or an exit code such as \"exit:75\"";
    let text = element.text_like(EXPECTED)?;
    let code = match text {
        "crash" => return Some(RetryOn::Crash),
        "error" => return Some(RetryOn::Error),
        "timeout" => return Some(RetryOn::Timeout),
        _ => text.strip_prefix(EXIT),
    };
    let is_number = |code: &&str| code.bytes().all(|byte| byte.is_ascii_digit());
    match code.filter(is_number).and_then(|code| code.parse().ok()) {
        Some(code) => Some(RetryOn::Exit(code)),
        None if code.is_some() => {
            element.report(format!(
                "`on`: {text:?} has no exit code: write a whole number from 0 to 255 behind \"{EXIT}\""
            ));
            None
        }
        None => {
            element.report(format!("`on` must be {EXPECTED}, not {text:?}"));
            None
        }
    }
}
