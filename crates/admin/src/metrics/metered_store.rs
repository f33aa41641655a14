//! A store that counts what becomes of tasks.

use super::{Metrics, Write};
use longhaul_core::{
    AttemptOutcome, BoxFuture, Clock, State, Store, StoreLayer, Task, Verdict,
    store::{ApplyError, Change, ChangeEnds, Claim, Claimed, CreateError, Created, NewTask, StoreError},
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

/// Counts what a change did to `task`, which is as it was left.
fn count(metrics: &Metrics, ends: ChangeEnds, task: &Task) {
    let mut has_failed = ends.attempt == Some(AttemptOutcome::Failed);
    if let Some(outcome) = ends.attempt {
        metrics.attempt_ended(&task.tool, outcome);
    }
    if ends.ended(task) {
        metrics.task_ended(task);
        has_failed |= matches!(task.state, State::Done(Verdict::ToolError | Verdict::RpcError));
    }
    if has_failed {
        metrics.attempt_failed(&task.tool);
    }
}

impl StoreLayer for MeteredStore {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    fn create(&self, new: NewTask) -> BoxFuture<'_, Result<Created, CreateError>> {
        let began = self.clock.monotonic();
        let is_written = !new.in_memory;
        let replaced = new.replaces.as_ref().map(|end| (end.task.clone(), end.ends()));
        let creating = self.inner.create(new);
        Box::pin(async move {
            let created = creating.await;
            match &created {
                Ok(Created::New(task)) => {
                    self.metrics.created(task);
                    if let Some((replaced, ends)) = replaced
                        && let Ok(Some(record)) = self.inner.get_unscoped(&replaced).await
                    {
                        count(&self.metrics, ends, &record.task);
                    }
                }
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
        let (ends, can_wait) = (change.ends(), change.can_wait);
        let applying = self.inner.apply(change);
        Box::pin(async move {
            let applied = applying.await;
            if let Ok(task) = &applied {
                count(&self.metrics, ends, task);
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
