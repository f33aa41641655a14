//! What both generations show of a task: the status each derives, and the members they share.

use crate::{json, version::Generation};
use longhaul_core::{Now, Outcome, State, Task, Verdict, push_timestamp};
use std::borrow::Cow;

/// The largest integer every JSON reader keeps exact, 2^53 − 1. A time to live beyond it is as good as unlimited.
const LARGEST_EXACT: u64 = (1 << 53) - 1;

/// A task's status on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// Not over, and nothing is wanted of the client.
    Working,
    /// Not over, and at least one question is open.
    InputRequired,
    /// Over, successfully as the generation sees it.
    Completed,
    /// Over, unsuccessfully as the generation sees it.
    Failed,
    /// Over without coming to anything.
    Cancelled,
}

impl Status {
    /// What `task` is in that generation. The one difference: a tool that said no has `failed` in the legacy one and
    /// `completed` in the modern one (C-04).
    ///
    /// ```
    /// use longhaul_core::{State, Verdict};
    /// use longhaul_wire::{Generation, Status};
    /// let said_no = State::Done(Verdict::ToolError);
    /// assert_eq!(Status::of(said_no, false, Generation::Legacy), Status::Failed);
    /// assert_eq!(Status::of(said_no, false, Generation::Modern), Status::Completed);
    /// ```
    pub fn of(state: State, has_open_inputs: bool, generation: Generation) -> Self {
        match state {
            State::Done(Verdict::Succeeded) => Self::Completed,
            State::Done(Verdict::ToolError) if generation == Generation::Legacy => Self::Failed,
            State::Done(Verdict::ToolError) => Self::Completed,
            State::Done(Verdict::RpcError) => Self::Failed,
            State::Done(Verdict::Cancelled) => Self::Cancelled,
            State::Queued | State::Running | State::Parked | State::Blocked if has_open_inputs => Self::InputRequired,
            State::Queued | State::Running | State::Parked | State::Blocked => Self::Working,
        }
    }

    /// The status of that name.
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

/// What the generations call the two figures.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Names {
    /// `,"ttl":` or `,"ttlMs":`
    pub(crate) ttl: &'static str,
    /// `,"pollInterval":` or `,"pollIntervalMs":`
    pub(crate) poll: &'static str,
}

/// What a task's members are written from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shown<'a> {
    pub(crate) task: &'a Task,
    pub(crate) status: Status,
    /// Its end, where the reader has it at hand: says why a task failed.
    pub(crate) outcome: Option<&'a Outcome>,
    pub(crate) now: Now,
}

impl Shown<'_> {
    /// Appends `"taskId":…` to the poll hint, without braces.
    pub(crate) fn push_members(&self, out: &mut String, names: Names) {
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
            // Zero would read as "gone already"; the suite wants it positive (G2-21).
            ttl => json::push_int(out, ttl.max(1)),
        }
        if !task.is_done() {
            out.push_str(names.poll);
            json::push_int(out, task.poll_hint(self.now.at));
        }
    }

    /// The line for people: the latest one about the work, why it is blocked, or why it failed (G1-19, G2-25), which is written with the
    /// end of a task. Tasks that earlier releases ended have that only where their outcome is at hand.
    fn message(&self) -> Option<Cow<'_, str>> {
        let line = || self.task.status_line();
        match (self.status, self.outcome) {
            // The answer to a creation says nothing of the end that may have come with it.
            (Status::Working, _) if self.task.is_done() => None,
            (Status::Failed, Some(outcome @ Outcome::RpcError(_))) => {
                outcome.failure_line().map(|why| why.to_string().into())
            }
            (Status::Failed, outcome) => line()
                .or_else(|| Some(outcome?.failure_line()?.to_string().into()))
                .or(Some("failed; the result says why".into())),
            _ => line(),
        }
    }
}
