//! What a store promises.
//!
//! A store keeps tasks, and decides nothing about them: it loads a task, runs [`transition`](crate::transition) and writes the
//! answer, inside one transaction of its own. The promises are worded so that one SQLite file and a PostgreSQL server with many
//! nodes can both keep them; `longhaul_store::contract` is the suite that every store must pass.
//!
//! - **Acknowledged means kept.** A method that writes completes with `Ok` only after its change has been committed so that it
//!   survives the end of the process, and the loss of power as far as the disk keeps what it confirmed (invariants 1 and 11). Of a task
//!   that nobody can have heard of (never announced, without an idempotency key or a parent, and nothing is written about it but what its
//!   attempt has said of itself) the loss of power may take what its attempt has said; and the task itself, unless its attempt is bound to a
//!   host, in which case the task and the [start](crate::Event::Started) of each such attempt are kept like all else. Whatever is kept, all that was acknowledged before it is kept too.
//! - **All or nothing.** A change happens whole or not at all, also when it is refused.
//! - **Linear per task.** Changes of one task happen one after the other; a read that begins after a write was acknowledged sees
//!   that write.
//! - **Begun is not undone.** Dropping the future of a write may leave it made or not made, never half made.
//! - **Hints, not news.** A change hint says that a task has reached *at least* a version; readers look for themselves.

use crate::{
    BoxFuture, Entry, Event, Fence, HostId, IllegalEvent, Input, Json, NodeId, Outcome, Principal, Quota,
    QuotaExceeded, Scope, SessionKey, SpecId, Task, TaskHeader, TaskId, ToolSpec, UnixMillis, Usage,
};
use std::{ops::Deref, sync::Arc};

/// How many ended sessions a store remembers. One that is forgotten before its id expires would come back to life, so beyond these no session is
/// ended.
pub const MOST_ENDED_SESSIONS: usize = 50_000;

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
    /// Another process keeps the store from writing, for longer than is waited for it. Nothing was changed; reading goes on, and writing may
    /// succeed later. The store says so in the log, once for all who are refused.
    #[error("another process holds a write transaction on the database")]
    Locked,
    /// As many ended sessions are remembered as may be. This one was not ended.
    #[error("{MOST_ENDED_SESSIONS} ended sessions are remembered, and no more")]
    TooManySessions,
    /// Nobody has accepted the store as it is, so it can be read and nothing else. Nothing was changed.
    #[error(
        "the store can only be read: its database is not the latest one of its directory, and nobody has accepted it"
    )]
    ReadsOnly,
    /// The store is closing; nothing was changed.
    #[error("the store is closed")]
    Closed,
    /// Anything else; the text is for the log, not for clients.
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
    /// [`transition`](crate::transition) refused one of the events; none was applied.
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
    KeyTaken,
    /// Too much is kept already.
    #[error(transparent)]
    Quota(#[from] QuotaExceeded),
    /// The parent is over, is to stop, or is another's by now.
    #[error("the parent cannot start it: {0}")]
    Parent(ApplyError),
    /// The store itself.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The result of a creation.
#[derive(Debug, Clone, PartialEq)]
pub enum Created {
    /// It was written.
    New(Task),
    /// The same call was made before, under the same idempotency key: this is its task as it now is, and nothing was written.
    Existing(Task),
}

impl Created {
    /// The task, old or new.
    pub fn task(&self) -> &Task {
        match self {
            Self::New(task) | Self::Existing(task) => task,
        }
    }

    /// The task, old or new.
    pub fn into_task(self) -> Task {
        match self {
            Self::New(task) | Self::Existing(task) => task,
        }
    }
}

/// Makes a call that arrives twice one call. A key is unique with principal and tool, and is free again when its
/// task is deleted.
#[derive(Clone, PartialEq, Eq)]
pub struct Idempotency {
    /// The caller's name for the call. Opaque.
    pub key: Arc<str>,
    /// Of the arguments, in a form in which equal ones are equal.
    pub digest: [u8; 32],
}

/// The key is a bearer's, so a debug print does not show it.
impl std::fmt::Debug for Idempotency {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Idempotency")
    }
}

/// A task to be created. The fields of its header can be read as its own.
#[derive(Debug, Clone, PartialEq)]
pub struct NewTask {
    /// What will never change about it: its id is freshly minted, its definition has been put before, and it is created now.
    pub header: TaskHeader,
    /// Whether its id is given away at once.
    pub announced: bool,
    /// Whether a store that [keeps plain calls in memory](StoreCapabilities::plain_calls_in_memory) may keep this one there: it is lost when the
    /// process ends, and nobody would ask for it then. Other stores ignore it.
    pub in_memory: bool,
    /// The arguments, as they came.
    pub arguments: Json,
    /// Who calls: an object that the runtime writes and reads, and that is no part of the task's [`Record`].
    pub requestor: Json,
    /// Claim it in the same write, for a node that has a free slot.
    pub claim: Option<(NodeId, Option<HostId>)>,
    /// End it in the same write: a legacy call with bad arguments gets a failed task.
    pub outcome: Option<Outcome>,
    /// The caller's name for the call, if it may be made twice.
    pub idempotency: Option<Idempotency>,
    /// How much may be kept with it.
    pub quota: Quota,
    /// What the parent writes, if the header's lineage names one, in the same write.
    pub parent: Option<ParentEntry>,
}

/// What a task writes when it starts another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParentEntry {
    /// The right of the parent's attempt to write.
    pub fence: Fence,
    /// The parent's entry, whose position is the [`Lineage::entry`](crate::Lineage::entry).
    pub entry: Entry,
}

impl Deref for NewTask {
    type Target = TaskHeader;

    fn deref(&self) -> &TaskHeader {
        &self.header
    }
}

impl NewTask {
    /// The change of the parent that goes with the creation; `None` without a parent.
    pub fn parent_change(&self) -> Option<Change> {
        let (parent, lineage) = (self.parent.as_ref()?, self.lineage.as_ref()?);
        Some(Change {
            task: lineage.parent.clone(),
            fence: Some(parent.fence),
            events: vec![Event::Journaled(parent.entry.clone())],
            at: self.created_at,
        })
    }

    /// The task as it is first written: queued, or claimed, or over and with its outcome.
    pub fn task(&self) -> (Task, Option<Outcome>) {
        let now = self.created_at;
        let task = Task {
            header: Arc::new(self.header.clone()),
            announced: self.announced,
            keyed: self.idempotency.is_some(),
            state: crate::State::Queued,
            stop: None,
            attempt: None,
            attempts_used: 0,
            updated_at: now,
            ready_at: now,
            announced_until: now.plus(self.retention),
            ended_at: None,
            status: None,
            progress: None,
            open_inputs: Vec::new(),
            inputs_asked: 0,
            journaled: 0,
            woken: 0,
            resume_at: None,
            blocked: None,
            version: 1,
        };
        let event = match (&self.outcome, &self.claim) {
            (Some(outcome), _) => Some(Event::Abandoned(outcome.clone())),
            (None, Some((node, host))) => Some(Event::Claimed {
                node: *node,
                host: host.clone(),
            }),
            (None, None) => None,
        };
        // A queued task that is ready takes either event; should that ever change, it stays queued and is claimed like any other.
        match event.map(|event| crate::transition(&task, &event, now)) {
            Some(Ok(first)) => first,
            _ => (task, None),
        }
    }
}

/// A plain call that was kept in memory until now, to be written.
#[derive(Debug, Clone, PartialEq)]
pub struct UnwrittenCall {
    /// The task as it is: live, without a parent, a journal or questions.
    pub task: Task,
    /// The arguments, as they came.
    pub arguments: Json,
    /// Who calls, as [`NewTask::requestor`] said.
    pub requestor: Json,
}

impl UnwrittenCall {
    /// All that a reader may see of it.
    pub fn record(&self) -> Record {
        Record {
            task: self.task.clone(),
            outcome: None,
            inputs: Vec::new(),
        }
    }
}

/// Changes to one task.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// Which task.
    pub task: TaskId,
    /// The worker's right to write; needed by the events that [`Event::needs_fence`].
    pub fence: Option<Fence>,
    /// What happened, in order; applied all or none.
    pub events: Vec<Event>,
    /// When.
    pub at: UnixMillis,
}

impl Change {
    /// A change that needs no fence.
    pub fn of(task: &TaskId, event: Event, at: UnixMillis) -> Self {
        Self {
            task: task.clone(),
            fence: None,
            events: vec![event],
            at,
        }
    }
}

/// A request for queued tasks.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    /// From this tool's queue.
    pub tool: Arc<str>,
    /// For this node.
    pub node: NodeId,
    /// Set if the work will be bound to this host.
    pub host: Option<HostId>,
    /// At most so many.
    pub limit: usize,
    /// Now: only tasks that are ready by then.
    pub at: UnixMillis,
}

/// A task taken from its queue, with what its worker needs.
#[derive(Debug, Clone, PartialEq)]
pub struct Claimed {
    /// The task; its active attempt is the claimer's.
    pub task: Task,
    /// The arguments, as they came.
    pub arguments: Json,
    /// Who called, as [`NewTask::requestor`] said.
    pub requestor: Json,
}

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

/// A key that signs what is given away and comes back: cursors, sessions.
#[derive(Clone, PartialEq, Eq)]
pub struct SigningKey {
    /// Names the key inside what it signed.
    pub id: u32,
    /// 32 secret bytes.
    pub secret: [u8; 32],
}

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SigningKey({})", self.id)
    }
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

/// Says that `task` has reached at least `version`.
#[derive(Debug, Clone, PartialEq)]
pub struct Hint {
    /// Which task.
    pub task: TaskId,
    /// At least this version.
    pub version: u64,
    /// The record of a task that is over, if the store has it at hand: whoever waits for the end need not read it.
    pub ended: Option<Arc<Record>>,
}

impl Hint {
    /// Of a task as it is, live or without its record.
    pub fn of(task: &Task) -> Self {
        Self {
            task: task.id.clone(),
            version: task.version,
            ended: None,
        }
    }
}

/// What a store does beyond what every store [promises](self).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StoreCapabilities {
    /// It keeps plain calls that [may be kept in memory](NewTask::in_memory) there, and their creation and end complete without waiting.
    pub plain_calls_in_memory: bool,
}

/// Called after each commit, in commit order per task, with what it changed. Must return quickly and must not call the store.
pub type Listener = Arc<dyn Fn(&[Hint]) + Send + Sync>;

/// The keeper of tasks. See the [module](self) for what all methods promise together.
pub trait Store: Send + Sync + 'static {
    /// Registers a new incarnation of a server on `host`, greater than every earlier one.
    ///
    /// Whoever calls this has proven that no earlier incarnation *on the same store lock* (SQLite: the data directory; PostgreSQL:
    /// the node's lease) still lives; what those held can then be adopted.
    fn open_node(&self, host: &HostId, at: UnixMillis) -> BoxFuture<'_, Result<NodeId, StoreError>>;

    /// Keeps a tool's definition. Putting it again changes nothing.
    fn put_spec(&self, spec: ToolSpec) -> BoxFuture<'_, Result<(), StoreError>>;

    /// The definition with this id, if any was put.
    fn spec(&self, id: &SpecId) -> BoxFuture<'_, Result<Option<ToolSpec>, StoreError>>;

    /// Keeps how many tasks of a tool may run at once, in place of what was kept before; `None` for no limit.
    fn put_limit(&self, tool: &str, concurrency: Option<usize>) -> BoxFuture<'_, Result<(), StoreError>>;

    /// The limits that were put last, of all tools that have one.
    fn limits(&self) -> BoxFuture<'_, Result<Vec<ToolLimit>, StoreError>>;

    /// Writes a new task, claimed in the same write if the caller has a slot for it. When this completes, a read from anywhere
    /// finds the task (G2-16). An id that exists, and a definition that was never put, are [`StoreError::Failed`].
    ///
    /// All in the same write: a call whose [`NewTask::idempotency`] key is known gets the task it made the first time, whatever the
    /// quota, and one that is new must fit [`NewTask::quota`]. One that another task starts is only written together with that one's
    /// [`Parent::change`], which must be legal for a parent that is not asked to stop; one that is over as it is created is at once its parent's
    /// [`Event::ChildEnded`]. A repeated call writes nothing of the parent either. Deciding any of it costs the same however many tasks are kept.
    fn create(&self, new: NewTask) -> BoxFuture<'_, Result<Created, CreateError>>;

    /// The task of a call of `tool` that `principal` made before under this key and with these arguments: the one that a
    /// [`create`](Self::create) of the same call would find now. `None` also if the key stands for other arguments.
    fn keyed(
        &self,
        principal: &Principal,
        tool: &str,
        idempotency: &Idempotency,
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
    /// journal, if their epoch is the fence's. A change that ends a task which another one started also is that one's [`Event::ChildEnded`], with a
    /// [`ChildEntry::of_ended`](crate::ChildEntry::of_ended) as the value, if it is legal there; a hint tells of it as of any change.
    fn apply(&self, change: Change) -> BoxFuture<'_, Result<Task, ApplyError>>;

    /// Takes up to `limit` ready tasks from one tool's queue, in order of `ready_at`, then id. No task is given to two claimers.
    fn claim(&self, claim: Claim) -> BoxFuture<'_, Result<Vec<Claimed>, StoreError>>;

    /// Hands `node` up to `limit` active attempts whose node is proven dead and that `host` can take up: those bound to `host`,
    /// and those bound to none; in order of their node, then id. They keep their epoch, so the fence changes by the node alone.
    /// Called until the answer is empty.
    fn adopt(
        &self,
        node: NodeId,
        host: &HostId,
        limit: usize,
        at: UnixMillis,
    ) -> BoxFuture<'_, Result<Vec<Claimed>, StoreError>>;

    /// Up to `limit` live tasks that were never announced, have no idempotency key, and whose front, earlier than `node`, is proven dead: nobody waits for
    /// them any more. In order of their front, then id.
    fn orphaned_calls(&self, node: NodeId, limit: usize) -> BoxFuture<'_, Result<Vec<Task>, StoreError>>;

    /// The tools that have queued tasks, ready or not.
    fn queued_tools(&self) -> BoxFuture<'_, Result<Vec<Arc<str>>, StoreError>>;

    /// The moment at which the earliest queued task of `tool` is ready, if one is queued.
    fn next_ready(&self, tool: &str) -> BoxFuture<'_, Result<Option<UnixMillis>, StoreError>>;

    /// How many queued tasks of its tool come before `task`; at most `most`. Costs no more than these.
    fn queued_before(&self, task: &Task, most: usize) -> BoxFuture<'_, Result<usize, StoreError>>;

    /// One announced task, as `scope`'s principal may see it; `None` for an unknown id, a foreign one and one never announced
    /// alike (invariant 5). Costs the same however many tasks are kept.
    fn get(&self, scope: &Scope, id: &TaskId) -> BoxFuture<'_, Result<Option<Record>, StoreError>>;

    /// One task, whoever owns it and whether announced or not: for the runtime, never for an outside reader.
    fn peek(&self, id: &TaskId) -> BoxFuture<'_, Result<Option<Record>, StoreError>>;

    /// The question of a task with this key, whatever has become of it.
    fn input(&self, id: &TaskId, key: &crate::InputKey) -> BoxFuture<'_, Result<Option<Input>, StoreError>>;

    /// Up to `limit` entries of a task's journal after position `after`, in order; for any owner.
    fn journal(&self, id: &TaskId, after: u32, limit: usize) -> BoxFuture<'_, Result<Vec<Entry>, StoreError>>;

    /// Up to `limit` of those entries of a task's journal that are output ([`EntryKind::Emit`](crate::EntryKind::Emit)), after position
    /// `after`, in order; for any owner. Costs nothing for the entries in between.
    fn emitted(&self, id: &TaskId, after: u32, limit: usize) -> BoxFuture<'_, Result<Vec<Entry>, StoreError>>;

    /// Up to `limit` live tasks that `parent` started and that were not asked to stop, in order of their ids.
    fn children(&self, parent: &TaskId, limit: usize) -> BoxFuture<'_, Result<Vec<Task>, StoreError>>;

    /// Up to `limit` live tasks, not asked to stop, whose parent is over, deleted or asked to stop, in order of their parent, then id. For recovery: a
    /// process may have died before it had cancelled them. Costs as much as there are live tasks with a parent.
    fn children_of_finished_parents(&self, limit: usize) -> BoxFuture<'_, Result<Vec<Task>, StoreError>>;

    /// Up to `limit` blocked tasks that come after `after` (by id), in order of their ids. Costs nothing for what is not blocked.
    fn blocked(&self, after: Option<&TaskId>, limit: usize) -> BoxFuture<'_, Result<Vec<Task>, StoreError>>;

    /// Who called: the [`NewTask::requestor`] of a task, whoever owns it; `None` for an unknown one.
    fn requestor(&self, id: &TaskId) -> BoxFuture<'_, Result<Option<Json>, StoreError>>;

    /// Announced tasks in `scope`, newest first, that are older than `before` (by id).
    fn list(&self, scope: &Scope, before: Option<&TaskId>, limit: usize) -> BoxFuture<'_, Result<Page, StoreError>>;

    /// Up to `limit` announced tasks of a legacy session that are not over and come after `after` (by id), oldest first. Costs
    /// nothing for what is over.
    fn live(
        &self,
        owner: &Principal,
        session: &SessionKey,
        after: Option<&TaskId>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<Task>, StoreError>>;

    /// Up to `limit` live tasks whose [`Task::wake_at`] has come, earliest first.
    fn due(&self, at: UnixMillis, limit: usize) -> BoxFuture<'_, Result<Vec<Task>, StoreError>>;

    /// The earliest [`Task::wake_at`] of all live tasks.
    fn next_wake(&self) -> BoxFuture<'_, Result<Option<UnixMillis>, StoreError>>;

    /// Makes the timers of all suspended tasks due at `at`, if they are not earlier: their code must read the system's clock again, which was
    /// set. Costs as much as there are live tasks.
    fn hasten(&self, at: UnixMillis) -> BoxFuture<'_, Result<(), StoreError>>;

    /// When the task with the greatest id was created.
    fn newest(&self) -> BoxFuture<'_, Result<Option<UnixMillis>, StoreError>>;

    /// Up to `limit` tasks whose [`Task::delete_at`] has come, earliest first.
    fn expired(&self, at: UnixMillis, limit: usize) -> BoxFuture<'_, Result<Vec<TaskId>, StoreError>>;

    /// Records that attempt folders are about to be removed. Call it before they are: from then on a copy of the store that was taken earlier,
    /// and put back later, is recognized when it is opened. The folders would have shown what ran since.
    fn record_removal(&self) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Deletes those of `ids` whose [`Task::delete_at`] has come, with all that belongs to them, and returns how many there were.
    /// Hints of it there are none. Also forgets ended sessions whose time is over.
    fn delete(&self, ids: Vec<TaskId>, at: UnixMillis) -> BoxFuture<'_, Result<usize, StoreError>>;

    /// Live tasks by state.
    fn counts(&self) -> BoxFuture<'_, Result<Counts, StoreError>>;

    /// The keys that sign for `purpose`, newest first. If there is none, `fresh` becomes the first.
    fn signing_keys(&self, purpose: &str, fresh: [u8; 32]) -> BoxFuture<'_, Result<Vec<SigningKey>, StoreError>>;

    /// Remembers at least until `until` that a legacy session was ended by its client (T-14): until a later
    /// [`delete`](Self::delete) or [`open_node`](Self::open_node) says that this moment has come. [`StoreError::TooManySessions`] when
    /// [`MOST_ENDED_SESSIONS`] others are remembered, or a few more that came at the same moment.
    fn end_session(&self, session: &SessionKey, until: UnixMillis) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Whether the session was ended by its client. Asked on every legacy request; costs no disk access.
    fn session_ended(&self, session: &SessionKey) -> BoxFuture<'_, Result<bool, StoreError>>;

    /// Calls `listener` after every commit from now on, with what it changed. Everything must also work without hints.
    fn listen(&self, listener: Listener);

    /// What it does beyond what every store promises. Never changes.
    fn capabilities(&self) -> StoreCapabilities {
        StoreCapabilities::default()
    }
}
