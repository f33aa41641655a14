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
mod permits;
mod search;
mod signing_key;

pub use change::{Change, ChangeEnds, LONGEST_DEFERRAL};
pub use commit_counts::{CommitCounter, CommitCounts};
pub use create::{Created, History, Idempotency, NewTask, ParentEntry, UnwrittenCall};
pub use error::{ApplyError, CreateError, FULL_DISK_ADVICE, GiveUpError, MAX_ENDED_SESSIONS, StoreError};
pub use event::{Hint, StoreEvent, StoreListener};
pub use health::{EventDelivery, PoolHealth, StoreHealth};
pub use lease::{
    Claim, Claimed, HOST_GIVEN_UP, HeldAttempt, Lease, LeaseStatus, NewNode, NodeRole, NodeStatus, Renewal,
};
pub use lookup::TaskLookup;
pub use permits::{PermitHolder, PermitReport, PermitRequest, Permits};
pub use search::{FoundTasks, SearchOrder, TaskFilter, TaskSearch};
pub use signing_key::SigningKey;

use crate::{
    BoxFuture, HostId, Input, Json, Millis, NodeId, Outcome, Principal, Scope, SessionKey, SpecId, State, Task, TaskId,
    ToolSpec, UnixMillis, Usage,
};
use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::Arc,
};

/// How long a [tombstone](Store::tombstones) is kept at least, in milliseconds: 90 days. A host that is away for longer keeps its files.
pub const TOMBSTONE_RETENTION: Millis = 90 * 86_400_000;

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
pub trait Store: Send + Sync + 'static {
    /// Registers a new incarnation of a server, greater than every earlier one, and gives it a lease. `at` is the time by the caller's clock.
    ///
    /// A host is leased to one node at a time, since disks are cloned: [`StoreError::HostInUse`] while an earlier node of this host may live, unless that was on
    /// the same [directory](NewNode::directory). So all earlier nodes of the host are dead once this completes. In a store that only one process can open, all
    /// earlier nodes are.
    fn open_node(&self, new: &NewNode, at: UnixMillis) -> BoxFuture<'_, Result<Lease, StoreError>>;

    /// Renews a node's lease from now on, and says what the node holds. An expired lease can be renewed until another node marks it lost. After that this
    /// always fails with [`StoreError::LeaseLost`].
    ///
    /// Also marks the leases of other nodes lost that have expired. Only a node that has held its own lease for one whole length without a gap does so:
    /// after an outage of the store all others get the time to renew theirs.
    fn renew(&self, node: NodeId) -> BoxFuture<'_, Result<Renewal, StoreError>>;

    /// Gives up a node's lease, so that others can take over what it holds at once. Ends nothing in a store that only one process can open.
    fn end_lease(&self, node: NodeId) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Completes once no write that `node` has made before can be executed any more. After [`StoreError::OutcomeUnknown`] a task is written again only
    /// then: the earlier write could else be executed after the task was deleted, and make it anew.
    ///
    /// The default completes at once, as is right for a store that executes each write before it answers.
    fn await_earlier_writes(&self, node: NodeId) -> BoxFuture<'_, Result<(), StoreError>> {
        let _ = node;
        Box::pin(std::future::ready(Ok(())))
    }

    /// Gives up the host of a dead node, because an operator knows that it does not come back: from now on what is bound to it can be
    /// [reclaimed](Self::reclaim). A node that is opened on the host later starts anew.
    ///
    /// Only called where [many nodes](StoreCapabilities::many_nodes) share the store. The default knows no node.
    fn give_up_host(&self, node: NodeId) -> BoxFuture<'_, Result<(), GiveUpError>> {
        let _ = node;
        Box::pin(std::future::ready(Err(GiveUpError::UnknownNode)))
    }

    /// The nodes that live, and those that are dead and hold active attempts, in order of their numbers: for operators. Costs as much as there are active
    /// attempts.
    ///
    /// Only called where [many nodes](StoreCapabilities::many_nodes) share the store. The default knows none.
    fn nodes(&self) -> BoxFuture<'_, Result<Vec<NodeStatus>, StoreError>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// Keeps a tool's definition. Putting it again changes nothing.
    fn put_spec(&self, spec: ToolSpec) -> BoxFuture<'_, Result<(), StoreError>>;

    /// The definition with this id, if any was put.
    fn spec(&self, id: &SpecId) -> BoxFuture<'_, Result<Option<ToolSpec>, StoreError>>;

    /// Keeps how many tasks of a tool may run at once, in place of what was kept before; `None` for no limit.
    fn put_limit(&self, tool: &str, concurrency: Option<usize>) -> BoxFuture<'_, Result<(), StoreError>>;

    /// The limits that were put last, of all tools that have one.
    fn limits(&self) -> BoxFuture<'_, Result<Vec<ToolLimit>, StoreError>>;

    /// Pauses a tool, or ends its pause; kept over restarts. No node begins anything of a paused tool. Doing it again changes nothing.
    fn set_paused(&self, tool: &str, paused: bool) -> BoxFuture<'_, Result<(), StoreError>>;

    /// The paused tools, in order of their names.
    fn paused(&self) -> BoxFuture<'_, Result<Vec<Arc<str>>, StoreError>>;

    /// Divides the permits of tools with a limit among the nodes, as [`PermitHolder::answer`] does. The answer has one line for each request, in their
    /// order. [`StoreError::LeaseLost`] if the node is dead: it may begin nothing any more. What a dead node held stays in use as far as it still has active
    /// attempts.
    ///
    /// Only called where [many nodes](StoreCapabilities::many_nodes) share the store. The default gives the only node what it wants.
    fn share_permits(&self, node: NodeId, report: PermitReport) -> BoxFuture<'_, Result<Vec<Permits>, StoreError>> {
        let _ = node;
        let permits = report.requests.into_iter().map(|request| Permits {
            tool: request.tool,
            count: request.wanted,
        });
        Box::pin(std::future::ready(Ok(permits.collect())))
    }

    /// Writes a new task, claimed in the same write if the caller has a slot for it. When this completes, a read from anywhere
    /// finds the task. An id that exists, and a definition that was never put, are [`StoreError::Failed`].
    ///
    /// All in the same write: a call whose [`NewTask::idempotency`] key is known gets the task it made the first time, whatever the quota,
    /// and one that is new must fit [`NewTask::quota`]. A child is written together with its [parent's change](NewTask::parent_change),
    /// which must be legal for a parent that is not asked to stop; if the child is created as ended, its parent gets
    /// [`Event::ChildEnded`](crate::Event::ChildEnded). A task that [replaces](NewTask::replaces) another one is written together with the end of that, whose
    /// share of the quota it takes over. A repeated call writes neither the parent nor the replaced task. The cost does not grow with the number of tasks.
    fn create(&self, new: NewTask) -> BoxFuture<'_, Result<Created, CreateError>>;

    /// The task of a call of `tool` that `principal` made before under this key: the one that a [`create`](Self::create) of the same call would find
    /// now. With the [digest](Idempotency::digest) of its arguments, `None` also if the key stands for other arguments.
    fn find_by_idempotency_key(
        &self,
        principal: &Principal,
        tool: &str,
        key: &str,
        digest: Option<[u8; 32]>,
    ) -> BoxFuture<'_, Result<Option<Task>, StoreError>>;

    /// Writes a call that was kept in memory, with `change` applied to it in the same write. Its quota was decided when it began. `change` is
    /// legal for the call as it is, and may be without events.
    ///
    /// If a task with its id is there, an earlier write whose answer was lost has written it, change and all: that task is returned as it is, and
    /// nothing is written.
    fn write_call(&self, call: UnwrittenCall, change: Change) -> BoxFuture<'_, Result<Task, ApplyError>>;

    /// How much one principal has, or all together.
    fn usage(&self, of: Option<&Principal>) -> BoxFuture<'_, Result<Usage, StoreError>>;

    /// Applies events to one task, all or none, and returns the task as it then is.
    ///
    /// The fence, if given or needed, must be that of the task's active attempt, in the same transaction (invariant 3). Answers
    /// are kept with their question; questions that the task no longer lists as open become withdrawn. Entries take their place in the
    /// journal, if their epoch is the fence's. A change that ends a child also gives its parent [`Event::ChildEnded`](crate::Event::ChildEnded), with a
    /// [`ChildEntry::of_ended`](crate::ChildEntry::of_ended) as the value, if that is legal there; each task gets its own event.
    fn apply(&self, change: Change) -> BoxFuture<'_, Result<Task, ApplyError>>;

    /// Takes up to `limit` ready tasks from one tool's queue, in order of `ready_at`, then id. No task is given to two claimers, and none to a node that has
    /// [lost its lease](StoreError::LeaseLost).
    fn claim(&self, claim: Claim) -> BoxFuture<'_, Result<Vec<Claimed>, StoreError>>;

    /// Hands `node` up to `limit` active attempts whose node is dead, having lost its lease, and that `host` can resume: those bound to `host`,
    /// and those bound to none; in order of their node, then id. They keep their epoch, so the fence changes by the node alone.
    /// Call it until it returns nothing.
    ///
    /// A store that only one process can open is one host, whatever it was called: all active attempts of earlier nodes are handed out.
    fn adopt(
        &self,
        node: NodeId,
        host: &HostId,
        limit: usize,
        at: UnixMillis,
    ) -> BoxFuture<'_, Result<Vec<Claimed>, StoreError>>;

    /// Hands `node` up to `limit` active attempts that are bound to another host than `host` and are lost with it: no node of that host that runs tasks has held a
    /// lease for `lost_for`. An attempt that is asked to stop is lost as soon as no such node holds a lease. They keep their epoch, and are bound to no host any more. In order of their node, then id. Call it until it returns nothing.
    fn reclaim(
        &self,
        node: NodeId,
        host: &HostId,
        lost_for: Millis,
        limit: usize,
        at: UnixMillis,
    ) -> BoxFuture<'_, Result<Vec<Claimed>, StoreError>>;

    /// The active attempt of a task, with what its worker needs, if `node` holds it. Used when the answer of a claim was lost.
    fn held(&self, node: NodeId, id: &TaskId) -> BoxFuture<'_, Result<Option<Claimed>, StoreError>>;

    /// The tools that have queued tasks, ready or not.
    fn queued_tools(&self) -> BoxFuture<'_, Result<Vec<Arc<str>>, StoreError>>;

    /// When the earliest queued task of `tool` is ready, if one is queued.
    fn next_ready(&self, tool: &str) -> BoxFuture<'_, Result<Option<UnixMillis>, StoreError>>;

    /// How many queued tasks of its tool and its principal come before `task`, counted up to `most`. Those of other principals are not counted,
    /// since the number is shown to the owner. The cost grows with `most` only.
    fn queued_before(&self, task: &Task, most: usize) -> BoxFuture<'_, Result<usize, StoreError>>;

    /// One announced task, as `scope`'s principal may see it; `None` for an unknown id, a foreign one and one never announced
    /// alike (invariant 5). Costs the same however many tasks are kept.
    fn get(&self, scope: &Scope, id: &TaskId) -> BoxFuture<'_, Result<Option<Record>, StoreError>>;

    /// One task, whoever owns it and whether announced or not: for the runtime, never for an outside reader.
    fn get_unscoped(&self, id: &TaskId) -> BoxFuture<'_, Result<Option<Record>, StoreError>>;

    /// The versions of those of `ids` that exist, in any order; for any owner, and whether announced or not.
    fn versions(&self, ids: &[TaskId]) -> BoxFuture<'_, Result<Vec<(TaskId, u64)>, StoreError>>;

    /// The question of a task with this key, whatever has become of it.
    fn input(&self, id: &TaskId, key: &crate::InputKey) -> BoxFuture<'_, Result<Option<Input>, StoreError>>;

    /// The first `limit` questions of a task, by the time they were asked and then by key, whatever has become of them; for any owner.
    fn inputs(&self, id: &TaskId, limit: usize) -> BoxFuture<'_, Result<Vec<Input>, StoreError>>;

    /// Up to `limit` entries of a task's journal after position `after`, in order; for any owner.
    fn journal(&self, id: &TaskId, after: u32, limit: usize) -> BoxFuture<'_, Result<Vec<crate::Entry>, StoreError>>;

    /// Up to `limit` of those entries of a task's journal that are output ([`EntryKind::Emit`](crate::EntryKind::Emit)), after position
    /// `after`, in order; for any owner. Costs nothing for the entries in between.
    fn emitted(&self, id: &TaskId, after: u32, limit: usize) -> BoxFuture<'_, Result<Vec<crate::Entry>, StoreError>>;

    /// Who called: the [`NewTask::requestor`] of a task, whoever owns it; `None` for an unknown one.
    fn requestor(&self, id: &TaskId) -> BoxFuture<'_, Result<Option<Json>, StoreError>>;

    /// What a task was called with; `None` for an unknown one. For any owner.
    fn arguments(&self, id: &TaskId) -> BoxFuture<'_, Result<Option<Json>, StoreError>>;

    /// Up to `limit` tasks, as the [`TaskLookup`] says.
    fn find(&self, lookup: TaskLookup, limit: usize) -> BoxFuture<'_, Result<Vec<Task>, StoreError>>;

    /// Tasks of any owner, announced or not, as [`TaskSearch::page_of`] finds them: for an operator, never for a client. The cost of a page does not grow with
    /// what is kept if it is of live or of unsuccessful tasks, of those of a principal, or of those that a task started.
    fn search(&self, search: TaskSearch) -> BoxFuture<'_, Result<FoundTasks, StoreError>>;

    /// Announced tasks in `scope`, newest first, that are older than `before` (by id).
    fn list(&self, scope: &Scope, before: Option<&TaskId>, limit: usize) -> BoxFuture<'_, Result<Page, StoreError>>;

    /// The earliest [`Task::wake_at`] of all live tasks.
    fn next_wake(&self) -> BoxFuture<'_, Result<Option<UnixMillis>, StoreError>>;

    /// Makes the timers of all suspended tasks due at `at`, if they are not earlier: their code must read the system's clock again, which was
    /// set. Costs as much as there are live tasks.
    fn make_timers_due(&self, at: UnixMillis) -> BoxFuture<'_, Result<(), StoreError>>;

    /// When the task with the greatest id was created.
    fn newest_created_at(&self) -> BoxFuture<'_, Result<Option<UnixMillis>, StoreError>>;

    /// Up to `limit` tasks whose [`Task::delete_at`] has come, earliest first.
    fn expired(&self, at: UnixMillis, limit: usize) -> BoxFuture<'_, Result<Vec<TaskId>, StoreError>>;

    /// Records that attempt folders are about to be removed. Call it before they are: from then on a copy of the store that was taken earlier,
    /// and put back later, is recognized when it is opened. The folders would have shown what ran since.
    fn record_removal(&self) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Deletes those of `ids` whose [`Task::delete_at`] has come, with all that belongs to them, and returns how many there were.
    /// There are no events of it. Also forgets ended sessions whose time is over.
    ///
    /// The caller has removed the files of these tasks on `host`. In a store that [many nodes](StoreCapabilities::many_nodes) share, a task whose attempts
    /// were bound to other hosts, too, leaves a [tombstone](Self::tombstones) for each of them. Tombstones that are older than [`TOMBSTONE_RETENTION`]
    /// are forgotten: their hosts do not come back.
    fn delete(&self, host: &HostId, ids: Vec<TaskId>, at: UnixMillis) -> BoxFuture<'_, Result<usize, StoreError>>;

    /// As [`delete`](Self::delete), of those of `ids` that are over and have no active attempt: their owner does not want them any more, so their
    /// [`Task::delete_at`] does not matter. A store that keeps them in files overwrites their rows.
    fn delete_ended(&self, host: &HostId, ids: Vec<TaskId>, at: UnixMillis)
    -> BoxFuture<'_, Result<usize, StoreError>>;

    /// Up to `limit` deleted tasks that may have files on `host`, in order of their ids. The host removes the files, and then the
    /// [tombstones](Self::remove_tombstones).
    ///
    /// A store that only one process can open is one host, so it has none.
    fn tombstones(&self, host: &HostId, limit: usize) -> BoxFuture<'_, Result<Vec<TaskId>, StoreError>> {
        let _ = (host, limit);
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// Removes the tombstones of `host` for these tasks, whose files are gone. Unknown ones are ignored.
    fn remove_tombstones(&self, host: &HostId, ids: Vec<TaskId>) -> BoxFuture<'_, Result<(), StoreError>> {
        let _ = (host, ids);
        Box::pin(std::future::ready(Ok(())))
    }

    /// Live tasks by state.
    fn counts(&self) -> BoxFuture<'_, Result<Counts, StoreError>>;

    /// Live tasks by tool and state, in order of both; a state of a tool without tasks is left out. Costs as much as there are live tasks.
    fn live_tasks(&self) -> BoxFuture<'_, Result<Vec<LiveTasks>, StoreError>>;

    /// The keys that sign for `purpose`, newest first, after [`SigningKey::rotate`] with `fresh`, in one step.
    fn signing_keys(&self, purpose: &str, fresh: SigningKey) -> BoxFuture<'_, Result<Vec<SigningKey>, StoreError>>;

    /// Remembers at least until `until` that a legacy session was ended by its client: until a later
    /// [`delete`](Self::delete) or [`open_node`](Self::open_node) says that this time has come. [`StoreError::TooManySessions`] when
    /// [`MAX_ENDED_SESSIONS`] others are remembered, or a few more that came at the same time.
    fn end_session(&self, session: &SessionKey, until: UnixMillis) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Whether the session was ended by its client. Asked on every legacy request; costs no disk access. Where [many nodes](StoreCapabilities::many_nodes)
    /// share the store, a node may learn up to five seconds late of a session that was ended at another one.
    fn session_ended(&self, session: &SessionKey) -> BoxFuture<'_, Result<bool, StoreError>>;

    /// Sends a text to another node, or without one to all nodes, whose listeners get it as [`StoreEvent::Message`]. Those of the sender may get what is for
    /// all, too. Like every event it may be lost, so nothing may depend on it. Those from one node to another keep their order.
    ///
    /// A store that only one process can open has no other nodes, and drops it.
    fn send(&self, to: Option<NodeId>, text: Arc<str>) -> BoxFuture<'_, Result<(), StoreError>> {
        let _ = (to, text);
        Box::pin(std::future::ready(Ok(())))
    }

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
