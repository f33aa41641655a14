//! The audit log as operators see it: the JSON of the API, of which the page is made, too.

use crate::context::AdminContext;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::io;

/// Lines that are shown, if nothing else is asked for, and at most.
const SHOWN: usize = 100;
const MOST: usize = 1_000;
/// Lines that are looked at.
const SEARCHED: usize = 20_000;

/// Which lines are wanted: those that have all of these.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct AuditQuery {
    /// The id of a task.
    pub(crate) task: String,
    pub(crate) principal: String,
    pub(crate) action: String,
    pub(crate) outcome: String,
    /// How many.
    pub(crate) limit: Option<usize>,
}

impl AuditQuery {
    /// Whether not all lines are wanted.
    pub(crate) fn is_filtered(&self) -> bool {
        [&self.task, &self.principal, &self.action, &self.outcome]
            .into_iter()
            .any(|text| !text.is_empty())
    }
}

/// The latest lines of the log, newest first.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct AuditLines {
    pub(crate) lines: Vec<Value>,
    /// How many could not be written since the latest one that is there.
    #[serde(skip_serializing_if = "is_none")]
    pub(crate) missing: u64,
}

fn is_none(count: &u64) -> bool {
    *count == 0
}

/// There is nothing to show.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AuditReadError {
    #[error("this server has no audit log that can be shown: set `file` in [server.audit]")]
    None,
    #[error("the audit log cannot be read: {0}")]
    Io(#[from] io::Error),
}

impl AdminContext {
    pub(crate) fn audit_lines(&self, query: &AuditQuery) -> Result<AuditLines, AuditReadError> {
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
            lines: lines
                .filter(fits)
                .take(query.limit.unwrap_or(SHOWN).min(MOST))
                .collect(),
        })
    }
}
