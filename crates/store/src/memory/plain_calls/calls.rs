//! The calls in memory: where a change of one is made, and how one is written.

use super::PlainCallStore;
use crate::{decision::decide, memory::contents::Contents};
use longhaul_core::{
    AttemptEnd, Event, NodeId, Task, TaskId, Usage,
    store::{ApplyError, Change, CreateError, Created, HeldAttempt, NewTask, StoreError, TaskSearch, UnwrittenCall},
};
use std::sync::Arc;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

#[derive(Default)]
pub(super) struct Calls {
    pub(super) kept: Contents,
    pub(super) being_written: foldhash::HashMap<TaskId, Arc<BeingWritten>>,
}

impl Calls {
    /// Keeps a call, if its quota has room for it beside what the store has.
    pub(super) fn create(&mut self, new: &NewTask, stored: [Usage; 2]) -> Result<Created, CreateError> {
        self.kept.admit(new, stored)?;
        // The quota of the calls alone is less strict.
        self.kept.create(new)
    }

    /// Takes a call out of the memory to be written.
    fn begin_write(&mut self, id: &TaskId) -> Route {
        let write = Arc::new(AsyncMutex::new(Write::Unknown));
        let (Some(call), Ok(writing)) = (self.kept.tasks.remove(id), Arc::clone(&write).try_lock_owned()) else {
            return Route::Store;
        };
        let being_written = Arc::new(BeingWritten {
            call: call.unwritten(),
            write,
        });
        self.being_written.insert(id.clone(), Arc::clone(&being_written));
        Route::Write(being_written, writing)
    }

    /// The active attempts of calls.
    pub(super) fn held_by(&self, node: NodeId) -> Vec<HeldAttempt> {
        let being_written = self.being_written.values().map(|call| &call.call.task);
        let mut held = self.kept.held_by(node);
        held.extend(being_written.filter_map(HeldAttempt::of));
        held
    }

    /// All calls that a search finds after its beginning, in no order.
    pub(super) fn searched(&self, search: &TaskSearch) -> Vec<Task> {
        let being_written = self.being_written.values().map(|call| &call.call.task);
        let calls = self.kept.tasks.live().chain(being_written);
        let found = calls.filter(|call| search.covers(&call.id) && search.filter.finds(call));
        found.cloned().collect()
    }
}

/// A call on its way to the store.
pub(super) struct BeingWritten {
    pub(super) call: UnwrittenCall,
    /// Locked while a write is under way.
    write: Arc<AsyncMutex<Write>>,
}

/// The state of a write.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Write {
    /// Unknown: it is under way, or its answer was lost.
    Unknown,
    /// The call is in the store, or in memory again.
    Settled,
}

/// Where a change of a task is to be made.
#[expect(
    clippy::large_enum_variant,
    reason = "it is taken apart where it is made; a box would cost each change an allocation"
)]
pub(super) enum Route {
    /// It was made here, or refused.
    Here(Result<Task, ApplyError>),
    /// It writes the call.
    Write(Arc<BeingWritten>, OwnedMutexGuard<Write>),
    /// It waits for the write of its call.
    Wait(Arc<BeingWritten>),
    /// It is the store's.
    Store,
}

impl PlainCallStore {
    /// Applies `change` if its task is a call here that it does not make known.
    pub(super) fn route(&self, change: &Change) -> Route {
        let mut calls = self.calls();
        if let Some(being_written) = calls.being_written.get(&change.task) {
            return Route::Wait(Arc::clone(being_written));
        }
        let Some(task) = calls.kept.tasks.task(&change.task) else {
            return Route::Store;
        };
        if change.events.iter().all(stays_in_memory) {
            let applied = calls.kept.apply(change);
            // A cancelled call stays until its attempt has ended, which is a change of it, too.
            if applied
                .as_ref()
                .is_ok_and(|task| task.is_done() && task.active_attempt().is_none())
            {
                calls.kept.tasks.remove(&change.task);
            }
            return Route::Here(applied);
        }
        if let Err(refused) = decide(task, change) {
            return Route::Here(Err(refused));
        }
        calls.begin_write(&change.task)
    }

    pub(super) async fn apply_here_or_there(&self, change: Change) -> Result<Task, ApplyError> {
        loop {
            match self.route(&change) {
                Route::Here(applied) => return applied,
                Route::Store => return self.store.apply(change).await,
                Route::Write(call, mut writing) => return self.write(&call, &mut writing, change, true).await,
                Route::Wait(call) => self.finish_write(&call, &change).await?,
            }
        }
    }

    /// Writes a call that is to be ended together with something else, as the store does it; any other task is there already.
    pub(super) async fn write_replaced(&self, end: &Change) -> Result<(), ApplyError> {
        loop {
            let route = {
                let mut calls = self.calls();
                match calls.being_written.get(&end.task) {
                    Some(being_written) => Route::Wait(Arc::clone(being_written)),
                    None => calls.begin_write(&end.task),
                }
            };
            match route {
                Route::Here(_) | Route::Store => return Ok(()),
                Route::Write(call, mut writing) => {
                    return self
                        .write(&call, &mut writing, without_events(end), true)
                        .await
                        .map(drop);
                }
                Route::Wait(call) => self.finish_write(&call, end).await?,
            }
        }
    }

    /// Waits for the write of a call, and writes it if that is not known to have been made. `change` is what waits for it.
    async fn finish_write(&self, call: &BeingWritten, change: &Change) -> Result<(), ApplyError> {
        let mut writing = call.write.lock().await;
        if *writing == Write::Unknown {
            self.store.await_earlier_writes(call.call.task.accepted_by).await?;
            self.write(call, &mut writing, without_events(change), false).await?;
        }
        Ok(())
    }

    /// Writes a call with `change`. A call that cannot be written stays in memory unchanged, if this is the `first` write of it.
    pub(super) async fn write(
        &self,
        call: &BeingWritten,
        writing: &mut Write,
        change: Change,
        first: bool,
    ) -> Result<Task, ApplyError> {
        let written = self.store.write_call(call.call.clone(), change).await;
        let known = match &written {
            Ok(_) => true,
            // An earlier write of it may still have been made.
            Err(_) if !first => false,
            Err(ApplyError::Store(StoreError::OutcomeUnknown(_))) => false,
            Err(_) => true,
        };
        if known {
            let mut calls = self.calls();
            calls.being_written.remove(&call.call.task.id);
            if written.is_err() {
                calls.kept.put_back(&call.call);
            }
            *writing = Write::Settled;
        }
        if written.is_ok() {
            self.stored_usage.changed();
        }
        written
    }
}

/// What writes a call as it is, in place of a change of it.
fn without_events(change: &Change) -> Change {
    Change {
        events: Vec::new(),
        number: None,
        ..change.clone()
    }
}

/// Whether an event leaves the call unknown outside. Every other event writes the call.
fn stays_in_memory(event: &Event) -> bool {
    match event {
        Event::Claimed { .. }
        | Event::Started
        | Event::Reported { .. }
        | Event::CancelRequested(_)
        | Event::Raised { .. }
        | Event::DeadlinePassed
        | Event::QueueTimedOut
        | Event::Abandoned(_) => true,
        // One that did not begin, and is queued again at once, is written so that other nodes find it.
        Event::AttemptEnded(end) => !matches!(
            end,
            AttemptEnd::Suspended { .. } | AttemptEnd::Blocked(_) | AttemptEnd::NeverStarted { retry_at: None }
        ),
        _ => false,
    }
}
