//! Deferred changes.

use super::{Disk, World, now, nth_id, tasks};
use crate::contract::fixture::{change, fence};
use futures_util::FutureExt;
use longhaul_core::{
    Event, Task,
    store::{Change, TaskStore},
};
use std::{sync::Arc, time::Duration};

/// A report of the attempt of `task`.
fn report(task: &Task, line: &str) -> Change {
    let event = Event::Reported {
        status: Some(line.into()),
        progress: None,
    };
    Change {
        can_wait: true,
        ..change(&task.id, Some(fence(task)), vec![event], 2)
    }
}

/// A store that defers what can wait for `longest_deferral`.
async fn world(longest_deferral: Duration) -> World {
    let World { disk, store, node } = World::new(false).await;
    drop(store);
    let mut options = disk.options();
    options.longest_deferral = longest_deferral;
    let store = Arc::new(crate::SqliteStore::open(disk.directory.path(), options).unwrap());
    World { disk, store, node }
}

const FOR_EVER: Duration = Duration::from_secs(1 << 30);

#[tokio::test]
async fn a_change_that_can_wait_commits_with_the_next_one_that_cannot() {
    let world = world(FOR_EVER).await;
    let task = world.create(world.new_call(1)).await;
    let before = world.disk.synced().times;
    let reports = ["one", "two"].map(|line| world.store.apply(report(&task, line)));
    let mut reports = Box::pin(futures_util::future::join_all(reports));
    assert!((&mut reports).now_or_never().is_none());
    let other = world.create(world.new_call(2)).await;
    for reported in reports.await {
        reported.unwrap();
    }
    assert_eq!(world.disk.synced().times, before + 1, "one commit for all three");
    let there = world.store.get_unscoped(&task.id).await.unwrap().unwrap().task;
    assert_eq!(there.status.as_deref(), Some("two"));
    assert_eq!(world.disk.synced().tasks, now(&world.store, tasks));
    assert!(world.disk.synced().tasks.contains_key(&other.id));
}

#[tokio::test]
async fn a_change_that_can_wait_is_committed_and_synced_without_others() {
    for longest_deferral in [Duration::ZERO, Duration::from_millis(20)] {
        let world = world(longest_deferral).await;
        let task = world.create(world.new_call(1)).await;
        let reported = world.store.apply(report(&task, "alone")).await.unwrap();
        assert_eq!(world.disk.synced().tasks.get(&task.id), Some(&reported.version));
    }
}

#[tokio::test]
async fn a_store_that_closes_commits_what_it_has_deferred() {
    let World { disk, store, node } = world(FOR_EVER).await;
    let world = World {
        disk: Arc::clone(&disk),
        store: Arc::clone(&store),
        node,
    };
    let task = world.create(world.new_call(1)).await;
    let mut reported = store.apply(report(&task, "last"));
    assert!((&mut reported).now_or_never().is_none());
    drop(reported);
    drop((world, store));
    let store = Disk::open(&disk);
    let left = store.get_unscoped(&nth_id(1)).await.unwrap().unwrap().task;
    assert_eq!(left.status.as_deref(), Some("last"));
}
