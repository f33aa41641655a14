//! The task: one long tool call.

pub(crate) mod attempt;
pub(crate) mod attempt_outcome;
pub(crate) mod blocked;
pub(crate) mod child_entry;
pub(crate) mod concurrency_group;
pub(crate) mod confirmation;
pub(crate) mod event;
pub(crate) mod input;
pub(crate) mod labels;
pub(crate) mod priority;
mod timer;
pub(crate) mod transition;

use crate::{
    Attempt, AttemptState, Blocked, ConcurrencyGroup, ConfirmBy, Fence, HostId, InputKey, Labels, Lineage, Millis,
    NodeId, Owner, Priority, SpecId, TaskId, UnixMillis, Verdict,
};
use std::{borrow::Cow, ops::Deref, sync::Arc};

/// Where a task stands. Requests to stop are kept beside it ([`Task::stop`]), so they add no states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// Waits for its time and a slot.
    Queued,
    /// An attempt works on it, or waits in memory.
    Running,
    /// Waits for an answer, a time or another task, and has no slot, no attempt and no code in memory. Its code is replayed when what it waits
    /// for comes.
    Suspended,
    /// Cannot go on until its code or an operator changes something ([`Task::blocked`] says why), and holds nothing. What comes meanwhile,
    /// an answer or a child's end, is recorded and does not queue it.
    Blocked,
    /// Over, with this kind of outcome. Nothing changes it any more (invariant 2).
    Done(Verdict),
}

impl State {
    /// Those of tasks that are not over.
    pub const LIVE: [Self; 4] = [Self::Queued, Self::Running, Self::Suspended, Self::Blocked];
}

/// Why work is asked to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StopReason {
    /// It was cancelled.
    Cancel,
    /// Its deadline has passed.
    Deadline,
}

/// A request to stop. The first one counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stop {
    /// Why.
    pub reason: StopReason,
    /// When it was recorded.
    pub at: UnixMillis,
}

/// Which generation of the protocol created the task. It is shown in whichever generation asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Origin {
    /// A request of 2025-11-25 or earlier.
    Legacy,
    /// A request of 2026-07-28 or later.
    Modern,
}

/// How far the work has come, in the tool's own unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// So far.
    pub current: f64,
    /// In all, if known.
    pub total: Option<f64>,
}

/// What never changes about a task. Its fields can be read as the task's own.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskHeader {
    /// Its id.
    pub id: TaskId,
    /// The principal that it belongs to, and the session that created it.
    pub owner: Owner,
    /// The tool called; also the name of its queue.
    pub tool: Arc<str>,
    /// The tool's definition at the time of the call.
    pub spec: SpecId,
    /// Which generation created it.
    pub origin: Origin,
    /// The node that received the call. While the task is not announced, only that node's caller waits for it.
    pub accepted_by: NodeId,
    /// When it was created. Time to live and deadline count from here.
    pub created_at: UnixMillis,
    /// How long it may wait for a slot each time it is queued.
    pub queue_timeout: Option<Millis>,
    /// How long the work may take from creation, over queueing and all attempts.
    pub deadline: Option<Millis>,
    /// How long it is kept after its end.
    pub retention: Millis,
    /// The task that started this one, if one did.
    pub lineage: Option<Lineage>,
    /// By which operators find and count it.
    pub labels: Labels,
    /// The tasks of its tool that it shares a limit with, if its tool has a concurrency key.
    pub group: Option<ConcurrencyGroup>,
}

/// One long tool call: the record every store keeps. Arguments, outcome and input texts are kept apart from it, so that reading
/// a task costs the same however much it carries.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    /// What never changes. Shared, so that a copy of the task is cheap.
    pub header: Arc<TaskHeader>,
    /// Whether its id was (or is about to be) given to clients. Until then nobody can ask for it: a plain call, or `after`.
    pub announced: bool,
    /// Whether the caller can come back for it by an idempotency key, or because it is [unique](crate::store::NewTask::unique). Then it is kept, also over a restart, even if it is not announced.
    pub keyed: bool,
    /// Who confirms it before it runs for the first time, if somebody has to.
    pub confirm_by: Option<ConfirmBy>,
    /// Where it stands.
    pub state: State,
    /// Whether it has a [group](TaskHeader::group) and is not in it yet. While it is queued nobody can claim it then; the store lets it into the group as soon as there
    /// is room.
    pub waits_for_group: bool,
    /// A request to stop.
    pub stop: Option<Stop>,
    /// The latest attempt. It may outlive the task: a legacy cancel ends the task at once.
    pub attempt: Option<Attempt>,
    /// Attempts that count against the retry policy.
    pub attempts_used: u32,
    /// The last visible change.
    pub updated_at: UnixMillis,
    /// Orders the queue of its tool, before `ready_at`.
    pub priority: Priority,
    /// Not to be claimed before. Orders the queue of its tool among tasks of one priority.
    pub ready_at: UnixMillis,
    /// Until when clients were told that it is kept. Only ever grows.
    pub announced_until: UnixMillis,
    /// Until when the client of a plain call may come back with its answers: then the call is cancelled. Only ever grows. `None` if it waits for the outcome
    /// of its first request.
    pub retry_until: Option<UnixMillis>,
    /// When it ended.
    pub ended_at: Option<UnixMillis>,
    /// The latest line about the work; of a task that has failed, why.
    pub status: Option<Arc<str>>,
    /// How far the work has come.
    pub progress: Option<Progress>,
    /// Unanswered questions, oldest first.
    pub open_inputs: Vec<InputKey>,
    /// How many questions were ever asked: the next key's number, less one.
    pub inputs_asked: u32,
    /// The number of entries in its journal.
    pub journaled: u32,
    /// How often something came that suspended work may wait for: an answer, the end of a child.
    pub woken: u32,
    /// When the earliest timer of suspended work fires, or a blocked task is tried again.
    pub resume_at: Option<UnixMillis>,
    /// Why it is blocked, or was when it last made no forward progress: kept until a new journal entry clears it.
    pub blocked: Option<Arc<Blocked>>,
    /// Counts changes; a reader who has seen version v has nothing to learn until it is higher.
    pub version: u64,
}

impl Deref for Task {
    type Target = TaskHeader;

    fn deref(&self) -> &TaskHeader {
        &self.header
    }
}

impl Task {
    /// Whether it is over.
    pub fn is_done(&self) -> bool {
        matches!(self.state, State::Done(_))
    }

    /// Whether only the node that accepted it can answer its client: then the call is orphaned once that node is dead.
    pub fn is_bound_to_node(&self) -> bool {
        !self.is_done() && !self.announced && !self.keyed && self.retry_until.is_none()
    }

    /// Whether the client of a plain call may come back to another server: in its session, if that is not its connection.
    pub fn client_may_return(&self) -> bool {
        let session = self.owner.session.as_ref();
        session.is_some_and(|session| !session.ends_with_connection())
    }

    /// Whether it can be claimed from the queue of its tool, now or later.
    pub fn is_in_queue(&self) -> bool {
        self.state == State::Queued && !self.waits_for_group
    }

    /// Whether it counts towards the limit of its [group](TaskHeader::group): from when it is let in until it is over, and its attempt has stopped.
    pub fn is_in_group(&self) -> bool {
        self.group.is_some() && !self.waits_for_group && (!self.is_done() || self.active_attempt().is_some())
    }

    /// Whether it waits without an attempt and without code in memory.
    pub fn is_suspended(&self) -> bool {
        self.state == State::Suspended
    }

    /// Whether it has never run, and does not before its only open question is [confirmed](ConfirmBy).
    pub fn awaits_confirmation(&self) -> bool {
        self.confirm_by.is_some() && self.is_suspended() && self.attempt.is_none()
    }

    /// Whether it [awaits its confirmation](Self::awaits_confirmation), and clients are not asked for it.
    pub fn is_confirmed_by_operators(&self) -> bool {
        self.confirm_by == Some(ConfirmBy::Operator) && self.awaits_confirmation()
    }

    /// Hides the question whether it may run, from clients that are not asked it.
    pub fn hide_confirmation(&mut self) {
        if self.awaits_confirmation() {
            self.open_inputs.clear();
        }
    }

    /// Why it cannot go on, while it is blocked.
    pub fn block(&self) -> Option<&Blocked> {
        self.blocked.as_deref().filter(|_| self.state == State::Blocked)
    }

    /// The status message that clients see: why it is blocked, or the latest line about the work.
    pub fn status_line(&self) -> Option<Cow<'_, str>> {
        match self.block() {
            Some(blocked) => Some(Cow::Owned(blocked.to_string())),
            None => self.status.as_deref().map(Cow::Borrowed),
        }
    }

    /// The attempt that holds a slot and files, if one does.
    pub fn active_attempt(&self) -> Option<&Attempt> {
        self.attempt.as_ref().filter(|attempt| attempt.is_active())
    }

    /// The active attempt, if `fence` is its (invariant 3).
    pub fn attempt_held_by(&self, fence: Fence) -> Option<&Attempt> {
        self.active_attempt().filter(|attempt| attempt.fence() == fence)
    }

    /// When its deadline passes.
    pub fn deadline_at(&self) -> Option<UnixMillis> {
        self.deadline.map(|deadline| self.created_at.plus(deadline))
    }

    /// When its wait for a slot times out: counted from when it was queued, or raised. Work with journal entries never does.
    pub fn queue_until(&self) -> Option<UnixMillis> {
        let timeout = self
            .queue_timeout
            .filter(|_| self.state == State::Queued && self.journaled == 0)?;
        // An operator who raises a task sets `ready_at` back.
        Some(self.ready_at.max(self.updated_at).plus(timeout))
    }

    /// The announced time to live, in milliseconds from creation.
    pub fn ttl(&self) -> Millis {
        self.announced_until.since(self.created_at)
    }

    /// How long a poller should wait: half the age at first, from 50 ms up to half a second, so that short work is noticed soon; later a tenth of the age, up to
    /// 5 seconds: hosts that only poll let their users wait for that long after the end.
    pub fn poll_hint(&self, now: UnixMillis) -> Millis {
        let age = now.since(self.created_at);
        (age / 2).clamp(50, 500).max((age / 10).min(5_000))
    }

    /// The attempt that would follow the latest one.
    pub(crate) fn next_attempt(&self, node: NodeId, host: Option<HostId>) -> Attempt {
        let epoch = self.attempt.as_ref().map_or(0, |attempt| attempt.epoch) + 1;
        Attempt {
            epoch,
            node,
            host,
            state: AttemptState::Starting,
            changes: 0,
        }
    }
}
