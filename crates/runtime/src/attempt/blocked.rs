//! Blocked tasks: durable tasks that cannot go on with the present code, and when each is retried.
//!
//! A task is blocked when its code has diverged from its journal, or has crashed too often at one point. It is retried by other code, when an
//! operator asks for it ([`Engine::unblock`]), and on a timer. A restart with the same code retries none of them, and the timers of many that
//! were blocked at once, as by a bad deploy, are spread.

use crate::{
    Engine, catalog::BLOCKED_TIMEOUT, context::TaskContext, engine::Inner, node::Node, ports::backoff::Backoff,
};
use longhaul_core::{
    Block, BlockReason, Event, Failure, Millis, SpecId, Task, TaskId, UnixMillis,
    store::{ApplyError, Change, StoreError, TaskLookup},
};
use tracing::warn;

/// The timer of retries by the same code: what made it diverge may be outside the code.
const RETRIES: Backoff = Backoff {
    first: 5 * 60 * 1000,
    longest: 6 * 60 * 60 * 1000,
};
/// A retry that is later than this, in milliseconds, was missed while no server ran, with others: they are spread over [`SPREAD`].
const LATE: Millis = 60_000;
const SPREAD: Millis = 10 * 60 * 1000;

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
    /// Up to `limit` blocked tasks of all principals whose ids come after `after`, ordered by id: for an operator.
    ///
    /// # Errors
    /// The store's.
    pub async fn blocked(&self, after: Option<&TaskId>, limit: usize) -> Result<Vec<Task>, StoreError> {
        self.0
            .node
            .store
            .find(TaskLookup::BlockedAfter(after.cloned()), limit)
            .await
    }

    /// Retries a blocked task now, whoever owns it; returns whether it was blocked. For an operator.
    ///
    /// # Errors
    /// The store's; the task may be retried all the same.
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

/// The due events of `task`; a retry that is late is delayed, since many others may be late, too.
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
