//! A store that counts what becomes of tasks.

use crate::metrics::{AttemptOutcome, Metrics, Write};
use longhaul_core::{
    AttemptEnd, BoxFuture, Clock, Event, Store, StoreLayer, Task, UnixMillis,
    store::{ApplyError, Change, Claim, Claimed, CreateError, Created, NewTask, StoreError},
};
use std::sync::Arc;

/// Around the store of a server: counts for [`Metrics`] what is created, claimed and ended, and how long writes take.
///
/// It stands in front of everything else, so it sees the plain calls that are kept in memory, too.
pub struct MeteredStore {
    inner: Arc<dyn Store>,
    metrics: Arc<Metrics>,
    clock: Arc<dyn Clock>,
}

impl MeteredStore {
    /// Counts for `metrics`.
    pub fn around(inner: Arc<dyn Store>, metrics: Arc<Metrics>, clock: Arc<dyn Clock>) -> Self {
        Self { inner, metrics, clock }
    }
}

/// What is counted of a change.
struct Counted {
    at: UnixMillis,
    end: Option<AttemptOutcome>,
}

impl Counted {
    fn of(change: &Change) -> Self {
        let end = change.events.iter().find_map(|event| match event {
            Event::AttemptEnded(end) => Some(outcome(end)),
            _ => None,
        });
        Self { at: change.at, end }
    }

    /// Counts what the change did to `task`, which is as it was left.
    fn count(&self, metrics: &Metrics, task: &Task) {
        if let Some(end) = self.end {
            metrics.attempt_ended(&task.tool, end);
        }
        // A legacy cancel ends a task before its attempt: the end of that attempt is not another end of the task.
        let ended_before = self.end.is_some() && task.stop.is_some_and(|stop| Some(stop.at) == task.ended_at);
        if task.is_done() && task.ended_at == Some(self.at) && !ended_before {
            metrics.task_ended(task);
        }
    }
}

fn outcome(end: &AttemptEnd) -> AttemptOutcome {
    match end {
        AttemptEnd::Finished(_) => AttemptOutcome::Finished,
        AttemptEnd::Failed { .. } => AttemptOutcome::Failed,
        AttemptEnd::Stopped(_) => AttemptOutcome::Stopped,
        AttemptEnd::NeverStarted { .. } => AttemptOutcome::NeverStarted,
        AttemptEnd::Suspended { .. } => AttemptOutcome::Suspended,
        AttemptEnd::Blocked(_) => AttemptOutcome::Blocked,
    }
}

impl StoreLayer for MeteredStore {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    fn create(&self, new: NewTask) -> BoxFuture<'_, Result<Created, CreateError>> {
        let began = self.clock.monotonic();
        let is_written = !new.in_memory;
        let creating = self.inner.create(new);
        Box::pin(async move {
            let created = creating.await;
            match &created {
                Ok(Created::New(task)) => self.metrics.created(task),
                Err(CreateError::Quota(_)) => self.metrics.over_quota(),
                _ => {}
            }
            if is_written {
                let failed = match &created {
                    Err(CreateError::Store(error)) => Some(error),
                    _ => None,
                };
                self.metrics
                    .wrote(Write::Create, self.clock.monotonic() - began, failed);
            }
            created
        })
    }

    fn apply(&self, change: Change) -> BoxFuture<'_, Result<Task, ApplyError>> {
        let began = self.clock.monotonic();
        let (counted, can_wait) = (Counted::of(&change), change.can_wait);
        let applying = self.inner.apply(change);
        Box::pin(async move {
            let applied = applying.await;
            if let Ok(task) = &applied {
                counted.count(&self.metrics, task);
            }
            if !can_wait {
                let failed = match &applied {
                    Err(ApplyError::Store(error)) => Some(error),
                    _ => None,
                };
                self.metrics
                    .wrote(Write::Change, self.clock.monotonic() - began, failed);
            }
            applied
        })
    }

    fn claim(&self, claim: Claim) -> BoxFuture<'_, Result<Vec<Claimed>, StoreError>> {
        let at = claim.at;
        let claiming = self.inner.claim(claim);
        Box::pin(async move {
            let claimed = claiming.await;
            for claimed in claimed.iter().flatten() {
                self.metrics.claimed(&claimed.task, at);
            }
            claimed
        })
    }
}
