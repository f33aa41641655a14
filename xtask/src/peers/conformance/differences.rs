//! The checks that have another result through the gateway than directly, and why: the lines of `differences.txt`.

use super::ConformanceError;
use std::fmt;

const FILE: &str = include_str!("differences.txt");

/// A check whose result differs.
#[derive(Debug)]
pub(super) struct Difference {
    pub(super) upstream: &'static str,
    /// Its revision, scenario and name.
    pub(super) check: [&'static str; 3],
    /// The statuses of the check, sorted; `not run` if the scenario did not come to it.
    pub(super) direct: &'static str,
    pub(super) relayed: &'static str,
    pub(super) reason: &'static str,
}

impl fmt::Display for Difference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { direct, relayed, .. } = self;
        let check = self.check.join(" ");
        write!(out, "{check}: {direct} directly, {relayed} through the gateway")
    }
}

/// All of them.
///
/// # Errors
/// A line that is not understood.
pub(super) fn listed() -> Result<Vec<Difference>, ConformanceError> {
    let mut reason = "";
    let mut listed = Vec::new();
    for line in FILE.lines().filter(|line| !line.is_empty()) {
        match line.strip_prefix("# ") {
            Some(text) => reason = text,
            None => listed.push(read(line, reason).ok_or_else(|| ConformanceError::Difference(line.to_owned()))?),
        }
    }
    Ok(listed)
}

/// Reads `UPSTREAM REVISION SCENARIO CHECK: DIRECT -> RELAYED`.
fn read(line: &'static str, reason: &'static str) -> Option<Difference> {
    let (key, statuses) = line.split_once(": ")?;
    let (direct, relayed) = statuses.split_once(" -> ")?;
    let words: Vec<&str> = key.split(' ').collect();
    let &[upstream, revision, scenario, check] = words.as_slice() else {
        return None;
    };
    (!reason.is_empty()).then_some(Difference {
        upstream,
        check: [revision, scenario, check],
        direct,
        relayed,
        reason,
    })
}
