//! Tasks by their ids.

use crate::{
    BoxFuture, HostId, Json, NodeId, Principal, Scope, Task, TaskId, UnixMillis,
    store::{ApplyError, Change, Claimed, CreateError, Created, NewTask, Record, StoreError, UnwrittenCall},
};

/// Creates, changes, reads and deletes single tasks. See the [module](crate::store) for what all methods promise together.
pub trait TaskStore: Send + Sync + 'static {
    /// Writes a new task, claimed in the same write if the caller has a slot for it. When this completes, a read from anywhere
    /// finds the task. An id that exists, and a definition that was never put, are [`StoreError::Failed`].
    ///
    /// All in the same write: a call whose [`NewTask::idempotency`] key is known gets the task it made the first time, whatever the quota,
    /// and one that is new must fit [`NewTask::quota`]. Then a call with a [unique value](NewTask::unique) that a live task of its tool has joins that task, if principal and
    /// arguments are the same and it has no parent, and is refused else ([`CreateError::NotUnique`]); the task that it replaces does not count. A child is written together with its [parent's change](NewTask::parent_change),
    /// which must be legal for a parent that is not asked to stop; if the child is created as ended, its parent gets
    /// [`Event::ChildEnded`](crate::Event::ChildEnded). A task that [replaces](NewTask::replaces) another one is written together with the end of that, whose
    /// share of the quota it takes over. The start of a [schedule](NewTask::schedule) is written together with its row, as
    /// [`ScheduleRecord::start`](crate::store::ScheduleRecord::start) says. A task with a [group](crate::TaskHeader::group) is let into it if there is room and no other one
    /// waits for it; the answer does not say so. A repeated call writes neither the parent nor the replaced task nor the schedule. The cost does not grow with the number of tasks.
    fn create(&self, new: NewTask) -> BoxFuture<'_, Result<Created, CreateError>>;

    /// The task of a call of `tool` that `principal` made before under this key: the one that a [`create`](Self::create) of the same call would find
    /// now. With the [digest](crate::store::Idempotency::digest) of its arguments, `None` also if the key stands for other arguments.
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

    /// Applies events to one task, all or none, and returns the task as it then is.
    ///
    /// The fence, if given or needed, must be that of the task's active attempt, in the same transaction (invariant 3). Answers
    /// are kept with their question; questions that the task no longer lists as open become withdrawn. Entries take their place in the
    /// journal, if their epoch is the fence's. A change that ends a child also gives its parent [`Event::ChildEnded`](crate::Event::ChildEnded), with a
    /// [`ChildEntry::of_ended`](crate::ChildEntry::of_ended) as the value, if that is legal there; each task gets its own event. A change after which a task
    /// [is not in](crate::Task::is_in_group) its group lets as many others into it as there is room for, in the order of the queue.
    fn apply(&self, change: Change) -> BoxFuture<'_, Result<Task, ApplyError>>;

    /// The active attempt of a task, with what its worker needs, if `node` holds it. Used when the answer of a claim was lost.
    fn held(&self, node: NodeId, id: &TaskId) -> BoxFuture<'_, Result<Option<Claimed>, StoreError>>;

    /// One announced task, as `scope`'s principal may see it; `None` for an unknown id, a foreign one and one never announced
    /// alike (invariant 5). Costs the same however many tasks are kept.
    fn get(&self, scope: &Scope, id: &TaskId) -> BoxFuture<'_, Result<Option<Record>, StoreError>>;

    /// One task, whoever owns it and whether announced or not: for the runtime, never for an outside reader.
    fn get_unscoped(&self, id: &TaskId) -> BoxFuture<'_, Result<Option<Record>, StoreError>>;

    /// The versions of those of `ids` that exist, in any order; for any owner, and whether announced or not.
    fn versions(&self, ids: &[TaskId]) -> BoxFuture<'_, Result<Vec<(TaskId, u64)>, StoreError>>;

    /// Who called: the [`NewTask::requestor`] of a task, whoever owns it; `None` for an unknown one.
    fn requestor(&self, id: &TaskId) -> BoxFuture<'_, Result<Option<Json>, StoreError>>;

    /// What a task was called with; `None` for an unknown one. For any owner.
    fn arguments(&self, id: &TaskId) -> BoxFuture<'_, Result<Option<Json>, StoreError>>;

    /// Deletes those of `ids` whose [`Task::delete_at`] has come, with all that belongs to them, and returns how many there were.
    /// There are no events of it. Also forgets ended sessions whose time is over.
    ///
    /// The caller has removed the files of these tasks on `host`. In a store that [many nodes](crate::store::StoreCapabilities::many_nodes) share, a task whose attempts
    /// were bound to other hosts, too, leaves a [tombstone](super::LeaseStore::tombstones) for each of them. Tombstones that are older than [`TOMBSTONE_RETENTION`](crate::store::TOMBSTONE_RETENTION)
    /// are forgotten: their hosts do not come back.
    fn delete(&self, host: &HostId, ids: Vec<TaskId>, at: UnixMillis) -> BoxFuture<'_, Result<usize, StoreError>>;

    /// As [`delete`](Self::delete), of those of `ids` that are over and have no active attempt: their owner does not want them any more, so their
    /// [`Task::delete_at`] does not matter. A store that keeps them in files overwrites their rows.
    fn delete_ended(&self, host: &HostId, ids: Vec<TaskId>, at: UnixMillis)
    -> BoxFuture<'_, Result<usize, StoreError>>;
}
