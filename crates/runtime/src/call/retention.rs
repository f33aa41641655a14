//! Deleting what has been kept long enough, in small batches.

use crate::{Provider, engine::Inner, node::StoreTrouble};
use longhaul_core::{TaskId, UnixMillis, store::StoreError};
use std::{collections::HashSet, sync::Arc, time::Duration};
use tracing::warn;

/// Small, so that a delete never holds up a create for long.
const BATCH: usize = 128;
/// Where many nodes share the store, each reads so many batches and takes one of them.
const SHARES: usize = 8;
const PAUSE: Duration = Duration::from_secs(2);
/// How long, in milliseconds, before files that could not be removed are tried again.
const STUCK_PAUSE: u64 = 600_000;
/// How often, in milliseconds, ended sessions whose time is over are forgotten at least.
const TIDY_EVERY: u64 = 3_600_000;
/// So many tasks with such files are passed over; with more of them the disk itself is broken.
const MOST_STUCK: usize = 4096;

/// Tasks whose files could not be removed. They are passed over, so that they do not hold up the rest.
#[derive(Default)]
struct Stuck {
    tasks: HashSet<TaskId>,
    since: UnixMillis,
}

impl Stuck {
    /// Forgets them when it is time to try again, or when the clock has gone back.
    fn refresh(&mut self, now: UnixMillis) {
        if now < self.since || now.since(self.since) >= STUCK_PAUSE {
            self.tasks.clear();
            self.since = now;
        }
    }
}

/// Deletes expired tasks until the engine stops.
pub(crate) async fn run(inner: Arc<Inner>) {
    let mut stuck = Stuck::default();
    let mut trouble = StoreTrouble::new("expired tasks could not be deleted");
    // What the store forgets by itself when tasks are deleted, it forgets also while there are none.
    let mut tidied = inner.node.now();
    loop {
        let tidy = inner.node.now().since(tidied) >= TIDY_EVERY;
        if tidy {
            tidied = inner.node.now();
        }
        match delete_batch(&inner, &mut stuck, tidy).await {
            Ok(Batch::Full) => {}
            Ok(Batch::Last) => {
                trouble.is_over(inner.node.ports.clock.monotonic());
                inner.node.ports.clock.sleep(PAUSE).await;
            }
            Err(error) => {
                trouble.failed(&error, inner.node.ports.clock.monotonic());
                inner.node.ports.clock.sleep(PAUSE).await;
            }
        }
    }
}

enum Batch {
    /// There may be more at once.
    Full,
    /// That was all.
    Last,
}

/// Files go before the row or the tombstone: should the process die between the two, that is found again and nothing is left behind. The removal is
/// recorded before that, so that an older copy of the store cannot pass for the present one without those files.
///
/// Any node deletes the rows of expired tasks. Their files on other hosts are removed by nodes of these hosts, which find tombstones.
async fn delete_batch(inner: &Inner, stuck: &mut Stuck, tidy: bool) -> Result<Batch, StoreError> {
    let (store, host, now) = (&inner.node.store, &inner.node.registered.host, inner.node.now());
    stuck.refresh(now);
    let limit = BATCH + stuck.tasks.len();
    let shares = if store.capabilities().many_nodes { SHARES } else { 1 };
    let mut expired = store.expired(now, limit * shares).await?;
    let mut tombstones = store.tombstones(host, limit).await?;
    let full = expired.len().max(tombstones.len()) >= limit && stuck.tasks.len() < MOST_STUCK;
    if expired.len() > limit {
        // Nodes that delete at the same time mostly take different ones.
        let share = inner.node.random() as usize % (expired.len() / limit);
        expired = expired.split_off(share * limit);
        expired.truncate(limit);
    }
    for tasks in [&mut expired, &mut tombstones] {
        tasks.retain(|id| !stuck.tasks.contains(id));
        let kept = remove_files(inner, tasks).await?;
        tasks.retain(|id| !kept.contains(id));
        stuck.tasks.extend(kept);
    }
    if tidy || !expired.is_empty() {
        store.delete(host, expired, now).await?;
    }
    if !tombstones.is_empty() {
        store.remove_tombstones(host, tombstones).await?;
    }
    Ok(if full { Batch::Full } else { Batch::Last })
}

/// Removes what attempts of these tasks left outside the store, and returns the tasks that still have some of it.
///
/// # Errors
/// The store's; nothing was removed then.
pub(crate) async fn remove_files(inner: &Inner, tasks: &[TaskId]) -> Result<HashSet<TaskId>, StoreError> {
    let files = files_of(inner, tasks).await;
    if !files.is_empty() {
        inner.node.store.record_removal().await?;
    }
    Ok(remove(files).await)
}

/// Which providers keep files of which of these tasks.
async fn files_of<'a>(inner: &'a Inner, expired: &[TaskId]) -> Vec<(&'a Arc<dyn Provider>, Vec<TaskId>)> {
    let mut files = Vec::new();
    if expired.is_empty() {
        return files;
    }
    for provider in &inner.providers {
        let left = provider.left_by(expired.to_vec()).await;
        if !left.is_empty() {
            files.push((provider, left));
        }
    }
    files
}

/// Removes files, and returns the tasks that still have some.
async fn remove(files: Vec<(&Arc<dyn Provider>, Vec<TaskId>)>) -> HashSet<TaskId> {
    let mut kept = HashSet::new();
    for (provider, tasks) in files {
        for task in tasks {
            if let Err(error) = provider.forget(&task).await {
                warn!(error, "files of a task could not be removed, so the task is kept");
                kept.insert(task);
            }
        }
    }
    kept
}
