//! Who waits for which task to change.
//!
//! The store's events shorten these waits, and nothing more: they may be lost. So the versions of all watched tasks are read from time to time
//! (`nodes/resync.rs`), and whoever waits reads the store itself before it acts.

use foldhash::HashMap;
use longhaul_core::{
    TaskId,
    store::{Hint, Record},
};
use parking_lot::Mutex;
use std::{
    collections::{HashSet, hash_map::Entry},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::sync::watch;

/// Wakes those who wait for tasks. Costs nothing for tasks nobody waits for.
#[derive(Default)]
pub(crate) struct ChangeFeed {
    watched: Mutex<HashMap<TaskId, watch::Sender<WatchedState>>>,
    /// Mirrors the map's size, so that a commit takes no lock while nobody waits.
    count: AtomicUsize,
}

/// The latest that is known of a task.
#[derive(Default)]
struct WatchedState {
    version: u64,
    ended: Option<Arc<Record>>,
    /// Whether it was not in the store when that was read last.
    absent: bool,
}

impl ChangeFeed {
    /// A task has reached a version.
    pub(crate) fn publish(&self, hint: &Hint) {
        if self.count.load(Ordering::SeqCst) == 0 {
            return;
        }
        if let Some(sender) = self.watched.lock().get(&hint.task) {
            sender.send_if_modified(|seen| {
                if hint.ended.is_some() {
                    seen.ended.clone_from(&hint.ended);
                }
                seen.reach(hint.version)
            });
        }
    }

    /// The tasks that are watched, in order.
    pub(crate) fn watched(&self) -> Vec<TaskId> {
        let mut watched: Vec<TaskId> = self.watched.lock().keys().cloned().collect();
        watched.sort_unstable();
        watched
    }

    /// The versions of `asked` were read: wakes those who wait for a task that has changed or is gone.
    pub(crate) fn publish_versions(&self, asked: &[TaskId], versions: &[(TaskId, u64)]) {
        let found: HashSet<&TaskId> = versions.iter().map(|(id, _)| id).collect();
        let watched = self.watched.lock();
        for (id, version) in versions {
            if let Some(sender) = watched.get(id) {
                sender.send_if_modified(|seen| seen.reach(*version));
            }
        }
        for id in asked.iter().filter(|id| !found.contains(id)) {
            if let Some(sender) = watched.get(id) {
                sender.send_if_modified(|seen| !std::mem::replace(&mut seen.absent, true));
            }
        }
    }

    /// Wakes those who wait for a task, because its reader has found a change that they may have missed.
    pub(crate) fn wake(&self, task: &TaskId) {
        if let Some(sender) = self.watched.lock().get(task) {
            sender.send_modify(|_| ());
        }
    }

    /// Begins to watch a task. Read its record *after* this call, then wait: no change can fall between.
    pub(crate) fn watch(self: &Arc<Self>, task: &TaskId) -> TaskWatch {
        let mut watched = self.watched.lock();
        let receiver = match watched.entry(task.clone()) {
            Entry::Occupied(entry) => entry.get().subscribe(),
            Entry::Vacant(entry) => {
                let (sender, receiver) = watch::channel(WatchedState::default());
                entry.insert(sender);
                self.count.fetch_add(1, Ordering::SeqCst);
                receiver
            }
        };
        TaskWatch {
            change_feed: Arc::clone(self),
            task: task.clone(),
            receiver: Some(receiver),
        }
    }
}

impl WatchedState {
    /// The task has this version; returns whether that was not known.
    fn reach(&mut self, version: u64) -> bool {
        let newer = version > self.version;
        self.version = version.max(self.version);
        self.absent = false;
        newer
    }
}

/// A wait for changes of one task; dropping it ends the wait.
pub struct TaskWatch {
    change_feed: Arc<ChangeFeed>,
    task: TaskId,
    receiver: Option<watch::Receiver<WatchedState>>,
}

impl TaskWatch {
    /// The record of the task, if its end was hinted with it.
    pub(crate) fn ended(&self) -> Option<Arc<Record>> {
        self.receiver.as_ref()?.borrow().ended.clone()
    }

    /// What has changed so far is known.
    pub(crate) fn mark_seen(&mut self) {
        if let Some(receiver) = &mut self.receiver {
            receiver.mark_unchanged();
        }
    }

    /// Completes when the task has changed since the last call, or since the watch began.
    pub async fn changed(&mut self) {
        let has_changed = match &mut self.receiver {
            Some(receiver) => receiver.changed().await.is_ok(),
            None => false,
        };
        if !has_changed {
            // The sender lives as long as any watch does; should it not, there is nothing to come.
            std::future::pending().await
        }
    }
}

impl Drop for TaskWatch {
    fn drop(&mut self) {
        self.receiver = None;
        let mut watched = self.change_feed.watched.lock();
        if let Entry::Occupied(entry) = watched.entry(self.task.clone())
            && entry.get().receiver_count() == 0
        {
            entry.remove();
            self.change_feed.count.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    fn hint(version: u64) -> Hint {
        Hint {
            task: "t1".parse().unwrap(),
            version,
            stop: None,
            ended: None,
        }
    }

    #[tokio::test]
    async fn a_change_between_watching_and_waiting_is_not_lost() {
        let change_feed = Arc::new(ChangeFeed::default());
        let mut watch = change_feed.watch(&"t1".parse().unwrap());
        change_feed.publish(&hint(2));
        watch.changed().await;
        change_feed.publish(&hint(3));
        watch.changed().await;
    }

    #[test]
    fn a_version_that_is_known_already_wakes_nobody() {
        let change_feed = Arc::new(ChangeFeed::default());
        let ids = ["t1".parse().unwrap()];
        let mut watch = change_feed.watch(&ids[0]);
        let mut woken = || watch.changed().now_or_never().is_some();
        let version = |version| [(ids[0].clone(), version)];
        change_feed.publish_versions(&ids, &version(3));
        assert!(woken());
        for hint in [hint(3), hint(2)] {
            change_feed.publish(&hint);
        }
        change_feed.publish_versions(&ids, &version(3));
        assert!(!woken());
        change_feed.publish_versions(&ids, &[]);
        assert!(woken(), "it was deleted");
        change_feed.publish_versions(&ids, &[]);
        assert!(!woken());
        change_feed.publish_versions(&ids, &version(4));
        assert!(woken());
    }

    #[test]
    fn the_last_watch_takes_the_entry_with_it() {
        let change_feed = Arc::new(ChangeFeed::default());
        let (first, second) = (
            change_feed.watch(&"t1".parse().unwrap()),
            change_feed.watch(&"t1".parse().unwrap()),
        );
        drop(first);
        assert_eq!(change_feed.count.load(Ordering::Relaxed), 1);
        drop(second);
        assert_eq!(change_feed.count.load(Ordering::Relaxed), 0);
        assert!(change_feed.watched.lock().is_empty());
    }
}
