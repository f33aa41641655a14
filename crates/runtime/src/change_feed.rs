//! Who waits for which task to change.

use longhaul_core::{
    TaskId,
    store::{Hint, Record},
};
use parking_lot::Mutex;
use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::sync::watch;

/// Passes the store's hints on to those who wait. Costs nothing for tasks nobody waits for.
#[derive(Default)]
pub(crate) struct ChangeFeed {
    watched: Mutex<HashMap<TaskId, watch::Sender<Seen>>>,
    /// Mirrors the map's size, so that a commit takes no lock while nobody waits.
    count: AtomicUsize,
}

/// The latest that is known of a task.
#[derive(Default)]
struct Seen {
    version: u64,
    ended: Option<Arc<Record>>,
}

impl ChangeFeed {
    /// Called by the store after each commit.
    pub(crate) fn publish(&self, hints: &[Hint]) {
        if self.count.load(Ordering::SeqCst) == 0 {
            return;
        }
        let watched = self.watched.lock();
        for hint in hints {
            if let Some(sender) = watched.get(&hint.task) {
                sender.send_if_modified(|seen| {
                    let newer = hint.version > seen.version;
                    seen.version = hint.version.max(seen.version);
                    if hint.ended.is_some() {
                        seen.ended.clone_from(&hint.ended);
                    }
                    newer
                });
            }
        }
    }

    /// Begins to watch a task. Read its record *after* this call, then wait: no change can fall between.
    pub(crate) fn watch(self: &Arc<Self>, task: &TaskId) -> Watch {
        let mut watched = self.watched.lock();
        let receiver = match watched.entry(task.clone()) {
            Entry::Occupied(entry) => entry.get().subscribe(),
            Entry::Vacant(entry) => {
                let (sender, receiver) = watch::channel(Seen::default());
                entry.insert(sender);
                self.count.fetch_add(1, Ordering::SeqCst);
                receiver
            }
        };
        Watch {
            change_feed: Arc::clone(self),
            task: task.clone(),
            receiver: Some(receiver),
        }
    }
}

/// A wait for changes of one task; dropping it ends the wait.
pub struct Watch {
    change_feed: Arc<ChangeFeed>,
    task: TaskId,
    receiver: Option<watch::Receiver<Seen>>,
}

impl Watch {
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

impl Drop for Watch {
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

    fn hint(version: u64) -> [Hint; 1] {
        [Hint {
            task: "t1".parse().unwrap(),
            version,
            ended: None,
        }]
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
