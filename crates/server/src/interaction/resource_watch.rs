//! `resources/updated` for the log, output, history and artifacts of a task, in both eras.
//!
//! There is one watcher for each part of a task that someone has subscribed to at this node. It reports an update as authors of resources do, through the
//! catalog, so sessions and subscriptions are notified in one way. It ends with its last subscriber, or when nothing can change any more.

use crate::{
    admission::caller::Caller, interaction::Interaction, response::store_failed,
    session::preferences::SubscriptionGuard,
};
use futures_util::FutureExt;
use longhaul_core::{Scope, Task, TaskId, store::StoreError};
use longhaul_runtime::{AttemptFilesError, Audience, Engine, LogRange, ResourceUpdate, TaskWatch};
use longhaul_wire::{RpcError, TaskPart, TaskUri};
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    sync::{Arc, Weak},
    time::Duration,
};
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::warn;

/// Between two updates of one resource; also between two reads of a log, whose growth nothing reports.
const INTERVAL: Duration = Duration::from_secs(1);

type Key = (TaskId, TaskPart);

/// The parts of tasks that are watched.
#[derive(Clone, Default)]
pub(crate) struct ResourceWatchers(Arc<Mutex<HashMap<Key, Weak<WatchedPart>>>>);

/// A part of a task that somebody has subscribed to; it is watched while anyone holds this.
struct WatchedPart {
    watchers: ResourceWatchers,
    key: Key,
    /// Dropped with this, which ends the watcher.
    _alive: DropGuard,
}

/// What was last seen of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PartState {
    Log {
        epoch: u32,
        bytes: u64,
    },
    /// The last entry of the journal that was read, and how many reads have found new output.
    Output {
        seq: u32,
        found: u32,
    },
    /// Of the history, and of the list of artifacts.
    Version(u64),
}

impl PartState {
    /// Whether a reader would find something new.
    fn is_new_since(self, before: Self) -> bool {
        match (before, self) {
            (Self::Output { found: before, .. }, Self::Output { found, .. }) => found != before,
            _ => self != before,
        }
    }
}

/// Watches what `uri` names, if that is a part of a task; `None` if it is something else.
///
/// # Errors
/// For a task that is not the caller's the error of an unknown resource; −32602 for a range of a part; the store's.
pub(crate) async fn subscribe(
    interaction: &Arc<Interaction>,
    caller: &Caller,
    uri: &str,
) -> Result<Option<SubscriptionGuard>, RpcError> {
    let Ok(path) = uri.split('?').next().unwrap_or_default().parse::<TaskUri>() else {
        return Ok(None);
    };
    let not_found = || RpcError::resource_not_found(caller.generation, uri);
    if path.part == TaskPart::Log && !interaction.engine.keeps_logs() {
        return Err(not_found());
    }
    // Watched before it is read, so that no change falls between.
    let changes = interaction.engine.watch(&path.task);
    let record = interaction.engine.get(&caller.scope(), &path.task).await;
    let task = record.map_err(store_failed)?.ok_or_else(not_found)?.task;
    if path.to_string() != uri || path.artifact.is_some() {
        let whole = TaskUri::of(path.task, path.part);
        return Err(RpcError::invalid_params(format!(
            "Only the whole can be subscribed to: {whole}"
        )));
    }
    let part = Part {
        engine: interaction.engine.clone(),
        scope: caller.scope(),
        part: path.part,
        uri: uri.into(),
    };
    // Before the subscriber is answered: what changes from then on is an update.
    let seen = part.read(&task, None).await.map_err(|error| {
        warn!(%error, "what is kept of a task cannot be read");
        RpcError::internal("The resource cannot be read")
    })?;
    let (watched, ended) = match interaction.resource_watchers.enter((path.task, path.part)) {
        (watched, Some(ended)) => (watched, ended),
        (watched, None) => return Ok(Some(watched)),
    };
    interaction.engine.ports().spawner.spawn(Box::pin(async move {
        ended.run_until_cancelled_owned(part.watch(task, changes, seen)).await;
    }));
    Ok(Some(watched))
}

impl ResourceWatchers {
    /// What keeps the watcher of a part alive and, if there was none, the token that ends a new one.
    fn enter(&self, key: Key) -> (Arc<WatchedPart>, Option<CancellationToken>) {
        let mut table = self.0.lock();
        if let Some(watched) = table.get(&key).and_then(Weak::upgrade) {
            return (watched, None);
        }
        let ended = CancellationToken::new();
        let watched = Arc::new(WatchedPart {
            watchers: self.clone(),
            key: key.clone(),
            _alive: ended.clone().drop_guard(),
        });
        table.insert(key, Arc::downgrade(&watched));
        (watched, Some(ended))
    }
}

impl Drop for WatchedPart {
    fn drop(&mut self) {
        let mut table = self.watchers.0.lock();
        // Another watcher may have replaced it.
        if table.get(&self.key).is_some_and(|watched| watched.strong_count() == 0) {
            table.remove(&self.key);
        }
    }
}

/// A part of a task, to be watched.
struct Part {
    engine: Engine,
    scope: Scope,
    part: TaskPart,
    uri: Arc<str>,
}

impl Part {
    /// Reports each change, at most once an interval, until there can be none any more.
    async fn watch(self, mut task: Task, mut changes: TaskWatch, mut seen: PartState) {
        let clock = Arc::clone(&self.engine.ports().clock);
        while !is_settled(&task) {
            let changed = match self.part {
                TaskPart::Log => {
                    clock.sleep(INTERVAL).await;
                    changes.changed().now_or_never().is_some()
                }
                TaskPart::Output | TaskPart::History | TaskPart::Artifacts => {
                    changes.changed().await;
                    true
                }
            };
            let next = async {
                if changed {
                    let Some(record) = self.engine.get(&self.scope, &task.id).await? else {
                        return Ok(None);
                    };
                    task = record.task;
                }
                self.read(&task, Some(seen)).await.map(Some)
            };
            let now = match next.await {
                Ok(Some(now)) => now,
                // It was deleted.
                Ok(None) => return,
                Err(error) => {
                    let error: ReadError = error;
                    warn!(%error, "what is kept of a task cannot be read");
                    clock.sleep(INTERVAL).await;
                    continue;
                }
            };
            let is_new = now.is_new_since(seen);
            seen = now;
            if is_new {
                self.engine.catalog().report(ResourceUpdate {
                    uri: Arc::clone(&self.uri),
                    principal: None,
                    relayed: None,
                    audience: Audience::Node,
                });
                if self.part != TaskPart::Log {
                    clock.sleep(INTERVAL).await;
                }
            }
        }
    }

    async fn read(&self, task: &Task, before: Option<PartState>) -> Result<PartState, ReadError> {
        Ok(match (self.part, before) {
            (TaskPart::Log, _) => {
                let nothing = LogRange {
                    offset: Some(0),
                    limit: Some(0),
                };
                let bytes = match self.engine.read_log(task, None, nothing).await {
                    Ok(log) => log.map_or(0, |log| log.total),
                    // Its growth is not known here.
                    Err(AttemptFilesError::OnHost(_)) => 0,
                    Err(error) => return Err(error.into()),
                };
                PartState::Log {
                    epoch: task.attempt.as_ref().map_or(0, |attempt| attempt.epoch),
                    bytes,
                }
            }
            (TaskPart::Output, Some(PartState::Output { seq, found })) => {
                let page = self.engine.output(task, seq, 1).await?;
                PartState::Output {
                    seq: task.journaled.max(page.next),
                    found: found + u32::from(!page.found.is_empty()),
                }
            }
            (TaskPart::Output, _) => PartState::Output {
                seq: task.journaled,
                found: 0,
            },
            // Each new attempt or entry, and each change of one, is a change of the task.
            (TaskPart::History | TaskPart::Artifacts, _) => PartState::Version(task.version),
        })
    }
}

/// Whether it cannot change any more: the task is done and its last attempt has ended.
fn is_settled(task: &Task) -> bool {
    task.is_done() && task.active_attempt().is_none()
}

/// A part of a task could not be read.
#[derive(Debug, thiserror::Error)]
enum ReadError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("its log: {0}")]
    Log(#[from] AttemptFilesError),
}
