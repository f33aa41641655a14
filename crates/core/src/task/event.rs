//! Everything that may happen to a task.

use crate::{AnsweredBy, Block, Entry, HostId, InputKey, Json, NodeId, Outcome, Progress, StopReason, UnixMillis};
use std::sync::Arc;

/// How a cancel acts on running work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CancelMode {
    /// The task is cancelled now, whatever the work still does (legacy).
    AtOnce,
    /// The work is asked to stop, and the task ends as the work does (modern).
    Cooperative,
}

/// How an attempt ended, in its executor's words.
#[derive(Debug, Clone, PartialEq)]
pub enum AttemptEnd {
    /// The tool ran to its end.
    Finished(Outcome),
    /// It failed in a way the retry policy knows. Runs again at `retry_at`; without it, or once a stop was asked for, the task
    /// ends with `outcome`.
    Failed {
        /// What ends the task if it is not retried.
        outcome: Outcome,
        /// When the next attempt may begin.
        retry_at: Option<UnixMillis>,
        /// Whether the next attempt asks the open questions again, under the same names: then they stay open.
        asks_again: bool,
    },
    /// It was made to stop.
    Stopped(StopReason),
    /// It is certain that nothing was ever started: the attempt does not count.
    NeverStarted {
        /// When the next attempt may begin; `None` for at once.
        retry_at: Option<UnixMillis>,
    },
    /// All of the work waits, and its results are in the journal. It holds nothing any more, and the attempt does not count. It is replayed when
    /// something it waits for comes; at once, if that has happened since `woken` was read.
    Suspended {
        /// When the earliest of its timers fires.
        until: Option<UnixMillis>,
        /// [`Task::woken`](crate::Task::woken) as it was when everything it waits for was still to come.
        woken: u32,
    },
    /// The task cannot go on with the present code. It holds nothing any more, and the attempt does not count. A plain call without an
    /// idempotency key ends with the failure.
    Blocked(Block),
}

/// Something that happened. What each does to every state is written in [`transition`](crate::task::transition()).
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A node with a free slot takes the task from its queue.
    Claimed {
        /// The node.
        node: NodeId,
        /// Set if the work will live outside the process, on this host.
        host: Option<HostId>,
    },
    /// A later incarnation takes over an active attempt whose node is dead.
    Adopted {
        /// The new node.
        node: NodeId,
    },
    /// Another node takes over an active attempt that was lost with its host, to end it.
    Reclaimed {
        /// The new node.
        node: NodeId,
    },
    /// The work has begun.
    Started,
    /// Status and progress of the work. Latest values only; `None` leaves the one before.
    Reported {
        /// A line for people.
        status: Option<Arc<str>>,
        /// How far it has come.
        progress: Option<Progress>,
    },
    /// The work asks its client a question. The key must be the next one.
    InputRequested {
        /// What it is answered by.
        key: InputKey,
        /// How its author calls it, if at all: work that asks again finds it by this.
        name: Option<Arc<str>>,
        /// `{"method": …, "params": …}`.
        request: Json,
    },
    /// The question has its answer (invariant 4: once).
    InputAnswered {
        /// Which question.
        key: InputKey,
        /// The answer, as it came.
        answer: Json,
        /// Who gave it.
        by: AnsweredBy,
    },
    /// The work no longer needs the answer.
    InputWithdrawn {
        /// Which question.
        key: InputKey,
    },
    /// An operation was recorded: a new entry in the journal, or a new value of an entry.
    Journaled(Entry),
    /// The code has made forward progress without a new entry: it is past the point where it crashed before.
    Advanced,
    /// The time that suspended work waits for is here, or that at which a blocked task is tried again.
    TimerFired,
    /// A blocked task is to be tried again, because its code has changed, an operator asks for it, or its time has passed.
    Unblocked {
        /// When: until then it stays blocked.
        ready_at: UnixMillis,
    },
    /// An operator wants a queued task to run before the others of its queue: it has the highest priority from then on.
    Raised {
        /// Its new place: just before the first task of the queue. A later one than it has changes nothing.
        ready_at: UnixMillis,
    },
    /// A task has been blocked for too long.
    BlockedTimedOut,
    /// A task that this one started is over.
    ChildEnded {
        /// The position of its entry in this task's journal.
        entry: u32,
        /// The new value of the entry: a [`ChildEntry`](crate::ChildEntry).
        value: Json,
    },
    /// The attempt is over.
    AttemptEnded(AttemptEnd),
    /// Someone who is allowed to wants the task to stop.
    CancelRequested(CancelMode),
    /// The deadline has passed.
    DeadlinePassed,
    /// It has waited for a slot too long.
    QueueTimedOut,
    /// Its id is given to clients from now on.
    Promoted,
    /// It is not run, or not any more: it ends with this. Not while an attempt runs, whose end is the worker's to write.
    Abandoned(Outcome),
    /// The client of a plain call was asked something, and may come back until this time.
    RetryAwaited {
        /// Later than before.
        until: UnixMillis,
    },
    /// The announced time to live is extended.
    TtlExtended {
        /// The new end, later than the old one.
        until: UnixMillis,
    },
}

impl Event {
    /// Whether only the worker that runs the attempt may write it; a store refuses it without that worker's fencing token.
    pub fn needs_fence(&self) -> bool {
        matches!(
            self,
            Self::Started
                | Self::Reported { .. }
                | Self::InputRequested { .. }
                | Self::Journaled(_)
                | Self::Advanced
                | Self::InputWithdrawn { .. }
                | Self::AttemptEnded(_)
        )
    }

    /// A word for logs and errors.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Claimed { .. } => "claimed",
            Self::Adopted { .. } => "adopted",
            Self::Reclaimed { .. } => "reclaimed",
            Self::Started => "started",
            Self::Reported { .. } => "reported",
            Self::InputRequested { .. } => "input_requested",
            Self::InputAnswered { .. } => "input_answered",
            Self::InputWithdrawn { .. } => "input_withdrawn",
            Self::Journaled(_) => "journaled",
            Self::Advanced => "advanced",
            Self::TimerFired => "timer_fired",
            Self::Unblocked { .. } => "unblocked",
            Self::Raised { .. } => "raised",
            Self::BlockedTimedOut => "blocked_timed_out",
            Self::ChildEnded { .. } => "child_ended",
            Self::AttemptEnded(_) => "attempt_ended",
            Self::CancelRequested(_) => "cancel_requested",
            Self::DeadlinePassed => "deadline_passed",
            Self::QueueTimedOut => "queue_timed_out",
            Self::Promoted => "promoted",
            Self::Abandoned(_) => "abandoned",
            Self::RetryAwaited { .. } => "retry_awaited",
            Self::TtlExtended { .. } => "ttl_extended",
        }
    }
}
