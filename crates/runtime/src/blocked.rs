//! Durable tasks that cannot go on with the code there is: when each is tried again.
//!
//! A task is blocked instead of failed when its code does not follow its journal, or has crashed too often at one point. It is tried again by
//! code that it was not blocked under, when an operator asks for it ([`Engine::unblock`]), and now and then in any case. Of many that were
//! blocked at once, as by a bad deploy, a restart with the same code tries none again, and their own times are spread.

use crate::{Engine, backoff::Backoff, catalog::BLOCKED_TIMEOUT, context::TaskContext, engine::Inner, node::Node};
use longhaul_core::{
    Block, BlockReason, Event, Failure, Millis, SpecId, Task, TaskId, UnixMillis,
    store::{ApplyError, Change, StoreError},
};
use std::sync::Arc;
use tracing::warn;

/// When a blocked task is tried again though nothing is known to have changed: what made it diverge may be outside of the code.
const RETRIES: Backoff = Backoff {
    first: 5 * 60 * 1000,
    longest: 6 * 60 * 60 * 1000,
};
/// A try that is later than this was missed while no server ran, and others with it: they are spread over [`SPREAD`].
const LATE: Millis = 60_000;
const SPREAD: Millis = 10 * 60 * 1000;

const BATCH: usize = 256;

/// The end of an attempt of `task` that cannot go on: `spec` is the code that ran it, `timeout` how long it may be blocked.
pub(crate) async fn block(
    inner: &Inner,
    cx: &TaskContext,
    task: &Task,
    spec: &SpecId,
    timeout: Millis,
    reason: BlockReason,
    failure: Failure,
) -> Block {
    let journal = cx.shared.journal.as_ref();
    let advanced = journal.is_some_and(|journal| journal.has_advanced());
    let before = task.blocked.as_ref().filter(|_| !advanced);
    let tries = before.map_or(0, |before| before.tries.saturating_add(1));
    let node = &inner.node;
    let now = node.now();
    warn!(tool = %task.tool, task = task.id.short(), %reason, tries, "a task is blocked: {failure}");
    Block {
        reason,
        failure: failure.into(),
        code: inner.build.fingerprint(&node.ports, spec).await,
        retry_at: now.plus(RETRIES.after(tries.saturating_add(1), node.random())),
        until: now.plus(timeout),
    }
}

/// The same for a task that no offered tool can run. It is tried again as soon as a durable tool of its name is offered: a tool of this name that is
/// not durable counts as the code that it was blocked under.
pub(crate) async fn block_without_tool(inner: &Inner, cx: &TaskContext, task: &Task, failure: Failure) -> Block {
    let offered = inner.catalog.tool(&task.tool);
    let code = offered.map_or_else(|| SpecId::named("none"), |tool| tool.spec().id.clone());
    block(
        inner,
        cx,
        task,
        &code,
        BLOCKED_TIMEOUT,
        BlockReason::Unavailable,
        failure,
    )
    .await
}

impl Engine {
    /// Up to `limit` blocked tasks whose ids come after `after`, in order of their ids; whoever owns them: for an operator.
    ///
    /// # Errors
    /// The store's.
    pub async fn blocked(&self, after: Option<&TaskId>, limit: usize) -> Result<Vec<Task>, StoreError> {
        self.0.node.store.blocked(after, limit).await
    }

    /// Tries a blocked task again now, whatever has changed; says whether it was blocked. For an operator, whoever owns the task.
    ///
    /// # Errors
    /// The store's; it may be tried again all the same.
    pub async fn unblock(&self, id: &TaskId) -> Result<bool, StoreError> {
        let at = self.0.node.now();
        let change = Change::of(id, Event::Unblocked { ready_at: at }, at);
        match self.0.node.commit(change).await {
            Ok(_) => Ok(true),
            Err(ApplyError::Store(error)) => Err(error),
            Err(ApplyError::NotFound | ApplyError::Illegal(_) | ApplyError::Stale) => Ok(false),
        }
    }
}

/// Tries those blocked tasks again (of one tool, if named) that were not blocked under the code there is now. Insists: nobody else looks.
pub(crate) async fn try_changed_code(inner: Arc<Inner>, tool: Option<Arc<str>>) {
    let mut after: Option<TaskId> = None;
    loop {
        let read = || async { Ok(inner.node.store.blocked(after.as_ref(), BATCH).await?) };
        let Ok(tasks) = inner.node.retry_store("reading blocked tasks", read).await else {
            return;
        };
        let Some(last) = tasks.last() else { return };
        after = Some(last.id.clone());
        for task in &tasks {
            if tool.as_ref().is_none_or(|tool| *tool == task.tool) && has_changed(&inner, task).await {
                let at = inner.node.now();
                let change = || {
                    inner
                        .node
                        .commit(Change::of(&task.id, Event::Unblocked { ready_at: at }, at))
                };
                // A refusal means that it is not blocked any more.
                let _ = inner.node.retry_store("trying a blocked task again", change).await;
            }
        }
    }
}

/// Whether the code that would run a blocked task is other code than it was blocked under.
async fn has_changed(inner: &Inner, task: &Task) -> bool {
    let (Some(blocked), Some(tool)) = (task.block(), inner.catalog.tool(&task.tool)) else {
        return false;
    };
    let code = inner.build.fingerprint(&inner.node.ports, &tool.spec().id).await;
    !blocked.is_known_for(&code)
}

/// What is due of `task`, its retry put off if many others may have missed theirs too.
pub(crate) fn spread_late_retry(node: &Node, task: &Task, now: UnixMillis, due: Vec<Event>) -> Vec<Event> {
    let late = task.block().is_some() && task.resume_at.is_some_and(|at| now.since(at) > LATE);
    let spread = |event| match event {
        Event::TimerFired if late => Event::Unblocked {
            ready_at: now.plus(node.random() % SPREAD),
        },
        other => other,
    };
    due.into_iter().map(spread).collect()
}
