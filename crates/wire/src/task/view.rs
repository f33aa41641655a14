//! How a task appears to clients: its status in each generation, and the members both generations share.

use crate::{json, protocol::Generation};
use longhaul_core::{Now, Outcome, State, Task, Verdict, push_timestamp};
use std::borrow::Cow;

/// The largest integer that every JSON parser reads exactly, 2^53 − 1. A longer time to live is written as unlimited.
const LARGEST_EXACT: u64 = (1 << 53) - 1;

/// A task's status on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TaskStatus {
    /// Live, with no open input request.
    Working,
    /// Live, with at least one open input request.
    InputRequired,
    /// Ended, successfully as the generation defines it.
    Completed,
    /// Ended, unsuccessfully as the generation defines it.
    Failed,
    /// Cancelled.
    Cancelled,
}

impl TaskStatus {
    /// The status of a task in `generation`. They differ in one case: a result with `isError` is `failed` in the legacy generation
    /// and `completed` in the modern one.
    ///
    /// ```
    /// use longhaul_core::{State, Verdict};
    /// use longhaul_wire::{Generation, TaskStatus};
    /// let said_no = State::Done(Verdict::ToolError);
    /// assert_eq!(TaskStatus::of(said_no, false, Generation::Legacy), TaskStatus::Failed);
    /// assert_eq!(TaskStatus::of(said_no, false, Generation::Modern), TaskStatus::Completed);
    /// ```
    pub fn of(state: State, has_open_inputs: bool, generation: Generation) -> Self {
        match state {
            State::Done(Verdict::Succeeded) => Self::Completed,
            State::Done(Verdict::ToolError) if generation == Generation::Legacy => Self::Failed,
            State::Done(Verdict::ToolError) => Self::Completed,
            State::Done(Verdict::RpcError) => Self::Failed,
            State::Done(Verdict::Cancelled) => Self::Cancelled,
            State::Queued | State::Running | State::Suspended | State::Blocked if has_open_inputs => {
                Self::InputRequired
            }
            State::Queued | State::Running | State::Suspended | State::Blocked => Self::Working,
        }
    }

    /// The status named `text`, if known.
    pub fn parse(text: &str) -> Option<Self> {
        [
            Self::Working,
            Self::InputRequired,
            Self::Completed,
            Self::Failed,
            Self::Cancelled,
        ]
        .into_iter()
        .find(|status| status.as_str() == text)
    }

    /// Whether the task has ended.
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }

    /// Its name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::InputRequired => "input_required",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// The names of the members that the generations call differently.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MemberNames {
    /// `,"ttl":` or `,"ttlMs":`
    pub(crate) ttl: &'static str,
    /// `,"pollInterval":` or `,"pollIntervalMs":`
    pub(crate) poll: &'static str,
}

/// A task as one generation shows it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TaskView<'a> {
    pub(crate) task: &'a Task,
    pub(crate) status: TaskStatus,
    /// Says why the task failed; `None` where it has not been read.
    pub(crate) outcome: Option<&'a Outcome>,
    pub(crate) now: Now,
}

impl TaskView<'_> {
    /// Appends the members from `taskId` to the poll interval, without braces.
    pub(crate) fn push_members(&self, out: &mut String, names: MemberNames) {
        let task = self.task;
        out.push_str(r#""taskId":"#);
        json::push_string(out, task.id.as_str());
        out.push_str(r#","status":""#);
        out.push_str(self.status.as_str());
        out.push('"');
        if let Some(message) = self.message() {
            out.push_str(r#","statusMessage":"#);
            json::push_string(out, &message);
        }
        out.push_str(r#","createdAt":""#);
        push_timestamp(out, self.now.in_the_world(task.created_at));
        out.push_str(r#"","lastUpdatedAt":""#);
        push_timestamp(out, self.now.in_the_world(task.updated_at));
        out.push('"');
        out.push_str(names.ttl);
        match task.ttl() {
            LARGEST_EXACT.. => out.push_str("null"),
            // Zero would read as already deleted; the conformance suite requires a positive number.
            ttl => json::push_int(out, ttl.max(1)),
        }
        if !task.is_done() {
            out.push_str(names.poll);
            json::push_int(out, task.poll_hint(self.now.at));
        }
    }

    /// The status message: the latest one of the work, why it is blocked, or why it failed. Earlier releases did
    /// not store why a task failed, so for their tasks it is read from the outcome.
    fn message(&self) -> Option<Cow<'_, str>> {
        let line = || self.task.status_line();
        match (self.status, self.outcome) {
            // A CreateTaskResult always says `working`, even if the task has already ended.
            (TaskStatus::Working, _) if self.task.is_done() => None,
            (TaskStatus::Failed, Some(outcome @ Outcome::RpcError(_))) => {
                outcome.failure_line().map(|why| why.to_string().into())
            }
            (TaskStatus::Failed, outcome) => line()
                .or_else(|| Some(outcome?.failure_line()?.to_string().into()))
                .or(Some("failed; the result says why".into())),
            _ => line(),
        }
    }
}
