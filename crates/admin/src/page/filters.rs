//! How the templates write ids and times.

use askama::{Values, filter_fn};
use std::fmt::Display;

/// Characters of a short id. The commands take it, too, if only one task has it.
const SHORT_ID: usize = 8;

/// The end of a task's id: its beginning is the time, which many share.
#[filter_fn]
pub(crate) fn short_id(id: impl Display, _: &dyn Values) -> askama::Result<String> {
    let id = id.to_string();
    let end = id.len().checked_sub(SHORT_ID).filter(|at| *at > 0);
    Ok(match end.and_then(|at| id.get(at..)) {
        Some(end) => format!("…{end}"),
        None => id,
    })
}

/// A part of 1 in percent.
#[filter_fn]
pub(crate) fn percent(part: &f64, _: &dyn Values) -> askama::Result<String> {
    Ok(format!("{:.0} %", part * 100.0))
}

/// A time of RFC 3339 in UTC for people: `2026-11-26 10:49:50 UTC`. A script shows it in the time of the browser.
#[filter_fn]
pub(crate) fn in_utc(time: impl Display, _: &dyn Values) -> askama::Result<String> {
    let time = time.to_string();
    Ok(match time.get(..19).filter(|_| time.ends_with('Z')) {
        Some(seconds) => format!("{} UTC", seconds.replace('T', " ")),
        None => time,
    })
}
