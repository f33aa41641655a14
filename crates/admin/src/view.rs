//! Tasks and tools as operators see them: the JSON of the API, of which the page is made, too.

use crate::{
    masking::masked_text,
    nodes::NodeView,
    recent_ends::Failure,
    words::{self, state_word, timestamp},
};
use longhaul_core::{
    AttemptState, InputState, Json, Now, Origin, Outcome, StopReason, Task, UnixMillis, push_timestamp, store::Record,
    truncate,
};
use longhaul_runtime::{EntryStatus, EntrySummary, PastAttempt, Requestor};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json, value::RawValue};
use std::borrow::Cow;

/// Bytes of the last line of a command that are shown.
const LONGEST_LINE: usize = 300;

/// A task in a list.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskView {
    /// Its id.
    pub id: String,
    /// Its tool.
    pub tool: String,
    /// `queued`, `running`, `suspended`, `blocked`, `succeeded`, `failed` or `cancelled`.
    pub state: &'static str,
    /// Whether a question is open.
    pub asks: bool,
    /// What the first open question asks, in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub question: Option<String>,
    /// Whose it is.
    pub principal: String,
    /// Which generation created it: `legacy` or `modern`.
    pub origin: &'static str,
    /// When it was created, as RFC 3339.
    pub created_at: String,
    /// Its last visible change.
    pub updated_at: String,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
    /// How long it has lived, or did until its end, in milliseconds.
    pub age_ms: u64,
    /// For how long it has been over, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_ms_ago: Option<u64>,
    /// The latest line about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// The last line that its command has written, if it has failed: mostly why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_line: Option<String>,
    /// The task that a retry has made of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retried_as: Option<String>,
    /// The task that a reset has made of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reset_as: Option<String>,
    /// How far it has come, and of how much if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<Value>,
    /// Whether clients may know its id. A plain call is not announced.
    pub announced: bool,
    /// Attempts that count for the retry policy.
    pub attempts_used: u32,
    /// The latest attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<Value>,
    /// The task that started it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Why its work is to stop: `cancel` or `deadline`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopping: Option<&'static str>,
    /// Why it is blocked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocked: Option<Value>,
}

impl TaskView {
    /// The view of a task now.
    pub fn of(task: &Task, now: Now) -> Self {
        let time = |at| timestamp(now, at);
        let until = task.ended_at.unwrap_or(now.at);
        Self {
            id: task.id.to_string(),
            tool: task.tool.to_string(),
            state: state_word(task.state),
            asks: !task.open_inputs.is_empty(),
            question: None,
            principal: task.owner.principal.as_str().to_owned(),
            origin: match task.origin {
                Origin::Legacy => words::LEGACY,
                Origin::Modern => words::MODERN,
            },
            created_at: time(task.created_at),
            updated_at: time(task.updated_at),
            ended_at: task.ended_at.map(time),
            age_ms: until.since(task.created_at),
            ended_ms_ago: task.ended_at.map(|ended_at| now.at.since(ended_at)),
            status: task.status_line().map(|line| line.into_owned()),
            last_line: None,
            retried_as: None,
            reset_as: None,
            progress: task
                .progress
                .map(|progress| json!({"current": progress.current, "total": progress.total})),
            announced: task.announced,
            attempts_used: task.attempts_used,
            attempt: task.attempt.as_ref().map(|attempt| {
                json!({
                    "epoch": attempt.epoch,
                    "node": attempt.node.0,
                    "host": attempt.host.as_ref().map(|host| host.0.to_string()),
                    "state": match attempt.state {
                        AttemptState::Starting => "starting",
                        AttemptState::Live => "live",
                        AttemptState::Stopping => "stopping",
                        AttemptState::Ended => "ended",
                    },
                })
            }),
            parent: task.lineage.as_ref().map(|lineage| lineage.parent.to_string()),
            stopping: task.stop.filter(|_| !task.is_done()).map(|stop| match stop.reason {
                StopReason::Cancel => "cancel",
                StopReason::Deadline => "deadline",
            }),
            blocked: task.block().map(|blocked| {
                json!({
                    "reason": blocked.reason.to_string(),
                    "message": &*blocked.failure.message,
                    "since": time(blocked.since),
                    "until": time(blocked.until),
                    "tries": blocked.tries,
                })
            }),
        }
    }
}

/// All that is known of one task.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TaskDetails {
    #[serde(flatten)]
    pub(crate) task: TaskView,
    /// The server that holds its active attempt, if several share the store.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) runs_at: Option<NodeView>,
    /// What a queued task waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) waits_for: Option<String>,
    /// When its time is over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) deadline_at: Option<String>,
    /// When it goes on, or is tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) resumes_at: Option<String>,
    /// When it is deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) deleted_at: Option<String>,
    /// The name and version that the client gives itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) client: Option<Value>,
    /// The caller's trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) traceparent: Option<String>,
    /// The tasks that the client considers related.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) related_task_ids: Vec<String>,
    /// The task that it was made of, by a retry or a reset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) retry_of: Option<String>,
    /// The entry of that task's journal to before which it was reset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reset_before: Option<u32>,
    /// What it was called with, if it is shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) arguments: Option<Box<RawValue>>,
    /// How it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) outcome: Option<Json>,
    /// Its open questions.
    pub(crate) questions: Vec<QuestionView>,
    /// The first 100 questions that are not open any more.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) settled_questions: Vec<SettledQuestionView>,
    /// Its attempts, as their files record them.
    pub(crate) attempts: Vec<Value>,
    /// Its journal, from its beginning.
    pub(crate) journal: Vec<EntryView>,
    /// The position behind which the journal goes on, if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) journal_next: Option<u32>,
    /// The tasks that it has started, the first 100.
    pub(crate) children: Vec<TaskView>,
    /// Whether there is a log.
    pub(crate) has_log: bool,
}

/// An open question.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct QuestionView {
    pub(crate) key: String,
    pub(crate) asked_at: String,
    pub(crate) method: String,
    pub(crate) params: Value,
}

/// A question that is not open any more. What was answered is not shown, but for whether it was accepted.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SettledQuestionView {
    pub(crate) key: String,
    /// What it has asked, in a line.
    pub(crate) question: String,
    pub(crate) asked_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) settled_at: Option<String>,
    /// `answered`, `accepted`, `declined`, `cancelled`, `refused` (the answer is an error) or `withdrawn`.
    pub(crate) how: &'static str,
    /// `client`, `operator` or `server`, if it was answered; not of answers that earlier releases have taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) by: Option<&'static str>,
}

/// What has become of a question; `None` while it is open.
pub(crate) fn settled(state: &InputState) -> Option<&'static str> {
    let answer = match state {
        InputState::Open => return None,
        InputState::Withdrawn => return Some("withdrawn"),
        InputState::Answered(answer) => answer,
    };
    if longhaul_runtime::read_answer(answer.clone()).is_err() {
        return Some("refused");
    }
    let answer: Value = serde_json::from_str(answer.as_str()).unwrap_or_default();
    Some(match answer["action"].as_str() {
        Some("accept") => "accepted",
        Some("decline") => "declined",
        Some("cancel") => "cancelled",
        // Of a model or a list of roots.
        _ => "answered",
    })
}

/// An entry of the journal.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EntryView {
    pub(crate) position: u32,
    pub(crate) kind: &'static str,
    pub(crate) name: String,
    pub(crate) branch: String,
    pub(crate) ordinal: u32,
    pub(crate) at: String,
    pub(crate) status: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) took_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) child: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) question: Option<String>,
    pub(crate) failed_attempts: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last_error: Option<String>,
}

impl EntryView {
    pub(crate) fn of(position: u32, entry: EntrySummary) -> Self {
        let mut at = String::new();
        push_timestamp(&mut at, entry.at);
        Self {
            position,
            kind: entry.key.kind.name(),
            name: entry.key.name.to_string(),
            branch: entry.key.path.to_string(),
            ordinal: entry.key.nth,
            at,
            status: status_word(&entry.status),
            took_ms: entry.took,
            child: entry.child.map(|child| child.to_string()),
            question: entry.question,
            failed_attempts: entry.failed_count,
            last_error: entry.failed.last().map(|failed| failed.why.clone()),
        }
    }
}

fn status_word(status: &EntryStatus) -> String {
    match status {
        EntryStatus::Waiting(Some(until)) => {
            let mut text = "waits until ".to_owned();
            push_timestamp(&mut text, *until);
            text
        }
        EntryStatus::Waiting(None) => "waits".to_owned(),
        EntryStatus::Done => "done".to_owned(),
        EntryStatus::Failed(why) => format!("failed: {why}"),
        EntryStatus::Unanswered => "not answered in time".to_owned(),
        EntryStatus::Withdrawn => "withdrawn".to_owned(),
        EntryStatus::Unreadable => "unreadable: another version of Longhaul has written it".to_owned(),
    }
}

/// How a task ended, as JSON.
/// Of a result only what `hides` leaves of it. Otherwise it is as it was written.
pub(crate) fn outcome(record: &Record, hides: impl Fn(&mut Value) -> bool) -> Option<Json> {
    Some(match record.outcome.as_ref()? {
        Outcome::Result { json, is_error } => {
            let masked = masked_text(json.as_str(), hides);
            let result = masked.as_ref().unwrap_or(json).as_str();
            Json::trusted(format!(r#"{{"kind":"result","isError":{is_error},"result":{result}}}"#))
        }
        Outcome::RpcError(failure) => {
            let message = Value::from(&*failure.message);
            let data = failure.data.as_ref().map_or("null", Json::as_str);
            let code = failure.code;
            Json::trusted(format!(
                r#"{{"kind":"error","code":{code},"message":{message},"data":{data}}}"#
            ))
        }
        Outcome::Cancelled => Json::trusted(r#"{"kind":"cancelled"}"#),
    })
}

/// The last line that a failed command has written; `None` of any other task.
pub(crate) fn last_line(record: &Record) -> Option<String> {
    #[derive(Deserialize)]
    struct FailedResult<'a> {
        #[serde(borrow)]
        content: Vec<Block<'a>>,
        #[serde(rename = "_meta")]
        _meta: Meta,
    }
    #[derive(Deserialize)]
    struct Block<'a> {
        #[serde(borrow)]
        text: Cow<'a, str>,
    }
    /// Only commands have one.
    #[derive(Deserialize)]
    struct Meta {
        #[serde(rename = "dev.longhaul/exit")]
        _exit: Value,
    }
    let Outcome::Result { json, is_error: true } = record.outcome.as_ref()? else {
        return None;
    };
    let failed: FailedResult<'_> = serde_json::from_str(json.as_str()).ok()?;
    let lines = failed.content.first()?.text.lines().map(str::trim);
    // The first one says how it has ended, and is its status line.
    let written = lines
        .skip(1)
        .filter(|line| !line.is_empty() && !line.starts_with("[longhaul: "));
    written.last().map(|line| truncate(line, LONGEST_LINE).to_owned())
}

/// What the caller said of itself.
pub(crate) fn client(requestor: &Requestor) -> Option<Value> {
    let client: Value = serde_json::from_str(requestor.client.as_ref()?.as_str()).ok()?;
    Some(json!({"name": client["name"], "version": client["version"], "protocol": requestor.version}))
}

/// An attempt. With `hides_arguments` only the program of its command is shown, since a word behind it may be a secret argument.
pub(crate) fn attempt(attempt: &PastAttempt, now: Now, hides_arguments: bool) -> Value {
    let shown = if hides_arguments { 1 } else { usize::MAX };
    let command = attempt.command.get(..shown.min(attempt.command.len()));
    json!({
        "epoch": attempt.epoch,
        "began": attempt.began.map(|at| timestamp(now, at)),
        "ended": attempt.ended.map(|at| timestamp(now, at)),
        "exit": attempt.exit.as_ref().and_then(|exit| exit.to_json()),
        "lastLine": attempt.last_line,
        "command": command.filter(|words| !words.is_empty()),
        "hidesArguments": hides_arguments && attempt.command.len() > 1,
        "pid": attempt.pid,
    })
}

/// A tool and what becomes of its calls.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolView {
    /// Its name.
    pub name: String,
    /// Whether it is offered. One that is not may have tasks of earlier.
    pub offered: bool,
    /// Whether an operator has paused it: then nothing of it begins.
    pub paused: bool,
    /// The upstream of a gateway that it is of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream: Option<String>,
    /// The upstream that is paused, and the tool with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused_upstream: Option<String>,
    /// The kind of its provider, such as `command`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Its limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<usize>,
    /// Live tasks by state.
    pub queued: u64,
    /// Those that run, or wait in memory.
    pub running: u64,
    /// Those that wait without code in memory.
    pub suspended: u64,
    /// Those that cannot go on.
    pub blocked: u64,
    /// Those with an open question.
    pub asking: u64,
    /// For how long the first queued task has been ready, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_age_ms: Option<u64>,
    /// Since the start of this process: tasks and calls that have succeeded.
    pub succeeded: u64,
    /// Those that have failed.
    pub failed: u64,
    /// Those that were cancelled.
    pub cancelled: u64,
    /// From creation to the end, in the mean, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_ms: Option<f64>,
    /// Tasks and calls that have ended, for each minute, in the mean of the last five minutes.
    pub per_minute: f64,
    /// Attempts that have failed since the last task that has succeeded.
    pub failed_in_row: u32,
    /// The latest failure since the start of this process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<FailureView>,
}

/// A task or call that has failed.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FailureView {
    /// Its id.
    pub task: String,
    /// How long ago it ended, in milliseconds.
    pub ms_ago: u64,
    /// Its last status line, and of a command the last line that it has written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl FailureView {
    pub(crate) fn of(failure: &Failure, now: UnixMillis) -> Self {
        Self {
            task: failure.task.to_string(),
            ms_ago: now.since(failure.at),
            reason: failure.reason.as_deref().map(str::to_owned),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_core::{Json, RpcFailure};
    use longhaul_runtime::QuestionReply;

    #[test]
    fn what_has_become_of_a_question_is_told() {
        let refused = QuestionReply::Error(RpcFailure::new(-32603, "no window")).into_answer();
        for (state, told) in [
            (InputState::Open, None),
            (InputState::Withdrawn, Some("withdrawn")),
            (
                InputState::Answered(Json::trusted(r#"{"action":"decline"}"#)),
                Some("declined"),
            ),
            (InputState::Answered(Json::trusted(r#"{"roots":[]}"#)), Some("answered")),
            (InputState::Answered(refused), Some("refused")),
        ] {
            assert_eq!(settled(&state), told);
        }
    }
}
