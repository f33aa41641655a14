//! Deleting what has been kept long enough.

use crate::support::{CallOf, World, guarded, settle};
use longhaul_core::{BoxFuture, HostId, Json, TaskId};
use longhaul_runtime::{Executor, Provider};
use longhaul_store::MemoryStore;
use std::{
    collections::HashSet,
    sync::{Arc, Mutex, atomic::Ordering},
};

const RETENTION: i64 = 3_600_000;

/// Remembers whose files it was asked to remove, and cannot remove some.
#[derive(Default)]
struct Files {
    /// Tasks that have no files.
    without: Mutex<HashSet<TaskId>>,
    stuck: Mutex<HashSet<TaskId>>,
    forgotten: Mutex<Vec<TaskId>>,
}

impl Provider for Files {
    fn kind(&self) -> &'static str {
        "script"
    }

    fn revive(&self, _definition: &Json) -> Result<Arc<dyn Executor>, String> {
        Err("nothing to revive".to_owned())
    }

    fn left_by(&self, mut tasks: Vec<TaskId>) -> BoxFuture<'_, Vec<TaskId>> {
        let without = self.without.lock().unwrap();
        tasks.retain(|task| !without.contains(task));
        Box::pin(std::future::ready(tasks))
    }

    fn forget(&self, task: &TaskId) -> BoxFuture<'_, Result<(), String>> {
        let task = task.clone();
        Box::pin(async move {
            self.forgotten.lock().unwrap().push(task.clone());
            if self.stuck.lock().unwrap().contains(&task) {
                return Err("busy".to_owned());
            }
            Ok(())
        })
    }
}

impl Files {
    fn asked(&self, id: &TaskId) -> usize {
        self.forgotten
            .lock()
            .unwrap()
            .iter()
            .filter(|asked| *asked == id)
            .count()
    }
}

/// A world with so many finished tasks, and what keeps their files.
async fn finished(count: usize) -> (World, Arc<Files>, Vec<TaskId>) {
    finished_in(World::in_memory(), count).await
}

async fn finished_in(mut world: World, count: usize) -> (World, Arc<Files>, Vec<TaskId>) {
    let files = Arc::new(Files::default());
    world.providers = vec![files.clone()];
    let (engine, mut runs) = world.scripted().await;
    let mut ids = Vec::new();
    for _ in 0..count {
        let task = engine.create(engine.call("a")).await.unwrap();
        runs.next().await.finish("done");
        world.outcome(&engine, &task.id).await;
        ids.push(task.id.clone());
    }
    world.clock.sleeper(2_000).await;
    (world, files, ids)
}

async fn left(world: &World, ids: &[TaskId]) -> Vec<TaskId> {
    let mut left = Vec::new();
    for id in ids {
        if world.store.get_unscoped(id).await.unwrap().is_some() {
            left.push(id.clone());
        }
    }
    left
}

async fn until_left(world: &World, ids: &[TaskId], count: usize) -> Vec<TaskId> {
    guarded("tasks to be deleted", async {
        loop {
            let left = left(world, ids).await;
            if left.len() <= count {
                return left;
            }
            tokio::task::yield_now().await;
        }
    })
    .await
}

#[tokio::test]
async fn expired_tasks_go_in_batches_and_their_files_go_first() {
    let (world, files, ids) = finished(300).await;
    world.clock.advance(RETENTION - 1);
    settle().await;
    assert_eq!(left(&world, &ids).await.len(), 300, "not before their time");
    world.clock.sleeper(2_000).await;
    world.clock.advance(2_000);
    until_left(&world, &ids, 0).await;
    for id in &ids {
        assert_eq!(files.asked(id), 1);
    }
}

#[tokio::test]
async fn files_that_cannot_be_removed_keep_their_task_and_hold_up_no_other() {
    let (world, files, ids) = finished(400).await;
    // More than a batch, and first in line.
    let stuck: HashSet<TaskId> = ids[..200].iter().cloned().collect();
    files.stuck.lock().unwrap().extend(stuck.clone());
    world.clock.advance(RETENTION);
    let kept = until_left(&world, &ids, 200).await;
    assert_eq!(kept.into_iter().collect::<HashSet<_>>(), stuck);
    for _ in 0..10 {
        world.clock.sleeper(2_000).await;
        world.clock.advance(2_000);
        settle().await;
    }
    assert_eq!(files.asked(&ids[0]), 1, "tried again after a while, not all the time");
    files.stuck.lock().unwrap().clear();
    world.clock.sleeper(2_000).await;
    world.clock.advance(600_000);
    until_left(&world, &ids, 0).await;
}

/// The store knows of a removal before it happens, and tasks without files cost no record.
#[tokio::test]
async fn a_removal_of_files_is_recorded_before_it() {
    let (world, store) = World::faulty();
    let (world, files, ids) = finished_in(world, 3).await;
    files.without.lock().unwrap().extend(ids[..2].iter().cloned());
    store.full_removals.store(1, Ordering::SeqCst);
    world.clock.advance(RETENTION);
    world.clock.sleeper(2_000).await;
    assert_eq!(left(&world, &ids).await, ids, "nothing goes before the record");
    assert_eq!(
        (files.asked(&ids[2]), store.full_removals.load(Ordering::SeqCst)),
        (0, 0)
    );
    world.clock.advance(2_000);
    until_left(&world, &ids, 0).await;
    assert_eq!(files.asked(&ids[2]), 1);
    assert_eq!(store.removals.load(Ordering::SeqCst), 1);
    assert_eq!((files.asked(&ids[0]), files.asked(&ids[1])), (0, 0));
}

#[tokio::test]
async fn a_sweep_that_removes_no_files_records_nothing() {
    let (world, store) = World::faulty();
    let (world, files, ids) = finished_in(world, 3).await;
    files.without.lock().unwrap().extend(ids.iter().cloned());
    world.clock.advance(RETENTION);
    until_left(&world, &ids, 0).await;
    assert_eq!(store.removals.load(Ordering::SeqCst), 0);
}

async fn tombstones(world: &World) -> Vec<TaskId> {
    world.store.tombstones(&world.host, 9).await.unwrap()
}

/// Any node deletes the row, and only the host itself can remove the files, even if it was away.
#[tokio::test]
async fn files_are_removed_by_their_host_also_after_the_row() {
    let mut here = World::in_memory();
    here.store = Arc::new(MemoryStore::of_many_nodes(here.clock.clone(), 15_000));
    let (files, others) = (Arc::new(Files::default()), Arc::new(Files::default()));
    here.providers = vec![files.clone()];
    let mut there = here.clone();
    there.host = HostId("there".into());
    there.providers = vec![others.clone()];
    let (engine, mut runs) = here.bound().await;
    let task = engine.create(engine.call("a")).await.unwrap();
    runs.next().await.finish("done");
    here.outcome(&engine, &task.id).await;
    engine.end().await;
    others.without.lock().unwrap().insert(task.id.clone());
    let _there = there.start([]).await;
    here.clock.advance(RETENTION);
    until_left(&here, std::slice::from_ref(&task.id), 0).await;
    assert_eq!(tombstones(&here).await, vec![task.id.clone()]);
    assert_eq!((files.asked(&task.id), others.asked(&task.id)), (0, 0));

    files.stuck.lock().unwrap().insert(task.id.clone());
    let _here = here.start([]).await;
    guarded("the host to try", async {
        while files.asked(&task.id) == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    // Not before they are gone.
    assert_eq!(tombstones(&here).await, vec![task.id.clone()]);
    files.stuck.lock().unwrap().clear();
    guarded("the tombstone to be removed", async {
        while !tombstones(&here).await.is_empty() {
            here.clock.sleeper(2_000).await;
            here.clock.advance(60_000);
            settle().await;
        }
    })
    .await;
    assert_eq!((files.asked(&task.id), others.asked(&task.id)), (2, 0));
}

#[tokio::test]
async fn invariant_6_live_work_is_not_ended_by_its_time_to_live() {
    let world = World::in_memory();
    let (engine, _runs, task, run) = world.running().await;
    let mut announced = task.announced_until;
    for _ in 0..10 {
        world.clock.advance(RETENTION);
        let extended = world
            .until(&engine, &task.id, |task| task.announced_until > announced)
            .await;
        assert!(extended.announced_until.0 > longhaul_core::Clock::now(&*world.clock).0);
        announced = extended.announced_until;
        settle().await;
    }
    assert_eq!(run.cx.stop_requested(), None);
    run.finish("after ten retentions");
    world.outcome(&engine, &task.id).await;
}

/// The longest retention one can write down must not keep the timers from anything else.
#[tokio::test]
async fn an_endless_retention_stands_in_no_deadlines_way() {
    let world = World::in_memory();
    let (engine, mut runs) = world
        .playing(|tool| (tool.retention, tool.deadline) = (u64::MAX, Some(1_000)))
        .await;
    engine.create(engine.call("a")).await.unwrap();
    let run = runs.next().await;
    world.clock.sleeper(1_000).await;
    world.clock.advance(1_000);
    guarded("the stop", run.cx.stopped()).await;
}
