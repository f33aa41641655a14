//! Why a store does not do what it was asked to.

use super::ScheduleConflict;
use crate::{IllegalEvent, Millis, QuotaExceeded, TaskId};

/// How many ended sessions a store remembers. One that is forgotten before its id expires would be live again, so beyond these no session is
/// ended.
pub const MAX_ENDED_SESSIONS: usize = 50_000;

/// What to do about a full disk, for logs and operators.
pub const FULL_DISK_ADVICE: &str = "`longhaul admin cancel FILE --all --state queued` if live tasks fill the disk (or cancel those that write), then \
     `longhaul admin delete FILE --all --state ended`, which frees what ended tasks keep (`--older 1h` spares the newest); \
     if that finds no room either, first remove or move other files of that disk, or enlarge it";

/// A host was not [given up](super::LeaseStore::give_up_host).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GiveUpError {
    /// No such node is known.
    #[error("there is no such server")]
    UnknownNode,
    /// A node of its host that runs tasks may live: it has what is bound to the host, or takes it back.
    #[error("{by} runs on its host, and its lease ends in {} unless it is renewed: stop that server first", crate::approximate_duration(*.left))]
    Alive {
        /// Which one, for people.
        by: String,
        /// When its lease ends unless it is renewed, in milliseconds.
        left: Millis,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A store cannot do what it was asked to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// There is no room to write. Nothing was changed; reading goes on, and writing may succeed later.
    #[error("the store has no room to write")]
    Full,
    /// The disk has refused a write for another reason than room, with this error number of the system's. Nothing was changed; reading may
    /// go on, and writing may succeed later.
    #[error("the store's disk failed: {}", std::io::Error::from_raw_os_error(*.0))]
    Disk(i32),
    /// Another process keeps the store from writing, for longer than the store waits. Nothing was changed; reading goes on, and writing may
    /// succeed later. The store says so in the log, once for all who are refused.
    #[error("another process holds a write transaction on the database")]
    Locked,
    /// The same, and who keeps it from writing is known: the text says who.
    #[error("another session has locked tasks in the database: {0}")]
    LockedBy(String),
    /// As many ended sessions are remembered as may be. This one was not ended.
    #[error("{MAX_ENDED_SESSIONS} ended sessions are remembered, and no more")]
    TooManySessions,
    /// Nobody has accepted the store as it is, so it can be read and nothing else. Nothing was changed.
    #[error(
        "the store can only be read: its database is not the latest one of its directory, and nobody has accepted it"
    )]
    ReadOnly,
    /// The store is closing; nothing was changed.
    #[error("the store is closed")]
    Closed,
    /// The node has not renewed its lease in time, and others may take over what it holds. Nothing was changed.
    #[error("the lease of this server was lost")]
    LeaseLost,
    /// Another node holds the lease of this host. Nothing was changed.
    #[error("another server uses the same host id: {by}; its lease ends in {} unless it is renewed", crate::approximate_duration(*.left))]
    HostInUse {
        /// Which one, for people.
        by: String,
        /// When its lease ends unless it is renewed, in milliseconds.
        left: Millis,
    },
    /// The answer of a write was lost: it may have been made, and may still be made. What was written must be made again or read until that is
    /// known; see [`Change::number`](super::Change::number). The text is for the log, not for clients.
    #[error("whether a change was stored is unknown: {0}")]
    OutcomeUnknown(String),
    /// The store does not answer, or cannot be reached. Nothing was changed, and it may succeed later. The text is for the log, not for clients.
    #[error("the store does not answer: {0}")]
    Unavailable(String),
    /// The store answers, and cannot be used as it is; the text is for operators, and says what to do. Nothing was changed, and it may succeed later.
    #[error("{0}")]
    Unusable(&'static str),
    /// Anything else. Nothing was changed. The text is for the log, not for clients.
    #[error("the store failed: {0}")]
    Failed(String),
}

/// Why a change was not made.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ApplyError {
    /// No such task.
    #[error("no such task")]
    NotFound,
    /// The fence is not that of the task's active attempt, or an event that needs one came without (invariant 3).
    #[error("the fence is stale")]
    Stale,
    /// [`transition`](crate::transition()) refused one of the events; none was applied.
    #[error(transparent)]
    Illegal(#[from] IllegalEvent),
    /// The store itself.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a task was not created. Nothing was written.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CreateError {
    /// The idempotency key stands for a call with other arguments.
    #[error("the idempotency key was used with other arguments")]
    IdempotencyKeyConflict,
    /// A task of the tool with the same [unique value](super::NewTask::unique) is live.
    #[error("a task of the tool with the same unique value is live{}", live.as_ref().map(|live| format!(": {live}")).unwrap_or_default())]
    NotUnique {
        /// That task, if it belongs to the same principal. It was made with other arguments, or the new one has a parent, which only waits for its own child.
        live: Option<TaskId>,
    },
    /// Too much is kept already.
    #[error(transparent)]
    Quota(#[from] QuotaExceeded),
    /// The parent is over, is to stop, or is another's by now.
    #[error("the parent cannot start it: {0}")]
    Parent(ApplyError),
    /// The task that it [replaces](super::NewTask::replaces) cannot be ended.
    #[error("the task that it takes the place of cannot be ended: {0}")]
    Replaced(ApplyError),
    /// The schedule that it is the [start](super::NewTask::schedule) of does not start it.
    #[error(transparent)]
    Schedule(#[from] ScheduleConflict),
    /// The store itself.
    #[error(transparent)]
    Store(#[from] StoreError),
}
