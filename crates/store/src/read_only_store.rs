//! A store that may only be read until an operator accepts it.

use crate::sqlite::SqliteStore;
use longhaul_core::{
    BoxFuture, HostId, NodeId, Store, StoreLayer, Task, TaskId, ToolSpec, UnixMillis,
    store::{
        ApplyError, Change, Claim, Claimed, CreateError, Created, Lease, NewNode, NewSchedule, NewTask, QueuePlace,
        Renewal, ScheduleAdvance, ScheduleRecord, StoreCapabilities, StoreError, TaskLookup, UnwrittenCall,
    },
};
use std::{future::ready, sync::Arc};

/// Around a store that may be a copy of an earlier state, as a [`SqliteStore`] that [disagrees](SqliteStore::disagreement) with its directory: everything can be read; nothing is claimed,
/// adopted, begun, changed or deleted, and such calls fail with an error that names the reason. Sessions can begin and end, because reading needs them.
pub struct ReadOnlyStore {
    store: Arc<dyn Store>,
    /// The same, if it is one.
    sqlite: Option<Arc<SqliteStore>>,
}

impl ReadOnlyStore {
    /// Around a store that is not to be used as it is.
    pub fn around(store: Arc<dyn Store>) -> Arc<dyn Store> {
        Arc::new(Self { store, sqlite: None })
    }

    /// The store itself, or this around it if it is not to be used as it is.
    pub fn unless_accepted(store: Arc<SqliteStore>) -> Arc<dyn Store> {
        match store.disagreement() {
            Some(_) => Arc::new(Self {
                sqlite: Some(Arc::clone(&store)),
                store,
            }),
            None => store,
        }
    }
}

fn at_once<T: Send + 'static>(value: T) -> BoxFuture<'static, T> {
    Box::pin(ready(value))
}

impl StoreLayer for ReadOnlyStore {
    fn inner(&self) -> &dyn Store {
        &*self.store
    }

    /// It is alone: it neither takes over from others nor shares anything with them.
    fn capabilities(&self) -> StoreCapabilities {
        StoreCapabilities {
            many_nodes: false,
            ..self.store.capabilities()
        }
    }

    /// The latest start: this one is not recorded, because it starts no work.
    fn open_node(&self, _new: &NewNode, _at: UnixMillis) -> BoxFuture<'_, Result<Lease, StoreError>> {
        Box::pin(async move {
            Ok(Lease {
                node: match &self.sqlite {
                    Some(sqlite) => sqlite.latest_node().await?,
                    None => NodeId(0),
                },
                now: None,
                length: None,
            })
        })
    }

    /// It runs nothing, whatever the store says that the latest start holds.
    fn renew(&self, _node: NodeId) -> BoxFuture<'_, Result<Renewal, StoreError>> {
        at_once(Ok(Renewal {
            now: None,
            held: Vec::new(),
            others_died: false,
        }))
    }

    /// Tools are recorded by the server that starts once the store is accepted.
    fn put_spec(&self, _spec: ToolSpec) -> BoxFuture<'_, Result<(), StoreError>> {
        at_once(Ok(()))
    }

    fn put_limit(
        &self,
        _tool: &str,
        _concurrency: Option<usize>,
        _per_group: Option<usize>,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        at_once(Ok(()))
    }

    fn fill_groups(&self) -> BoxFuture<'_, Result<usize, StoreError>> {
        at_once(Ok(0))
    }

    fn set_paused(&self, _tool: &str, _paused: bool) -> BoxFuture<'_, Result<(), StoreError>> {
        at_once(Err(StoreError::ReadOnly))
    }

    /// Without a next time, so that nothing is started.
    fn put_schedules(&self, schedules: Vec<NewSchedule>) -> BoxFuture<'_, Result<Vec<ScheduleRecord>, StoreError>> {
        let never = schedules
            .into_iter()
            .map(|new| ScheduleRecord::new(&NewSchedule { first_at: None, ..new }));
        at_once(Ok(never.collect()))
    }

    fn remove_schedules(&self, _names: Vec<Arc<str>>) -> BoxFuture<'_, Result<(), StoreError>> {
        at_once(Ok(()))
    }

    fn advance_schedule(
        &self,
        _name: &str,
        _plan: &str,
        _advance: ScheduleAdvance,
    ) -> BoxFuture<'_, Result<bool, StoreError>> {
        at_once(Err(StoreError::ReadOnly))
    }

    fn set_schedule_paused(&self, _name: &str, _paused: bool) -> BoxFuture<'_, Result<bool, StoreError>> {
        at_once(Err(StoreError::ReadOnly))
    }

    fn create(&self, _new: NewTask) -> BoxFuture<'_, Result<Created, CreateError>> {
        at_once(Err(StoreError::ReadOnly.into()))
    }

    fn apply(&self, _change: Change) -> BoxFuture<'_, Result<Task, ApplyError>> {
        at_once(Err(StoreError::ReadOnly.into()))
    }

    fn write_call(&self, _call: UnwrittenCall, _change: Change) -> BoxFuture<'_, Result<Task, ApplyError>> {
        at_once(Err(StoreError::ReadOnly.into()))
    }

    fn claim(&self, _claim: Claim) -> BoxFuture<'_, Result<Vec<Claimed>, StoreError>> {
        at_once(Ok(Vec::new()))
    }

    fn adopt(
        &self,
        _node: NodeId,
        _host: &HostId,
        _limit: usize,
        _at: UnixMillis,
    ) -> BoxFuture<'_, Result<Vec<Claimed>, StoreError>> {
        at_once(Ok(Vec::new()))
    }

    /// Nothing that the runtime would go on with.
    fn find(&self, lookup: TaskLookup, limit: usize) -> BoxFuture<'_, Result<Vec<Task>, StoreError>> {
        match lookup {
            TaskLookup::OrphanedCalls(_) | TaskLookup::ChildrenOfFinishedParents | TaskLookup::DueTimers(_) => {
                at_once(Ok(Vec::new()))
            }
            _ => self.store.find(lookup, limit),
        }
    }

    fn queued_tools(&self) -> BoxFuture<'_, Result<Vec<Arc<str>>, StoreError>> {
        at_once(Ok(Vec::new()))
    }

    fn next_ready(&self, _tool: &str, _at: UnixMillis) -> BoxFuture<'_, Result<Option<QueuePlace>, StoreError>> {
        at_once(Ok(None))
    }

    fn next_wake(&self) -> BoxFuture<'_, Result<Option<UnixMillis>, StoreError>> {
        at_once(Ok(None))
    }

    fn expired(&self, _at: UnixMillis, _limit: usize) -> BoxFuture<'_, Result<Vec<TaskId>, StoreError>> {
        at_once(Ok(Vec::new()))
    }

    fn record_removal(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        at_once(Err(StoreError::ReadOnly))
    }

    fn delete(&self, _host: &HostId, _ids: Vec<TaskId>, _at: UnixMillis) -> BoxFuture<'_, Result<usize, StoreError>> {
        at_once(Ok(0))
    }

    fn delete_ended(
        &self,
        _host: &HostId,
        _ids: Vec<TaskId>,
        _at: UnixMillis,
    ) -> BoxFuture<'_, Result<usize, StoreError>> {
        at_once(Err(StoreError::ReadOnly))
    }

    fn tombstones(&self, _host: &HostId, _limit: usize) -> BoxFuture<'_, Result<Vec<TaskId>, StoreError>> {
        at_once(Ok(Vec::new()))
    }
}
