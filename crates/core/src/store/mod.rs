//! What a store promises.
//!
//! A store keeps tasks, and decides nothing about them: it loads a task, runs [`transition`](crate::transition()) and writes the
//! answer, inside one transaction of its own. The promises are worded so that one SQLite file and a PostgreSQL server with many
//! nodes can both keep them; `longhaul_store::contract` is the suite that every store must pass.
//!
//! - **Acknowledged means kept.** A method that writes completes with `Ok` only after its change has been committed so that it
//!   survives the end of the process, and the loss of power as far as the disk keeps what it confirmed (invariants 1 and 11).
//! - **All or nothing.** A change happens whole or not at all, also when it is refused.
//! - **Linear per task.** Changes of one task happen one after the other; a read that begins after a write was acknowledged sees
//!   that write.
//! - **Begun is not undone.** Dropping the future of a write may leave it made or not made, never half made.
//! - **Events are hints.** An event may come late, twice, out of order, together with others as one, or not at all. What it says is true: a task
//!   has reached *at least* the version, and a read that begins then sees it. Whoever waits reads the store again from time to time.

mod change;
mod commit_counts;
mod create;
mod error;
mod event;
mod health;
mod lease;
mod lookup;
mod operations;
mod permits;
mod queue_place;
mod schedule;
mod search;
mod signing_key;

pub use change::{Change, ChangeEnds, LONGEST_DEFERRAL};
pub use commit_counts::{CommitCounter, CommitCounts};
pub use create::{Created, History, Idempotency, NewTask, ParentEntry, Uniqueness, UnwrittenCall};
pub use error::{ApplyError, CreateError, FULL_DISK_ADVICE, GiveUpError, MAX_ENDED_SESSIONS, StoreError};
pub use event::{Hint, StoreEvent, StoreListener};
pub use health::{EventDelivery, PoolHealth, StoreHealth};
pub use lease::{
    Claim, Claimed, HOST_GIVEN_UP, HeldAttempt, Lease, LeaseStatus, NewNode, NodeRole, NodeStatus, Renewal,
};
pub use lookup::TaskLookup;
pub use operations::{
    JournalStore, LeaseStore, QueueStore, ScheduleStore, SearchStore, SessionStore, TaskStore, TimerStore,
};
pub use permits::{PermitHolder, PermitReport, PermitRequest, Permits};
pub use queue_place::QueuePlace;
pub use schedule::{NewSchedule, ScheduleAdvance, ScheduleConflict, ScheduleCounts, ScheduleRecord, ScheduledStart};
pub use search::{FoundTasks, SearchOrder, TaskFilter, TaskSearch};
pub use signing_key::SigningKey;

use crate::{Capability, ClientCapabilities, Input, Millis, Outcome, State, Task, UnixMillis};
use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::Arc,
};

/// How long a [tombstone](LeaseStore::tombstones) is kept at least, in milliseconds: 90 days. A host that is away for longer keeps its files.
pub const TOMBSTONE_RETENTION: Millis = 90 * 86_400_000;

/// The status message of a task that awaits its confirmation, for a client that cannot be asked for it.
const NOT_ASKED: &str = "waits for its confirmation, which this client cannot be asked for: an operator can give it";

/// All that a reader may see of a task.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// The task.
    pub task: Task,
    /// Its outcome, once it is over.
    pub outcome: Option<Outcome>,
    /// Its open questions, oldest first.
    pub inputs: Vec<Input>,
}

impl Record {
    /// What clients may see of it: no question that only an operator may answer.
    #[must_use]
    pub fn for_clients(mut self) -> Self {
        if self.task.is_confirmed_by_operators() {
            self.hide_confirmation();
        }
        self
    }

    /// What a client with these capabilities may see of it: it is not shown the question whether the task may run, if it cannot be asked that.
    #[must_use]
    pub fn for_client(mut self, capabilities: &ClientCapabilities) -> Self {
        if self.task.awaits_confirmation() && !capabilities.has(Capability::ElicitationForm) {
            self.hide_confirmation();
            if !self.task.is_confirmed_by_operators() {
                self.task.status = Some(NOT_ASKED.into());
            }
        }
        self.for_clients()
    }

    fn hide_confirmation(&mut self) {
        self.task.hide_confirmation();
        self.inputs.clear();
    }
}

/// How many tasks of a tool may run at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolLimit {
    /// The tool.
    pub tool: Arc<str>,
    /// So many.
    pub concurrency: usize,
}

/// A page of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    /// Newest first.
    pub tasks: Vec<Task>,
    /// Whether there are older ones.
    pub more: bool,
}

/// How many live tasks there are in each state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Waiting for a slot.
    pub queued: u64,
    /// Running, or waiting in memory.
    pub running: u64,
    /// Suspended.
    pub suspended: u64,
    /// Blocked.
    pub blocked: u64,
}

/// The live tasks of a tool in one state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveTasks {
    /// The tool.
    pub tool: Arc<str>,
    /// The state, which is not [`State::Done`].
    pub state: State,
    /// How many there are.
    pub count: u64,
    /// How many of them have an open question.
    pub asking: u64,
    /// The least [`Task::ready_at`]: since when the first queued one has been ready.
    pub ready_at: UnixMillis,
}

impl LiveTasks {
    /// Counts live tasks.
    pub fn sum<'a>(tasks: impl IntoIterator<Item = &'a Task>) -> Vec<Self> {
        let one = |task: &Task| Self {
            tool: Arc::clone(&task.tool),
            state: task.state,
            count: 1,
            asking: u64::from(!task.open_inputs.is_empty()),
            ready_at: task.ready_at,
        };
        Self::merge(Vec::new(), tasks.into_iter().map(one).collect())
    }

    /// Adds two counts of different tasks.
    pub fn merge(one: Vec<Self>, other: Vec<Self>) -> Vec<Self> {
        let mut sums: BTreeMap<(Arc<str>, u8), Self> = BTreeMap::new();
        for group in one.into_iter().chain(other) {
            match sums.entry((Arc::clone(&group.tool), rank(group.state))) {
                Entry::Vacant(entry) => {
                    entry.insert(group);
                }
                Entry::Occupied(mut entry) => {
                    let sum = entry.get_mut();
                    sum.count += group.count;
                    sum.asking += group.asking;
                    sum.ready_at = sum.ready_at.min(group.ready_at);
                }
            }
        }
        sums.into_values().collect()
    }
}

/// The order of live states.
fn rank(state: State) -> u8 {
    match state {
        State::Blocked => 0,
        State::Queued => 1,
        State::Running => 2,
        State::Suspended => 3,
        State::Done(_) => 4,
    }
}

/// What a store does beyond what every store [promises](self).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StoreCapabilities {
    /// It keeps plain calls that [may be kept in memory](NewTask::in_memory) there, and their creation and end complete without waiting. The events of
    /// these calls are not lost, and that of the end carries the record: the store has forgotten the call by then.
    pub plain_calls_in_memory: bool,
    /// Several processes may use it at a time, and what one of them commits the others may learn late or not at all. All events of a store of one
    /// process arrive, soon after their commits.
    pub many_nodes: bool,
}

/// Stores tasks. See the [module](self) for what all methods promise together.
pub trait Store:
    TaskStore + JournalStore + QueueStore + TimerStore + LeaseStore + SessionStore + SearchStore + ScheduleStore
{
    /// Calls `listener` with what changes from now on. Everything must also work without events.
    fn listen(&self, listener: StoreListener);

    /// What it does beyond what every store promises. Never changes.
    fn capabilities(&self) -> StoreCapabilities {
        StoreCapabilities::default()
    }

    /// Whether new tasks and results are refused for want of room, though deletions are not.
    fn refuses_payloads(&self) -> bool {
        false
    }

    /// What it knows of its connections and events in this process. A store that only one process can open has none.
    fn health(&self) -> StoreHealth {
        StoreHealth::default()
    }

    /// What this process has committed. A store without transactions has none.
    fn commit_counts(&self) -> CommitCounts {
        CommitCounts::default()
    }
}
