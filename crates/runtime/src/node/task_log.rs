//! The log lines about tasks. A line has the tool, a part of the id and the principal, and never arguments, results or output. Tasks are logged at
//! `info`, plain calls at `debug`.

use longhaul_core::{Origin, State, StopReason, Task, UnixMillis, Verdict};
use tracing::{debug, info};

/// A line at `info` about a task, at `debug` about a plain call.
macro_rules! say {
    ($task:expr, $message:literal $(, $field:ident = $value:expr)*) => {
        if $task.announced {
            info!(tool = &*$task.tool, task = $task.id.short(), principal = $task.owner.principal.as_str() $(, $field = $value)*, $message);
        } else {
            debug!(tool = &*$task.tool, call = $task.id.short(), principal = $task.owner.principal.as_str() $(, $field = $value)*, $message);
        }
    };
}

pub(crate) fn created(task: &Task) {
    say!(task, "created");
}

/// Its owner had it deleted.
pub(crate) fn deleted(task: &Task) {
    say!(task, "deleted");
}

/// A plain call is a task from now on.
pub(crate) fn promoted(task: &Task) {
    say!(task, "became a task");
}

pub(crate) fn attempt_started(task: &Task) {
    say!(task, "attempt started", attempt = attempt(task));
}

/// An attempt was lost with its host, and is ended here.
pub(crate) fn attempt_reclaimed(task: &Task) {
    say!(task, "attempt lost with its host", attempt = attempt(task));
}

/// An attempt of an earlier process was adopted.
pub(crate) fn attempt_adopted(task: &Task) {
    say!(task, "attempt adopted", attempt = attempt(task));
}

pub(crate) fn retry(task: &Task, at: UnixMillis, now: UnixMillis) {
    say!(
        task,
        "attempt failed, trying again",
        attempt = attempt(task),
        wait_ms = at.since(now)
    );
}

/// The end of an attempt was written. A call that was cancelled at once has ended, and was logged, before its attempt.
pub(crate) fn attempt_ended(task: &Task) {
    let at_once = task.origin == Origin::Legacy || !task.announced;
    let cancelled_before = task
        .stop
        .is_some_and(|stop| stop.reason == StopReason::Cancel && task.ended_at == Some(stop.at));
    if !(at_once && cancelled_before) {
        ended_if_done(task);
    }
}

/// A change was written that may be the end.
pub(crate) fn ended_if_done(task: &Task) {
    let State::Done(verdict) = task.state else { return };
    let outcome = match verdict {
        Verdict::Succeeded => "succeeded",
        Verdict::ToolError => "tool error",
        Verdict::RpcError => "failed",
        Verdict::Cancelled => "cancelled",
    };
    let duration_ms = task.ended_at.map(|ended| ended.since(task.created_at));
    say!(task, "ended", outcome = outcome, duration_ms = duration_ms);
}

fn attempt(task: &Task) -> u32 {
    task.attempt.as_ref().map_or(0, |attempt| attempt.epoch)
}
