//! Where the state of a job, its progress and its result are in what a server answers.

use super::{JobPhase, JobStatus};
use crate::raw_json;
use longhaul_core::{Json, Outcome};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// Where the state of a job, and what belongs to it, are in an answer, as JSON pointers (RFC 6901); the empty pointer is all of it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct JobStates {
    /// Where the state is. Without it only the kind of answer says whether the job runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Where a line for people is; by default `message` beside the state. It need not be there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_at: Option<String>,
    /// Where the progress is: a number, or a text such as `45%`. It need not be there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress_at: Option<String>,
    /// The states of a job that is done. Upper and lower case of ASCII are the same here and in `failed`.
    #[serde(default)]
    pub done: Vec<String>,
    /// The states of a job that has failed.
    #[serde(default)]
    pub failed: Vec<String>,
    /// Where the result is; by default it is all of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_at: Option<String>,
    /// Where the reason is in the status of a job that has failed; by default it is all of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_at: Option<String>,
}

impl JobStates {
    /// What an answer says of a job: a text, a number or a boolean is its state, and `null` is none yet. `None` if there is nothing at the place of the state.
    pub(crate) fn status(&self, answer: Json) -> Option<JobStatus> {
        let found = raw_json::at(answer.as_str(), self.state.as_deref()?)?;
        let state = match found {
            "null" => "waiting".to_owned(),
            found => raw_json::scalar(found)?,
        };
        let phase = match found {
            "null" => JobPhase::Running,
            _ if names(&self.failed, &state) => JobPhase::Failed,
            _ if names(&self.done, &state) => JobPhase::Done,
            _ => JobPhase::Running,
        };
        Some(self.status_in(answer, phase, &state))
    }

    /// The same of a job whose phase is known.
    pub(crate) fn status_in(&self, answer: Json, phase: JobPhase, state: &str) -> JobStatus {
        JobStatus {
            phase,
            state: state.to_owned(),
            message: self.message(&answer, state),
            progress: self.progress(&answer),
            answer,
            retry_after: None,
        }
    }

    fn message(&self, answer: &Json, state: &str) -> String {
        let beside = || match self.state.as_deref().and_then(|state| state.rsplit_once('/')) {
            Some((parent, _)) => format!("{parent}/message"),
            None => "/message".to_owned(),
        };
        let at = self.message_at.clone().unwrap_or_else(beside);
        let message = text_at(answer, &at).filter(|message| !message.is_empty() && Some(&at) != self.state.as_ref());
        match message {
            Some(message) => format!("{state}: {message}"),
            None => state.to_owned(),
        }
    }

    fn progress(&self, answer: &Json) -> Option<(f64, Option<f64>)> {
        let text = text_at(answer, self.progress_at.as_deref()?)?;
        let (number, total) = match text.trim().strip_suffix('%') {
            Some(percent) => (percent.trim_end().to_owned(), Some(100.0)),
            None => (text, None),
        };
        let number: f64 = number.trim().parse().ok()?;
        number.is_finite().then_some((number, total))
    }

    /// Why a job has failed, by an answer that says so.
    pub(crate) fn reason(&self, answer: &Json) -> Option<String> {
        text_at(answer, self.error_at.as_deref()?)
    }
}

/// Whether a state is one of these.
fn names(states: &[String], state: &str) -> bool {
    states.iter().any(|named| named.eq_ignore_ascii_case(state))
}

/// A text, a number or a boolean.
pub(crate) fn text_at(answer: &Json, pointer: &str) -> Option<String> {
    raw_json::scalar(raw_json::at(answer.as_str(), pointer)?)
}

/// For people: a text, or JSON.
pub(crate) fn shown(value: &str) -> String {
    raw_json::text(value).unwrap_or_else(|| value.to_owned())
}

/// The result of a tool whose value this JSON is.
pub(crate) fn result_of(value: &str) -> Outcome {
    let content = json!([{"type": "text", "text": shown(value)}]).to_string();
    let structured = value.starts_with('{').then_some(("structuredContent", value));
    Outcome::result(raw_json::object(
        [("content", content.as_str())].into_iter().chain(structured),
    ))
}

/// The result of a job that has failed.
pub(crate) fn failed_job(state: &str, reason: &str) -> Outcome {
    Outcome::tool_error(&format!("The job has ended as {state:?}: {reason}"))
}
