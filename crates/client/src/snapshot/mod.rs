//! A task as a server returned it.

pub(crate) mod progress;

use crate::{
    InputRequest, Outcome, Progress, RequestError, TaskStatus,
    error::rpc_failure::{INTERNAL_ERROR, read_failure},
};
use longhaul_core::{Json, JsonMembers, Millis, RpcFailure};
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

/// A task when it was last read.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskSnapshot {
    /// The server's id for it.
    pub id: String,
    /// Its status. A task whose status this client does not know is [`TaskStatus::Working`]: it has not ended.
    pub status: TaskStatus,
    /// The status as the server wrote it, if this client does not know it.
    pub unknown_status: Option<String>,
    /// The server's status message.
    pub message: Option<String>,
    /// When it was created, as the server wrote it (ISO 8601).
    pub created_at: Option<String>,
    /// When it last changed, as the server wrote it (ISO 8601).
    pub last_updated_at: Option<String>,
    /// How long it is kept, in milliseconds from its creation; `None` if unlimited or unknown.
    pub ttl: Option<Millis>,
    /// The poll interval the server asks for, in milliseconds.
    pub poll_interval: Option<Millis>,
    /// The latest progress that a legacy server has reported of it, in the statuses of a [`RunningCall`](crate::RunningCall). What a task is read with has none, in either
    /// generation.
    pub progress: Option<Progress>,
    /// What the task asks, by key, if the server sends it with the status, as modern servers do. [`TaskHandle::answer`](crate::TaskHandle::answer)
    /// answers it.
    pub input_requests: Vec<InputRequest>,
    /// The outcome, if the task has ended and the server sends it with the status, as modern servers do.
    pub outcome: Option<Outcome>,
}

/// The members of a task in both generations. The modern one renamed two of them.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Fields<'a> {
    task_id: String,
    status: String,
    status_message: Option<String>,
    created_at: Option<String>,
    last_updated_at: Option<String>,
    // Each generation has names of its own, and a server may send both.
    ttl: Option<serde_json::Number>,
    ttl_ms: Option<serde_json::Number>,
    poll_interval: Option<serde_json::Number>,
    poll_interval_ms: Option<serde_json::Number>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
    input_requests: Option<JsonMembers>,
}

impl TaskSnapshot {
    /// Reads a flat task. The id and the status are required; other members may be absent, and times may be impossible. A status that this client does not know is that of a
    /// task that has not ended.
    pub(crate) fn read(json: &str) -> Result<Self, RequestError> {
        let fields: Fields<'_> =
            serde_json::from_str(json).map_err(|error| RequestError::Invalid(format!("its task: {error}")))?;
        check_id(&fields.task_id)?;
        let known = TaskStatus::parse(&fields.status);
        let status = known.unwrap_or(TaskStatus::Working);
        let outcome = match (status, fields.result, fields.error) {
            (TaskStatus::Completed, Some(result), _) => Some(Outcome::result(Json::from(result))),
            (TaskStatus::Failed, _, Some(error)) => Some(Outcome::RpcError(read_failure(error)?)),
            (TaskStatus::Cancelled, ..) => Some(Outcome::Cancelled),
            _ => None,
        };
        let asked = fields.input_requests.into_iter().flatten();
        let asked = asked.filter(|_| status == TaskStatus::InputRequired);
        let input_requests = asked
            .map(|(key, request)| InputRequest::new(Some(key), Some(fields.task_id.clone()), request))
            .collect();
        Ok(Self {
            id: fields.task_id,
            input_requests,
            status,
            unknown_status: known.is_none().then_some(fields.status),
            message: fields.status_message,
            created_at: fields.created_at,
            last_updated_at: fields.last_updated_at,
            ttl: fields.ttl_ms.or(fields.ttl).and_then(millis),
            poll_interval: fields.poll_interval_ms.or(fields.poll_interval).and_then(millis),
            progress: None,
            outcome,
        })
    }
}

impl TaskSnapshot {
    /// The outcome that a legacy server gives with `tasks/result`. Some give a result without `isError`, or without anything, for a task that has failed: the
    /// official Python SDK does when a tool raises. The status counts, and its message says why.
    pub(crate) fn settle(&self, outcome: Outcome) -> Outcome {
        let Outcome::Result { json, is_error: false } = &outcome else {
            return outcome;
        };
        if self.status != TaskStatus::Failed {
            return outcome;
        }
        let result: Value = serde_json::from_str(json.as_str()).unwrap_or_default();
        if result["content"].as_array().is_some_and(|content| !content.is_empty()) {
            return Outcome::Result {
                json: json.clone(),
                is_error: true,
            };
        }
        let why = self.message.as_deref().filter(|message| !message.is_empty());
        Outcome::RpcError(RpcFailure {
            code: INTERNAL_ERROR,
            message: why.unwrap_or("the task failed, and its server does not say why").into(),
            data: None,
        })
    }

    /// Reads the task that a call was answered with. It is there if it has an id, whatever else is wrong with it: what the server tells of it next says more.
    pub(crate) fn read_created(json: &str) -> Result<Self, RequestError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Id {
            task_id: String,
        }
        Self::read(json).or_else(|error| {
            let Id { task_id } = serde_json::from_str(json).map_err(|_| error)?;
            check_id(&task_id)?;
            Ok(Self::unread(&task_id, TaskStatus::Working))
        })
    }

    /// A task of which nothing more is known.
    pub(crate) fn unread(id: &str, status: TaskStatus) -> Self {
        Self {
            id: id.to_owned(),
            status,
            unknown_status: None,
            message: None,
            created_at: None,
            last_updated_at: None,
            ttl: None,
            poll_interval: None,
            progress: None,
            input_requests: Vec::new(),
            outcome: None,
        }
    }
}

/// An id may be as long as a response: whoever cannot name a task that runs cannot cancel it.
fn check_id(id: &str) -> Result<(), RequestError> {
    match id.is_empty() {
        true => Err(RequestError::Invalid("its task: its id is empty".to_owned())),
        false => Ok(()),
    }
}

/// Reads milliseconds from a JSON number, which some servers write with a fraction. A negative number reads as absent.
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
    fn both_generations_read_the_same() {
        let legacy = TaskSnapshot::read(
            r#"{"taskId":"t","status":"working","createdAt":"a","lastUpdatedAt":"b","ttl":7200000,"pollInterval":3000}"#,
        );
        let modern = TaskSnapshot::read(
            r#"{"resultType":"complete","taskId":"t","status":"working","createdAt":"a","lastUpdatedAt":"b","ttlMs":7200000,"pollIntervalMs":3000}"#,
        );
        assert_eq!(legacy.unwrap(), modern.unwrap());
    }

    #[test]
    fn outcomes_are_read_where_servers_send_them() {
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
    fn invalid_tasks_are_refused() {
        for bad in ["{}", r#"{"taskId":"t"}"#, r#"{"taskId":5,"status":"working"}"#, "[]"] {
            assert!(
                matches!(TaskSnapshot::read(bad), Err(RequestError::Invalid(_))),
                "{bad}"
            );
        }
        let nameless = r#"{"taskId":"","status":"working"}"#;
        let error = TaskSnapshot::read(nameless).unwrap_err().to_string();
        assert!(error.contains("its id is empty"), "{error}");
        assert!(TaskSnapshot::read_created(nameless).is_err());
        let long = serde_json::json!({"taskId": "t".repeat(70_000), "status": "working"}).to_string();
        assert_eq!(TaskSnapshot::read(&long).unwrap().id.len(), 70_000);
        let unknown = TaskSnapshot::read(r#"{"taskId":"t","status":"submitted"}"#).unwrap();
        assert_eq!(unknown.status, TaskStatus::Working);
        assert_eq!(unknown.unknown_status.as_deref(), Some("submitted"));
        let both = TaskSnapshot::read(
            r#"{"taskId":"t","status":"working","ttl":1,"ttlMs":2,"pollInterval":3,"pollIntervalMs":4}"#,
        )
        .unwrap();
        assert_eq!((both.ttl, both.poll_interval), (Some(2), Some(4)));
        let odd = TaskSnapshot::read(r#"{"taskId":"t","status":"working","ttl":-1,"pollInterval":12.5}"#).unwrap();
        assert_eq!((odd.ttl, odd.poll_interval), (None, Some(12)));
    }
}
