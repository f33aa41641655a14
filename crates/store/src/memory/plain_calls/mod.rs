//! Plain calls in memory, in front of a store of all other tasks.
//!
//! The client of a plain call waits for the answer and knows no task id. When the process ends, the call is over, so its row would only be
//! cancelled by the next start. Such a call is kept here, under the same [`transition`](longhaul_core::transition()) as every task, and written
//! before a client can know of it: when it is promoted, when it asks a question, and when its tool
//! stores a checkpoint; also when its attempt did not begin, since its tool was paused or this node begins nothing: another node can run it.
//!
//! | a call is | where it is found | a change of it |
//! | --- | --- | --- |
//! | in memory | here | is applied here, and removes the call if it ends it and no attempt is left |
//! | being written | in the store if it has it, else as it was | waits until the write is over |
//! | written | in the store | is the store's |
//!
//! A write whose answer is lost may have been made. The call then stays "being written", and the next change of it writes it again first:
//! the store finds its own row by the id.

mod calls;

use super::{answer, stored_task::StoredTask, stored_usage::StoredUsage};
use calls::{Calls, Route};
use longhaul_core::{
    BoxFuture, Event, HostId, Json, NodeId, Principal, Store, StoreLayer, Task, TaskId, ToolSpec, UnixMillis, Usage,
    store::{
        ApplyError, Change, Claim, Claimed, Counts, CreateError, Created, FoundTasks, LiveTasks, NewTask, QueuePlace,
        Record, Renewal, StoreCapabilities, StoreError, StoreListener, TaskLookup, TaskSearch, UnwrittenCall,
    },
};
use parking_lot::{Mutex, MutexGuard};
use std::{cmp::Ordering, sync::Arc};

/// A store that keeps plain calls in memory, in front of another one that keeps everything else.
///
/// A call that [may stay in memory](NewTask::in_memory) costs the store nothing until it is promoted, asks a question or stores a checkpoint. Its quota is decided when
/// it begins: of what the calls here have, exactly; of what the store has, as it was at most a second ago.
///
/// ```
/// use longhaul_core::Store;
/// use longhaul_store::{MemoryStore, PlainCallStore};
/// use std::sync::Arc;
///
/// let store = PlainCallStore::in_front_of(Arc::new(MemoryStore::new()));
/// assert!(store.capabilities().plain_calls_in_memory);
/// ```
pub struct PlainCallStore {
    store: Arc<dyn Store>,
    calls: Mutex<Calls>,
    stored_usage: StoredUsage,
}

impl PlainCallStore {
    /// Keeps plain calls in front of `store`. All changes of the tasks of this process must go through what is returned.
    pub fn in_front_of(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            calls: Mutex::default(),
            stored_usage: StoredUsage::default(),
        }
    }

    fn calls(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock()
    }

    /// Creates a call at once if that is what the quota allows by what is known of the store.
    fn create_call(&self, new: NewTask) -> BoxFuture<'_, Result<Created, CreateError>> {
        let Some(stored) = self.stored_usage.known(&new) else {
            return Box::pin(self.read_and_create_call(new));
        };
        if !stored.remembered {
            return answer(self.calls().create(&new, stored.usage));
        }
        let created = self.calls().create(&new, stored.usage);
        match created {
            Err(CreateError::Quota(_)) => Box::pin(self.read_and_create_call(new)),
            created => answer(created),
        }
    }

    async fn read_and_create_call(&self, new: NewTask) -> Result<Created, CreateError> {
        let stored = self.stored_usage.read(&*self.store, &new).await?;
        self.calls().create(&new, stored)
    }

    async fn create_task(&self, new: NewTask) -> Result<Created, CreateError> {
        // A repeated call gets its task, whatever the quota.
        if new.idempotency.is_none() && new.unique.is_none() {
            self.admit_beside_calls(&new).await?;
        }
        if let Some(end) = &new.replaces {
            self.write_replaced(end).await.map_err(|refused| match refused {
                ApplyError::Store(error) => error.into(),
                refused => CreateError::Replaced(refused),
            })?;
        }
        let created = self.store.create(new).await;
        self.stored_usage.changed();
        created
    }

    /// The store does not know of the calls here.
    async fn admit_beside_calls(&self, new: &NewTask) -> Result<(), CreateError> {
        if self.calls().kept.tasks.tally().usage(None).live == 0 {
            return Ok(());
        }
        let stored = self.stored_usage.of_quota(&*self.store, new).await?;
        let admit = |stored| self.calls().kept.admit(new, stored);
        if admit(stored.usage).is_err() {
            admit(self.stored_usage.read(&*self.store, new).await?)?;
        }
        Ok(())
    }

    /// Reads something of a call that the store may not have: one that is kept, or one that is being written. Both are looked up under one lock, and
    /// before the store is asked, so that a call whose write ends meanwhile is found.
    fn unwritten(
        &self,
        id: &TaskId,
        of_kept: fn(&StoredTask) -> &Json,
        of_write: fn(&UnwrittenCall) -> &Json,
    ) -> Option<Json> {
        let calls = self.calls();
        let kept = calls.kept.tasks.get(id).map(of_kept);
        let found = kept.or_else(|| calls.being_written.get(id).map(|write| of_write(&write.call)));
        found.cloned()
    }

    /// The place of the first queued call of `tool`, as [`QueueStore::next_ready`](longhaul_core::store::QueueStore::next_ready) says.
    fn first_call(&self, tool: &str, at: UnixMillis) -> Option<QueuePlace> {
        self.calls().kept.tasks.index().queued.first(tool, at)
    }

    /// The first queued call that is ready.
    fn claim_call(&self, claim: &Claim) -> Option<Claimed> {
        let mut calls = self.calls();
        let id = calls
            .kept
            .tasks
            .index()
            .queued
            .ready(&claim.tool, claim.at)
            .next()?
            .clone();
        let event = Event::Claimed {
            node: claim.node,
            host: claim.host.clone(),
        };
        calls.kept.take(&[id], &event, claim.at).pop()
    }

    async fn claim_in_order(&self, claim: Claim) -> Result<Vec<Claimed>, StoreError> {
        let mut claimed = Vec::new();
        while claimed.len() < claim.limit {
            let is_ready = |place: &QueuePlace| place.ready_at <= claim.at;
            let Some(call) = self.first_call(&claim.tool, claim.at).filter(is_ready) else {
                let rest = Claim {
                    limit: claim.limit - claimed.len(),
                    ..claim.clone()
                };
                claimed.extend(self.store.claim(rest).await?);
                break;
            };
            let stored = self.store.next_ready(&claim.tool, claim.at).await?;
            let next = if stored.is_some_and(|stored| is_ready(&stored) && stored <= call) {
                let one = Claim {
                    limit: 1,
                    ..claim.clone()
                };
                self.store.claim(one).await?.pop()
            } else {
                None
            };
            // Another node may have claimed it first.
            match next.or_else(|| self.claim_call(&claim)) {
                Some(next) => claimed.push(next),
                None => break,
            }
        }
        Ok(claimed)
    }
}

impl StoreLayer for PlainCallStore {
    fn inner(&self) -> &dyn Store {
        &*self.store
    }

    fn capabilities(&self) -> StoreCapabilities {
        StoreCapabilities {
            plain_calls_in_memory: true,
            ..self.store.capabilities()
        }
    }

    fn put_spec(&self, spec: ToolSpec) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            self.store.put_spec(spec.clone()).await?;
            self.calls().kept.specs.entry(spec.id.clone()).or_insert(spec);
            Ok(())
        })
    }

    fn create(&self, new: NewTask) -> BoxFuture<'_, Result<Created, CreateError>> {
        let in_memory = new.in_memory
            && !new.announced
            && new.idempotency.is_none()
            && new.unique.is_none()
            && new.group.is_none()
            && new.parent.is_none()
            && new.replaces.is_none()
            && new.outcome.is_none();
        match in_memory {
            true => self.create_call(new),
            false => Box::pin(self.create_task(new)),
        }
    }

    fn usage(&self, of: Option<&Principal>) -> BoxFuture<'_, Result<Usage, StoreError>> {
        let here = self.calls().kept.tasks.tally().usage(of);
        let stored = self.store.usage(of);
        Box::pin(async move { Ok(stored.await? + here) })
    }

    fn apply(&self, change: Change) -> BoxFuture<'_, Result<Task, ApplyError>> {
        match self.route(&change) {
            Route::Here(applied) => answer(applied),
            Route::Store => self.store.apply(change),
            Route::Write(call, mut writing) => {
                Box::pin(async move { self.write(&call, &mut writing, change, true).await })
            }
            Route::Wait(_) => Box::pin(self.apply_here_or_there(change)),
        }
    }

    fn claim(&self, claim: Claim) -> BoxFuture<'_, Result<Vec<Claimed>, StoreError>> {
        match self.first_call(&claim.tool, claim.at) {
            None => self.store.claim(claim),
            Some(_) => Box::pin(self.claim_in_order(claim)),
        }
    }

    fn renew(&self, node: NodeId) -> BoxFuture<'_, Result<Renewal, StoreError>> {
        // Before the store is asked: a call that is written meanwhile is in one of the two.
        let mut here = self.calls().held_by(node);
        let stored = self.store.renew(node);
        Box::pin(async move {
            let mut renewal = stored.await?;
            // The store's are newer, and stay.
            renewal.held.append(&mut here);
            renewal.held.sort_by(|a, b| a.task.cmp(&b.task));
            renewal.held.dedup_by(|a, b| a.task == b.task);
            Ok(renewal)
        })
    }

    fn queued_tools(&self) -> BoxFuture<'_, Result<Vec<Arc<str>>, StoreError>> {
        Box::pin(async move {
            let mut tools = self.store.queued_tools().await?;
            let calls = self.calls();
            for tool in calls.kept.tasks.index().queued.tools() {
                if !tools.contains(tool) {
                    tools.push(Arc::clone(tool));
                }
            }
            Ok(tools)
        })
    }

    fn next_ready(&self, tool: &str, at: UnixMillis) -> BoxFuture<'_, Result<Option<QueuePlace>, StoreError>> {
        let here = self.first_call(tool, at);
        let stored = self.store.next_ready(tool, at);
        Box::pin(async move { Ok(QueuePlace::first(stored.await?.into_iter().chain(here), at)) })
    }

    fn queued_before(&self, task: &Task, most: usize) -> BoxFuture<'_, Result<usize, StoreError>> {
        let here = self.calls().kept.queued_before(task, most);
        let stored = self.store.queued_before(task, most);
        Box::pin(async move { Ok((stored.await? + here).min(most)) })
    }

    fn get_unscoped(&self, id: &TaskId) -> BoxFuture<'_, Result<Option<Record>, StoreError>> {
        let being_written = {
            let calls = self.calls();
            if let Some(call) = calls.kept.tasks.get(id) {
                return answer(Ok(Some(call.record())));
            }
            calls.being_written.get(id).map(Arc::clone)
        };
        let stored = self.store.get_unscoped(id);
        match being_written {
            None => stored,
            // The store's is newer.
            Some(call) => Box::pin(async move { Ok(Some(stored.await?.unwrap_or_else(|| call.call.record()))) }),
        }
    }

    fn versions(&self, ids: &[TaskId]) -> BoxFuture<'_, Result<Vec<(TaskId, u64)>, StoreError>> {
        let (mut here, mut written, mut being_written) = (Vec::new(), Vec::new(), Vec::new());
        {
            let calls = self.calls();
            for id in ids {
                match calls.kept.tasks.task(id) {
                    Some(call) => here.push((id.clone(), call.version)),
                    None => written.push(id.clone()),
                }
                let unwritten = calls.being_written.get(id);
                being_written.extend(unwritten.map(|call| (id.clone(), call.call.task.version)));
            }
        }
        if written.is_empty() {
            return answer(Ok(here));
        }
        let stored = self.store.versions(&written);
        Box::pin(async move {
            let stored = stored.await?;
            // The store's is newer.
            being_written.retain(|(id, _)| !stored.iter().any(|(written, _)| written == id));
            here.extend(stored);
            here.append(&mut being_written);
            Ok(here)
        })
    }

    fn requestor(&self, id: &TaskId) -> BoxFuture<'_, Result<Option<Json>, StoreError>> {
        let here = self.unwritten(id, |kept| &kept.requestor, |call| &call.requestor);
        match here {
            Some(requestor) => answer(Ok(Some(requestor))),
            None => self.store.requestor(id),
        }
    }

    fn arguments(&self, id: &TaskId) -> BoxFuture<'_, Result<Option<Json>, StoreError>> {
        let here = self.unwritten(id, |kept| &kept.arguments, |call| &call.arguments);
        match here {
            Some(arguments) => answer(Ok(Some(arguments))),
            None => self.store.arguments(id),
        }
    }

    fn find(&self, lookup: TaskLookup, limit: usize) -> BoxFuture<'_, Result<Vec<Task>, StoreError>> {
        let stored = self.store.find(lookup.clone(), limit);
        let TaskLookup::DueTimers(_) = lookup else {
            return stored;
        };
        Box::pin(async move {
            let mut due = stored.await?;
            due.extend(self.calls().kept.find(&lookup, limit));
            due.sort_by_key(Task::wake_at);
            due.truncate(limit);
            Ok(due)
        })
    }

    fn search(&self, search: TaskSearch) -> BoxFuture<'_, Result<FoundTasks, StoreError>> {
        // Before the store is asked: a call that is written meanwhile is in one of the two.
        let here = self.calls().searched(&search);
        let stored = self.store.search(search.clone());
        match here.is_empty() {
            true => stored,
            false => Box::pin(async move { Ok(merged(&search, stored.await?, here)) }),
        }
    }

    fn next_wake(&self) -> BoxFuture<'_, Result<Option<UnixMillis>, StoreError>> {
        let here = self.calls().kept.next_wake();
        let stored = self.store.next_wake();
        Box::pin(async move { Ok(earliest(stored.await?, here)) })
    }

    fn delete(&self, host: &HostId, ids: Vec<TaskId>, at: UnixMillis) -> BoxFuture<'_, Result<usize, StoreError>> {
        let deleted = self.store.delete(host, ids, at);
        Box::pin(async move {
            let deleted = deleted.await;
            self.stored_usage.changed();
            deleted
        })
    }

    fn delete_ended(
        &self,
        host: &HostId,
        ids: Vec<TaskId>,
        at: UnixMillis,
    ) -> BoxFuture<'_, Result<usize, StoreError>> {
        let deleted = self.store.delete_ended(host, ids, at);
        Box::pin(async move {
            let deleted = deleted.await;
            self.stored_usage.changed();
            deleted
        })
    }

    fn counts(&self) -> BoxFuture<'_, Result<Counts, StoreError>> {
        let here = self.calls().kept.tasks.tally().counts();
        let stored = self.store.counts();
        Box::pin(async move {
            let stored = stored.await?;
            Ok(Counts {
                queued: stored.queued + here.queued,
                running: stored.running + here.running,
                suspended: stored.suspended + here.suspended,
                blocked: stored.blocked + here.blocked,
            })
        })
    }

    fn live_tasks(&self) -> BoxFuture<'_, Result<Vec<LiveTasks>, StoreError>> {
        let here = self.calls().kept.tasks.live_tasks();
        let stored = self.store.live_tasks();
        Box::pin(async move { Ok(LiveTasks::merge(stored.await?, here)) })
    }

    fn listen(&self, listener: StoreListener) {
        self.calls().kept.listeners.push(Arc::clone(&listener));
        self.store.listen(listener);
    }
}

/// The page of the store with the calls that belong between its tasks.
fn merged(search: &TaskSearch, mut stored: FoundTasks, here: Vec<Task>) -> FoundTasks {
    // The store's are newer.
    let is_new = |call: &Task| !stored.tasks.iter().any(|task| task.id == call.id);
    let is_covered = |call: &Task| {
        let end = stored.next.as_ref();
        end.is_none_or(|end| search.order.compare(&call.id, end) == Ordering::Less)
    };
    let mut here: Vec<Task> = here
        .into_iter()
        .filter(|call| is_covered(call) && is_new(call))
        .collect();
    stored.tasks.append(&mut here);
    stored
        .tasks
        .sort_by(|one, other| search.order.compare(&one.id, &other.id));
    if stored.tasks.len() >= search.limit {
        stored.tasks.truncate(search.limit);
        stored.next = stored.tasks.last().map(|task| task.id.clone());
    }
    stored
}

fn earliest(one: Option<UnixMillis>, other: Option<UnixMillis>) -> Option<UnixMillis> {
    one.into_iter().chain(other).min()
}
