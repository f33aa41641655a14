//! When what is kept of a task changes: `resources/updated` for its log, output and history, in both eras.
//!
//! One watcher for each part of a task that someone has subscribed to. It tells of an update as authors of resources do, through the
//! catalog, so sessions and subscriptions hear of it in one way. It ends with its subscribers, or when nothing can change any more.

use crate::{
    admission::caller::Caller, interaction::Interaction, response::store_failed,
    session::preferences::SubscriptionGuard,
};
use futures_util::FutureExt;
use longhaul_core::{Scope, Task, TaskId, store::StoreError};
use longhaul_runtime::{Engine, LogRange, Watch};
use longhaul_wire::{RpcError, TaskPart, TaskUri};
use parking_lot::{Mutex, MutexGuard};
use std::{
    collections::HashMap,
    sync::{Arc, Weak},
    time::Duration,
};
use tokio::sync::watch;
use tracing::warn;

/// Between two updates of one resource; also between two looks at a log, which grows without a word.
const INTERVAL: Duration = Duration::from_secs(1);

type Key = (TaskId, TaskPart);

/// The parts of tasks that are watched.
#[derive(Clone, Default)]
pub(crate) struct ResourceWatchers(Arc<Mutex<HashMap<Key, Weak<Watched>>>>);

/// A part of a task that somebody has subscribed to; it is watched while anyone holds this.
struct Watched {
    updates: ResourceWatchers,
    key: Key,
    /// Dropped with this, which ends the watcher.
    _alive: watch::Sender<()>,
}

/// How far a part had come when it was last looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    Log {
        epoch: u32,
        bytes: u64,
    },
    /// The last place of the journal that was looked at, and how many outputs had been found after another one.
    Output {
        place: u32,
        found: u32,
    },
    History {
        version: u64,
    },
}

impl Seen {
    /// Whether there is anything new for a reader.
    fn is_news_to(self, before: Self) -> bool {
        match (before, self) {
            (Self::Output { found: before, .. }, Self::Output { found, .. }) => found != before,
            _ => self != before,
        }
    }
}

/// Watches what `uri` names, if that is a part of a task; `None` if it is something else.
///
/// # Errors
/// For a task that is not the caller's, what an unknown resource comes to; −32602 for a stretch of a part; the store's.
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
    if path.to_string() != uri {
        return Err(RpcError::invalid_params(format!(
            "Only the whole can be subscribed to: {path}"
        )));
    }
    let part = Part {
        engine: interaction.engine.clone(),
        scope: caller.scope(),
        part: path.part,
        uri: uri.into(),
    };
    // Before the subscriber is answered: what changes from then on is an update.
    let seen = part.look(&task, None).await.map_err(|error| {
        warn!(%error, "what is kept of a task cannot be read");
        RpcError::internal("The resource cannot be read")
    })?;
    let (watched, mut ended) = match interaction.resource_watchers.enter((path.task, path.part)) {
        (watched, Some(ended)) => (watched, ended),
        (watched, None) => return Ok(Some(watched)),
    };
    interaction.engine.ports().spawner.spawn(Box::pin(async move {
        tokio::select! {
            () = part.watch(task, changes, seen) => {}
            _ = ended.changed() => {}
        }
    }));
    Ok(Some(watched))
}

impl ResourceWatchers {
    /// What keeps the watcher of a part, and, if there was none, what ends one.
    fn enter(&self, key: Key) -> (Arc<Watched>, Option<watch::Receiver<()>>) {
        let mut table = self.lock();
        if let Some(watched) = table.get(&key).and_then(Weak::upgrade) {
            return (watched, None);
        }
        let (alive, ended) = watch::channel(());
        let watched = Arc::new(Watched {
            updates: self.clone(),
            key: key.clone(),
            _alive: alive,
        });
        table.insert(key, Arc::downgrade(&watched));
        (watched, Some(ended))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Weak<Watched>>> {
        self.0.lock()
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let mut table = self.updates.lock();
        // Another one may have come in its place.
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
    /// Tells of each change, at most once an interval, until there can be none any more.
    async fn watch(self, mut task: Task, mut changes: Watch, mut seen: Seen) {
        let clock = Arc::clone(&self.engine.ports().clock);
        while !is_settled(&task) {
            let changed = match self.part {
                TaskPart::Log => {
                    clock.sleep(INTERVAL).await;
                    changes.changed().now_or_never().is_some()
                }
                TaskPart::Output | TaskPart::History => {
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
                self.look(&task, Some(seen)).await.map(Some)
            };
            let now = match next.await {
                Ok(Some(now)) => now,
                // It was deleted.
                Ok(None) => return,
                Err(error) => {
                    let error: Unreadable = error;
                    warn!(%error, "what is kept of a task cannot be read");
                    clock.sleep(INTERVAL).await;
                    continue;
                }
            };
            let is_news = now.is_news_to(seen);
            seen = now;
            if is_news {
                self.engine.catalog().resource_updated(Arc::clone(&self.uri));
                if self.part != TaskPart::Log {
                    clock.sleep(INTERVAL).await;
                }
            }
        }
    }

    async fn look(&self, task: &Task, before: Option<Seen>) -> Result<Seen, Unreadable> {
        Ok(match (self.part, before) {
            (TaskPart::Log, _) => {
                let nothing = LogRange {
                    offset: Some(0),
                    limit: Some(0),
                };
                let read = self.engine.read_log(task, nothing).await.map_err(Unreadable::Log)?;
                Seen::Log {
                    epoch: task.attempt.as_ref().map_or(0, |attempt| attempt.epoch),
                    bytes: read.map_or(0, |log| log.total),
                }
            }
            (TaskPart::Output, Some(Seen::Output { place, found })) => {
                let page = self.engine.output(task, place, 1).await?;
                Seen::Output {
                    place: task.journaled.max(page.next),
                    found: found + u32::from(!page.found.is_empty()),
                }
            }
            (TaskPart::Output, _) => Seen::Output {
                place: task.journaled,
                found: 0,
            },
            // Attempts and entries, their ends and what is written over them: each is a change of the task.
            (TaskPart::History, _) => Seen::History { version: task.version },
        })
    }
}

/// Whether nothing of it changes any more: it is over, and its last attempt with it.
fn is_settled(task: &Task) -> bool {
    task.is_done() && task.active_attempt().is_none()
}

/// A part of a task could not be read.
#[derive(Debug, thiserror::Error)]
enum Unreadable {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("its log: {0}")]
    Log(String),
}
