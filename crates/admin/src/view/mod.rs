//! Tasks as operators see them, in the API and on the page.

pub(crate) mod details;
mod masking;
mod nodes;
mod principal_counts;
mod principals;
mod schedules;

use crate::{
    metrics::recent_ends::Failure,
    words::{self, state_word, timestamp},
};
use longhaul_admin_api::{
    ActiveAttemptView, AttemptView, BlockView, CallerView, EntryView, FailureView, OutcomeView, ProgressView, TaskView,
};
use longhaul_core::{
    AttemptState, InputState, Json, Now, Origin, Outcome, StopReason, Task, UnixMillis, push_timestamp, store::Record,
    truncate,
};
use longhaul_runtime::{EntryStatus, EntrySummary, PastAttempt, Requestor};
use masking::masked_text;
use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use std::borrow::Cow;

/// Bytes of the last line of a command that are shown.
const LONGEST_LINE: usize = 300;

/// The view of a task now, as lists have it.
pub(crate) fn task_view(task: &Task, now: Now) -> TaskView {
    let time = |at| timestamp(now, at);
    let until = task.ended_at.unwrap_or(now.at);
    TaskView {
        id: task.id.to_string(),
        tool: task.tool.to_string(),
        state: state_word(task.state).into(),
        asks: !task.open_inputs.is_empty(),
        question: None,
        principal: task.owner.principal.as_str().to_owned(),
        labels: (task.labels.iter())
            .map(|label| (label.name().to_owned(), label.value().to_owned()))
            .collect(),
        origin: match task.origin {
            Origin::Legacy => words::LEGACY.into(),
            Origin::Modern => words::MODERN.into(),
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
        progress: task.progress.map(|progress| ProgressView {
            current: Some(progress.current),
            total: progress.total,
        }),
        announced: task.announced,
        attempts_used: task.attempts_used,
        attempt: task.attempt.as_ref().map(|attempt| ActiveAttemptView {
            epoch: attempt.epoch,
            node: attempt.node.0,
            host: attempt.host.as_ref().map(|host| host.0.to_string()),
            state: match attempt.state {
                AttemptState::Starting => "starting",
                AttemptState::Live => "live",
                AttemptState::Stopping => "stopping",
                AttemptState::Ended => "ended",
            }
            .into(),
        }),
        parent: task.lineage.as_ref().map(|lineage| lineage.parent.to_string()),
        stopping: task.stop.filter(|_| !task.is_done()).map(|stop| match stop.reason {
            StopReason::Cancel => "cancel".into(),
            StopReason::Deadline => "deadline".into(),
        }),
        blocked: task.block().map(|blocked| BlockView {
            reason: blocked.reason.to_string(),
            message: blocked.failure.message.to_string(),
            since: time(blocked.since),
            until: time(blocked.until),
            tries: blocked.tries.into(),
        }),
    }
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
pub(crate) fn entry_view(position: u32, entry: EntrySummary) -> EntryView {
    let mut at = String::new();
    push_timestamp(&mut at, entry.at);
    EntryView {
        position,
        kind: entry.key.kind.name().into(),
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

/// How a task ended. Of a result only what `hides` leaves of it. Otherwise it is as it was written.
pub(crate) fn outcome_view(record: &Record, hides: impl Fn(&mut Value) -> bool) -> Option<OutcomeView> {
    let view = |kind: &'static str| OutcomeView {
        kind: kind.into(),
        ..OutcomeView::default()
    };
    Some(match record.outcome.as_ref()? {
        Outcome::Result { json, is_error } => OutcomeView {
            is_error: Some(*is_error),
            result: raw(masked_text(json.as_str(), hides).as_ref().unwrap_or(json).as_str()),
            ..view("result")
        },
        Outcome::RpcError(failure) => OutcomeView {
            code: Some(failure.code.into()),
            message: Some(failure.message.to_string()),
            data: raw(failure.data.as_ref().map_or("null", Json::as_str)),
            ..view("error")
        },
        Outcome::Cancelled => view("cancelled"),
    })
}

/// JSON as it is written.
pub(crate) fn raw(json: &str) -> Option<Box<RawValue>> {
    RawValue::from_string(json.to_owned()).ok()
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
pub(crate) fn caller_view(requestor: &Requestor) -> Option<CallerView> {
    let client: Value = serde_json::from_str(requestor.client.as_ref()?.as_str()).ok()?;
    let text = |member: &str| client[member].as_str().map(str::to_owned);
    Some(CallerView {
        name: text("name"),
        version: text("version"),
        protocol: requestor.version.clone(),
    })
}

/// An attempt. With `hides_arguments` only the program of its command is shown, since a word behind it may be a secret argument.
pub(crate) fn attempt_view(attempt: &PastAttempt, now: Now, hides_arguments: bool) -> AttemptView {
    let shown = if hides_arguments { 1 } else { usize::MAX };
    let command = attempt.command.get(..shown.min(attempt.command.len()));
    AttemptView {
        epoch: attempt.epoch,
        began: attempt.began.map(|at| timestamp(now, at)),
        ended: attempt.ended.map(|at| timestamp(now, at)),
        exit: attempt.exit_json(),
        last_line: attempt.last_line.clone(),
        command: command.filter(|words| !words.is_empty()).map(<[String]>::to_vec),
        hides_arguments: hides_arguments && attempt.command.len() > 1,
        pid: attempt.pid,
    }
}

/// A failure, as the API tells it.
pub(crate) fn failure_view(failure: &Failure, now: UnixMillis) -> FailureView {
    FailureView {
        task: failure.task.to_string(),
        ms_ago: now.since(failure.at),
        reason: failure.reason.as_deref().map(str::to_owned),
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
