//! A task as a server showed it, in either generation's spelling.

use crate::{Outcome, RequestError, connection::read_failure};
use longhaul_core::{Json, Millis};
use serde::Deserialize;
use serde_json::value::RawValue;

/// A task at the moment it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskSnapshot {
    /// The server's id for it.
    pub id: String,
    /// Where it stands.
    pub status: Status,
    /// What the server says about it; may be shown to people.
    pub message: Option<String>,
    /// When it was made, as the server wrote it (ISO 8601).
    pub created_at: Option<String>,
    /// When it last changed, as the server wrote it (ISO 8601).
    pub last_updated_at: Option<String>,
    /// How long it is kept, in milliseconds from its creation; `None` for ever, or not said.
    pub ttl: Option<Millis>,
    /// How long the server wants to be left alone between polls, in milliseconds.
    pub poll_interval: Option<Millis>,
    /// How it ended, if it has and the server tells with the status: modern servers do, legacy ones are asked for it.
    pub outcome: Option<Outcome>,
}

/// Where a task stands. What `Failed` and `Completed` mean differs between the generations (C-04); an [`Outcome`] does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The server is at it, or will be.
    Working,
    /// Somebody has to answer a question first.
    InputRequired,
    /// It ended with a result.
    Completed,
    /// It ended badly.
    Failed,
    /// It was cancelled.
    Cancelled,
}

impl Status {
    /// Whether it will never change again.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }

    /// The protocol's word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::InputRequired => "input_required",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// Both generations' members; the later one renamed two of them.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Fields<'a> {
    task_id: String,
    status: Status,
    status_message: Option<String>,
    created_at: Option<String>,
    last_updated_at: Option<String>,
    #[serde(alias = "ttlMs")]
    ttl: Option<serde_json::Number>,
    #[serde(alias = "pollIntervalMs")]
    poll_interval: Option<serde_json::Number>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

impl TaskSnapshot {
    /// Reads a flat task. Members that are decoration may be absent or odd; the id and the status may not.
    pub(crate) fn read(json: &str) -> Result<Self, RequestError> {
        let fields: Fields<'_> =
            serde_json::from_str(json).map_err(|error| RequestError::Invalid(format!("its task: {error}")))?;
        let outcome = match (fields.status, fields.result, fields.error) {
            (Status::Completed, Some(result), _) => Some(Outcome::result(Json::from(result))),
            (Status::Failed, _, Some(error)) => Some(Outcome::RpcError(read_failure(error)?)),
            (Status::Cancelled, ..) => Some(Outcome::Cancelled),
            _ => None,
        };
        Ok(Self {
            id: fields.task_id,
            status: fields.status,
            message: fields.status_message,
            created_at: fields.created_at,
            last_updated_at: fields.last_updated_at,
            ttl: fields.ttl.and_then(millis),
            poll_interval: fields.poll_interval.and_then(millis),
            outcome,
        })
    }
}

/// Milliseconds out of a JSON number, which some servers write with a fraction; a negative one says nothing.
fn millis(number: serde_json::Number) -> Option<Millis> {
    number.as_u64().or_else(|| {
        number
            .as_f64()
            .filter(|number| *number >= 0.0)
            .map(|number| number as Millis)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_core::Verdict;

    #[test]
    fn both_generations_read_alike() {
        let legacy = TaskSnapshot::read(
            r#"{"taskId":"t","status":"working","createdAt":"a","lastUpdatedAt":"b","ttl":7200000,"pollInterval":3000}"#,
        );
        let modern = TaskSnapshot::read(
            r#"{"resultType":"complete","taskId":"t","status":"working","createdAt":"a","lastUpdatedAt":"b","ttlMs":7200000,"pollIntervalMs":3000}"#,
        );
        assert_eq!(legacy.unwrap(), modern.unwrap());
    }

    #[test]
    fn outcomes_are_read_where_they_are_told() {
        let verdict = |text: &str| {
            TaskSnapshot::read(text)
                .unwrap()
                .outcome
                .map(|outcome| outcome.verdict())
        };
        let completed = r#"{"taskId":"t","status":"completed","ttlMs":null,"result":{"content":[],"isError":true}}"#;
        assert_eq!(verdict(completed), Some(Verdict::ToolError));
        let failed = r#"{"taskId":"t","status":"failed","error":{"code":-32603,"message":"m"}}"#;
        assert_eq!(verdict(failed), Some(Verdict::RpcError));
        assert_eq!(
            verdict(r#"{"taskId":"t","status":"cancelled","ttl":null}"#),
            Some(Verdict::Cancelled)
        );
        // A legacy server tells the outcome only through tasks/result.
        assert_eq!(verdict(r#"{"taskId":"t","status":"failed","ttl":1}"#), None);
    }

    #[test]
    fn what_is_no_task_is_refused() {
        for bad in [
            "{}",
            r#"{"taskId":"t"}"#,
            r#"{"taskId":"t","status":"unknown"}"#,
            r#"{"taskId":5,"status":"working"}"#,
            "[]",
        ] {
            assert!(
                matches!(TaskSnapshot::read(bad), Err(RequestError::Invalid(_))),
                "{bad}"
            );
        }
        let odd = TaskSnapshot::read(r#"{"taskId":"t","status":"working","ttl":-1,"pollInterval":12.5}"#).unwrap();
        assert_eq!((odd.ttl, odd.poll_interval), (None, Some(12)));
    }
}
