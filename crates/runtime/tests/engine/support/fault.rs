use longhaul_core::{
    BoxFuture, Event, HostId, Store, StoreLayer, Task, TaskId, UnixMillis,
    store::{ApplyError, Change, Claim, Claimed, CreateError, Created, NewTask, Record, StoreError, UnwrittenCall},
};
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};
use tokio::sync::watch;

/// A store whose commits can be held back and made to fail, and that records its calls.
pub(crate) struct FaultyStore {
    inner: Arc<dyn Store>,
    /// While true, creates are not begun.
    pub(crate) hold_creates: watch::Sender<bool>,
    /// While true, creates are committed, but not acknowledged.
    pub(crate) hold_created: watch::Sender<bool>,
    /// While true, claims are committed, but not acknowledged.
    pub(crate) hold_claimed: watch::Sender<bool>,
    /// While true, changes are committed, but not acknowledged.
    pub(crate) hold_applied: watch::Sender<bool>,
    /// While true, tasks are read, but not returned.
    pub(crate) hold_get_unscoped: watch::Sender<bool>,
    /// While true, the next time to wake is read, but not returned.
    pub(crate) hold_next_wake: watch::Sender<bool>,
    /// How many more changes with an event of this name fail with [`StoreError::Full`].
    full: Mutex<(usize, &'static str)>,
    full_claims: AtomicUsize,
    /// How the next creates of this tool's tasks fail.
    creates: Mutex<(&'static str, Vec<FaultyCreate>)>,
    pub(crate) claims: AtomicUsize,
    /// How many removals of files were recorded.
    pub(crate) removals: AtomicUsize,
    /// How many of the next removals of files cannot be recorded.
    pub(crate) full_removals: AtomicUsize,
    /// How many of the next deletions for a client find no room.
    pub(crate) full_deletions: AtomicUsize,
    applied: Mutex<Vec<Change>>,
}

/// How a create fails.
#[derive(Clone, Copy)]
pub(crate) enum FaultyCreate {
    /// There is no room.
    Full,
    /// It is committed, and answered by an error.
    Unsure,
}

impl FaultyStore {
    pub(crate) fn over(inner: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self {
            inner,
            hold_creates: watch::Sender::new(false),
            hold_created: watch::Sender::new(false),
            hold_claimed: watch::Sender::new(false),
            hold_applied: watch::Sender::new(false),
            hold_get_unscoped: watch::Sender::new(false),
            hold_next_wake: watch::Sender::new(false),
            full: Mutex::new((0, "")),
            full_claims: AtomicUsize::new(0),
            creates: Mutex::default(),
            claims: AtomicUsize::new(0),
            removals: AtomicUsize::new(0),
            full_removals: AtomicUsize::new(0),
            full_deletions: AtomicUsize::new(0),
            applied: Mutex::default(),
        })
    }

    /// The next `times` changes with an event of this name find no room.
    pub(crate) fn be_full_for(&self, event: &'static str, times: usize) {
        *self.full.lock().unwrap() = (times, event);
    }

    /// The next `times` claims find no room.
    pub(crate) fn be_full_for_claims(&self, times: usize) {
        self.full_claims.store(times, Ordering::SeqCst);
    }

    /// The next tasks of `tool` are created like this, the first of these faults first.
    pub(crate) fn fail_creates(&self, tool: &'static str, faults: &[FaultyCreate]) {
        *self.creates.lock().unwrap() = (tool, faults.iter().rev().copied().collect());
    }

    fn create_fault(&self, new: &NewTask) -> Option<FaultyCreate> {
        let mut creates = self.creates.lock().unwrap();
        if *new.tool == *creates.0 { creates.1.pop() } else { None }
    }

    /// The changes that were applied and have an event of this name.
    pub(crate) fn applied(&self, event: &str) -> Vec<Change> {
        let applied = self.applied.lock().unwrap();
        applied.iter().filter(|change| has(change, event)).cloned().collect()
    }

    fn is_full_for(&self, change: &Change) -> bool {
        let mut full = self.full.lock().unwrap();
        let hit = full.0 > 0 && has(change, full.1);
        full.0 -= usize::from(hit);
        hit
    }
}

fn has(change: &Change, name: &str) -> bool {
    change.events.iter().map(Event::name).any(|event| event == name)
}

async fn released(hold: &watch::Sender<bool>) {
    let _ = hold.subscribe().wait_for(|held| !held).await;
}

impl StoreLayer for FaultyStore {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    fn create(&self, new: NewTask) -> BoxFuture<'_, Result<Created, CreateError>> {
        Box::pin(async move {
            released(&self.hold_creates).await;
            let fault = self.create_fault(&new);
            if let Some(FaultyCreate::Full) = fault {
                return Err(StoreError::Full.into());
            }
            let created = self.inner.create(new).await;
            if let Some(FaultyCreate::Unsure) = fault {
                return Err(StoreError::OutcomeUnknown("as the test says".to_owned()).into());
            }
            released(&self.hold_created).await;
            created
        })
    }

    fn apply(&self, change: Change) -> BoxFuture<'_, Result<Task, ApplyError>> {
        Box::pin(async move {
            if self.is_full_for(&change) {
                return Err(StoreError::Full.into());
            }
            let applied = self.inner.apply(change.clone()).await;
            if applied.is_ok() {
                self.applied.lock().unwrap().push(change);
            }
            released(&self.hold_applied).await;
            applied
        })
    }

    fn write_call(&self, call: UnwrittenCall, change: Change) -> BoxFuture<'_, Result<Task, ApplyError>> {
        Box::pin(async move {
            if self.is_full_for(&change) {
                return Err(StoreError::Full.into());
            }
            let written = self.inner.write_call(call, change).await;
            released(&self.hold_applied).await;
            written
        })
    }

    fn claim(&self, claim: Claim) -> BoxFuture<'_, Result<Vec<Claimed>, StoreError>> {
        Box::pin(async move {
            self.claims.fetch_add(1, Ordering::SeqCst);
            let full = |left: usize| left.checked_sub(1);
            if self
                .full_claims
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, full)
                .is_ok()
            {
                return Err(StoreError::Full);
            }
            let claimed = self.inner.claim(claim).await;
            released(&self.hold_claimed).await;
            claimed
        })
    }

    fn record_removal(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        let left = |left: usize| left.checked_sub(1);
        let full = self
            .full_removals
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, left);
        if full.is_ok() {
            return Box::pin(async { Err(StoreError::Full) });
        }
        self.removals.fetch_add(1, Ordering::SeqCst);
        self.inner.record_removal()
    }

    fn delete_ended(
        &self,
        host: &HostId,
        ids: Vec<TaskId>,
        at: UnixMillis,
    ) -> BoxFuture<'_, Result<usize, StoreError>> {
        let left = |left: usize| left.checked_sub(1);
        let full = self
            .full_deletions
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, left);
        if full.is_ok() {
            return Box::pin(async { Err(StoreError::Full) });
        }
        self.inner.delete_ended(host, ids, at)
    }

    fn get_unscoped(&self, id: &TaskId) -> BoxFuture<'_, Result<Option<Record>, StoreError>> {
        let record = self.inner.get_unscoped(id);
        Box::pin(async move {
            let record = record.await;
            released(&self.hold_get_unscoped).await;
            record
        })
    }

    fn next_wake(&self) -> BoxFuture<'_, Result<Option<UnixMillis>, StoreError>> {
        Box::pin(async move {
            let next = self.inner.next_wake().await;
            released(&self.hold_next_wake).await;
            next
        })
    }
}
