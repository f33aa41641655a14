//! The audit log as operators see it, in the API and on the page.

use crate::{
    context::AdminContext,
    query::{self, InvalidQuery},
};
use longhaul_admin_api::{AuditLines, AuditQuery};
use longhaul_server::audit::AuditAction;
use serde_json::Value;
use std::io;

/// Lines that are shown, if nothing else is asked for, and at most.
const SHOWN: usize = 100;
const MOST: usize = 1_000;
/// Lines that are looked at.
const SEARCHED: usize = 20_000;

/// What lines can name as their outcome.
pub(crate) const OUTCOMES: [&str; 5] = ["ok", "unknown", "denied", "limited", "failed"];
const ACTION_WORDS: &str = "call, create, read, answer, cancel, delete, retry, reset, release, raise, pause, resume, drain, give-up, cordon, uncordon, denied, key or configuration";
const OUTCOME_WORDS: &str = "ok, unknown, denied, limited or failed";

/// What lines can name as their action.
pub(crate) fn actions() -> [&'static str; AuditAction::ALL.len()] {
    AuditAction::ALL.map(AuditAction::as_str)
}

/// How many lines are wanted.
///
/// # Errors
/// A parameter that no line can have.
fn check(query: &AuditQuery) -> Result<usize, InvalidQuery> {
    query::id("task", &query.task)?;
    let is_one_of = |name, value: &str, words: &[&str], must_be| match value.is_empty() || words.contains(&value) {
        true => Ok(()),
        false => Err(query::invalid(name, value, must_be)),
    };
    is_one_of("action", &query.action, &actions(), ACTION_WORDS)?;
    is_one_of("outcome", &query.outcome, &OUTCOMES, OUTCOME_WORDS)?;
    let limit = query::number("limit", &query.limit, 1..=MOST, "a number from 1 to 1000")?;
    Ok(limit.unwrap_or(SHOWN))
}

/// There is nothing to show.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AuditReadError {
    #[error(transparent)]
    Query(#[from] InvalidQuery),
    #[error("this server has no audit log that can be shown: set `file` in [server.audit]")]
    None,
    #[error("the audit log cannot be read: {0}")]
    Io(#[from] io::Error),
}

impl AdminContext {
    pub(crate) fn audit_lines(&self, query: &AuditQuery) -> Result<AuditLines<Value>, AuditReadError> {
        let limit = check(query)?;
        let audit = self.audit.as_ref().ok_or(AuditReadError::None)?;
        let latest = audit.latest(SEARCHED)?.ok_or(AuditReadError::None)?;
        let wanted = [
            ("task", &query.task),
            ("principal", &query.principal),
            ("action", &query.action),
            ("outcome", &query.outcome),
        ];
        let fits = |line: &Value| {
            wanted
                .iter()
                .all(|(member, text)| text.is_empty() || line[*member] == text.as_str())
        };
        let lines = latest.iter().filter_map(|line| serde_json::from_str(line).ok());
        Ok(AuditLines {
            missing: audit.lost().at_present,
            lines: lines.filter(fits).take(limit).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_list_what_can_be_asked_for() {
        for (words, text) in [(&actions()[..], ACTION_WORDS), (&OUTCOMES, OUTCOME_WORDS)] {
            let listed: Vec<&str> = text
                .split([',', ' '])
                .filter(|word| !["", "or"].contains(word))
                .collect();
            assert_eq!(listed, words);
        }
    }

    #[test]
    fn what_no_line_has_is_an_error() {
        let check = |change: fn(&mut AuditQuery)| {
            let mut query = AuditQuery::default();
            change(&mut query);
            super::check(&query).map_err(|error| error.name)
        };
        assert_eq!(check(|query| query.action = "cancel".into()), Ok(SHOWN));
        assert_eq!(check(|query| query.limit = "1000".into()), Ok(MOST));
        for limit in ["0", "1001", "x", "-1"] {
            let query = AuditQuery {
                limit: limit.into(),
                ..AuditQuery::default()
            };
            assert_eq!(super::check(&query).unwrap_err().name, "limit", "{limit}");
        }
        assert_eq!(check(|query| query.action = "canceled".into()), Err("action"));
        assert_eq!(check(|query| query.outcome = "OK".into()), Err("outcome"));
        assert_eq!(check(|query| query.task = "01m8".into()), Err("task"));
    }
}
