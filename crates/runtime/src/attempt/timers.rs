//! Applies what becomes due: ends of waits, deadlines, timeouts, extensions of announced TTLs.

use super::blocked::spread_late_retry;
use crate::node::{Node, StoreTrouble, task_log};
use futures_util::future::join_all;
use longhaul_core::{
    Task, UnixMillis,
    store::{ApplyError, Change, StoreError, TaskLookup},
};
use std::{sync::Arc, time::Duration};

const BATCH: usize = 256;
/// After an error.
const PAUSE: Duration = Duration::from_secs(1);
/// After a pass in which nothing could be changed, since other nodes do, or have.
const PAUSE_WHEN_STUCK: Duration = Duration::from_millis(200);

/// Applies what is due until the engine stops.
pub(crate) async fn run(node: Arc<Node>) {
    let mut trouble = StoreTrouble::new("what is due could not be applied");
    loop {
        node.alarm.reset();
        match fire(&node).await {
            Ok(FireOutcome::Some) => continue,
            Ok(FireOutcome::Nothing { next }) => {
                trouble.is_over(node.ports.clock.monotonic());
                if let Some(next) = next {
                    node.alarm.set(next);
                }
                node.alarm.wait_until_due(&*node.ports.clock).await;
            }
            Ok(FireOutcome::Stuck) => node.ports.clock.sleep(PAUSE_WHEN_STUCK).await,
            Err(error) => {
                trouble.failed(&error, node.ports.clock.monotonic());
                node.ports.clock.sleep(PAUSE).await;
            }
        }
    }
}

pub(crate) enum FireOutcome {
    /// There may be more.
    Some,
    /// Nothing was due; when something will be, if it is known.
    Nothing { next: Option<UnixMillis> },
    /// Something was due, and none of it could be applied: the tasks have changed since they were read.
    Stuck,
}

/// Applies what is due now, one batch. Its tasks are changed side by side, so that they share commits; one that fails holds up
/// no other.
pub(crate) async fn fire(node: &Arc<Node>) -> Result<FireOutcome, StoreError> {
    let now = node.now();
    let due = node.store.find(TaskLookup::DueTimers(now), BATCH).await?;
    if due.is_empty() {
        return Ok(FireOutcome::Nothing {
            next: node.store.next_wake().await?,
        });
    }
    let mut fired = FireOutcome::Stuck;
    let mut failed = None;
    for applied in join_all(due.into_iter().map(|task| apply(node, task, now))).await {
        match applied {
            Ok(true) => fired = FireOutcome::Some,
            Ok(false) => {}
            Err(ApplyError::Store(error)) => failed = Some(error),
            // The next pass sees it as it is now.
            Err(ApplyError::Illegal(_) | ApplyError::NotFound | ApplyError::Stale) => {}
        }
    }
    failed.map_or(Ok(fired), Err)
}

/// Returns whether there was anything to apply.
async fn apply(node: &Arc<Node>, task: Task, now: UnixMillis) -> Result<bool, ApplyError> {
    let events = spread_late_retry(node, &task, now, task.due(now));
    if events.is_empty() {
        return Ok(false);
    }
    let change = Change {
        task: task.id.clone(),
        fence: None,
        events,
        at: now,
        number: None,
        can_wait: false,
    };
    let task = node.store.apply(change).await?;
    task_log::ended_if_done(&task);
    node.changed(&task);
    Ok(true)
}
