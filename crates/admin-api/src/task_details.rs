//! All of one task.

use crate::{NodeView, TaskView, Word};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, value::RawValue};

/// The schema of an object that clients or tools have written.
type AnyObject = Map<String, Value>;

/// All that is known of one task.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct TaskDetails {
    /// As lists show it.
    #[serde(flatten)]
    pub task: TaskView,
    /// The server that holds its active attempt, if several share the store.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runs_at: Option<NodeView>,
    /// What a queued task waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
    /// When its time is over.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub deadline_at: Option<String>,
    /// When it goes on, or is tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub resumes_at: Option<String>,
    /// When it is deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub deleted_at: Option<String>,
    /// What the client says of itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<CallerView>,
    /// The caller's trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    /// The tasks that the client considers related, as it has named them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub related_task_ids: Vec<String>,
    /// The task that it was made of, by a retry or a reset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_of: Option<String>,
    /// The entry of that task's journal to before which it was reset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reset_before: Option<u32>,
    /// What it was called with, with what is secret hidden.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "AnyObject")]
    pub arguments: Option<Box<RawValue>>,
    /// How it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<OutcomeView>,
    /// Its open questions.
    pub questions: Vec<QuestionView>,
    /// The first 100 questions that are not open any more, without what was answered.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub settled_questions: Vec<SettledQuestionView>,
    /// Its attempts, as their files record them.
    pub attempts: Vec<AttemptView>,
    /// Its journal, from its beginning.
    pub journal: Vec<EntryView>,
    /// The position behind which the journal goes on, if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub journal_next: Option<u32>,
    /// The tasks that it has started, the first 100.
    pub children: Vec<TaskView>,
    /// Whether there is a log.
    pub has_log: bool,
}

/// What a client says of itself.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(rename = "Client")]
pub struct CallerView {
    /// The name.
    pub name: Option<String>,
    /// Its version.
    pub version: Option<String>,
    /// The protocol revision that it speaks.
    pub protocol: String,
}

/// How a task ended. Which members there are depends on `kind`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(rename = "Outcome")]
pub struct OutcomeView {
    /// What there is.
    #[schemars(extend("enum" = ["result", "error", "cancelled"]))]
    pub kind: Word,
    /// Of a result: whether the tool says that it has failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_error: Option<bool>,
    /// The result as MCP has it, with what is secret hidden.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "AnyObject")]
    pub result: Option<Box<RawValue>>,
    /// Of an error: its JSON-RPC code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<i64>,
    /// Of an error: what went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What the error says besides.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Value")]
    pub data: Option<Box<RawValue>>,
}

/// An open question.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(rename = "Question")]
pub struct QuestionView {
    /// Its name, for the answer.
    pub key: String,
    /// When it was asked.
    #[schemars(extend("format" = "date-time"))]
    pub asked_at: String,
    /// What it is in MCP.
    pub method: String,
    /// As MCP has them.
    #[schemars(with = "AnyObject")]
    pub params: Value,
}

/// A question that is not open any more. What was answered is not shown, but for whether it was accepted.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(rename = "SettledQuestion")]
pub struct SettledQuestionView {
    /// The name.
    pub key: String,
    /// What it has asked, in a line.
    pub question: String,
    /// When it was asked.
    #[schemars(extend("format" = "date-time"))]
    pub asked_at: String,
    /// When it was settled.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub settled_at: Option<String>,
    /// What has become of it; `refused`: the answer is an error.
    #[schemars(extend("enum" = ["answered", "accepted", "declined", "cancelled", "refused", "withdrawn"]))]
    pub how: Word,
    /// Who answered it; not there if it was withdrawn, or answered under an earlier release.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["client", "operator", "server"]))]
    pub by: Option<Word>,
}

/// An attempt, as its files record it.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(rename = "Attempt")]
pub struct AttemptView {
    /// Which attempt.
    pub epoch: u32,
    /// When its work began.
    #[schemars(extend("format" = "date-time"))]
    pub began: Option<String>,
    /// When it ended.
    #[schemars(extend("format" = "date-time"))]
    pub ended: Option<String>,
    /// How it ended, if that is known.
    pub exit: Option<Value>,
    /// The last line that it has written, if it has failed.
    pub last_line: Option<String>,
    /// What it runs, without the secrets that can be told; null if that is long or not known.
    pub command: Option<Vec<String>>,
    /// Whether only the program is shown, since the tool has secret arguments.
    pub hides_arguments: bool,
    /// The process on its host, while it runs.
    pub pid: Option<u32>,
}

/// An entry of a journal.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(rename = "Entry")]
pub struct EntryView {
    /// Its number, from 1.
    pub position: u32,
    /// Which operation it records.
    pub kind: Word,
    /// The name of the operation.
    pub name: String,
    /// The branch of the function that has done it; empty in the main one.
    pub branch: String,
    /// Its number among those of its branch, kind and name.
    pub ordinal: u32,
    /// When it began.
    #[schemars(extend("format" = "date-time"))]
    pub at: String,
    /// What has become of it, in words.
    pub status: String,
    /// How long it took, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub took_ms: Option<u64>,
    /// The task that it has started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub child: Option<String>,
    /// What it asks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub question: Option<String>,
    /// How often it has failed.
    pub failed_attempts: u32,
    /// Why it has failed the last time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
}

/// A part of a journal.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct JournalPart {
    /// In their order.
    pub entries: Vec<EntryView>,
    /// The position behind which it goes on, if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<u32>,
}

/// The files that an attempt of a task has left.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(rename = "Artifacts")]
pub struct ArtifactsView {
    /// The files.
    pub artifacts: Vec<ArtifactView>,
    /// What is left out, and why.
    pub problems: Vec<String>,
    /// What helps to find out why a file is not there.
    pub notes: Vec<String>,
}

/// A file that an attempt of a task has left.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(rename = "Artifact")]
pub struct ArtifactView {
    /// Its name, which may have slashes in it.
    pub name: String,
    /// Its length in bytes.
    pub size: u64,
    /// Its media type.
    pub media_type: String,
    /// The SHA-256 of its content, in hexadecimal digits.
    pub sha256: String,
}

/// A part of a log.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LogPart {
    /// What was written.
    pub text: String,
    /// Where it begins, in bytes.
    pub offset: u64,
    /// Where the next part begins.
    pub next: u64,
    /// How long the log is.
    pub total: u64,
}
