//! Deleting finished tasks because their owners want that.

use crate::support::{CallOf, Script, World, guarded, program, scope, tool};
use longhaul_core::{
    BoxFuture, Json, Principal, Scope, TaskId,
    store::{StoreError, TaskLookup},
};
use longhaul_runtime::{DeleteError, Executor, Provider, TaskContext};
use std::{
    collections::HashSet,
    sync::{Arc, Mutex},
};

/// The files of tasks, some of which cannot be removed.
#[derive(Default)]
struct Files {
    there: Mutex<HashSet<TaskId>>,
    stuck: Mutex<bool>,
}

impl Provider for Files {
    fn kind(&self) -> &'static str {
        "script"
    }

    fn revive(&self, _definition: &Json) -> Result<Arc<dyn Executor>, String> {
        Err("nothing to revive".to_owned())
    }

    fn left_by(&self, mut tasks: Vec<TaskId>) -> BoxFuture<'_, Vec<TaskId>> {
        let there = self.there.lock().unwrap();
        tasks.retain(|task| there.contains(task));
        Box::pin(std::future::ready(tasks))
    }

    fn forget(&self, task: &TaskId) -> BoxFuture<'_, Result<(), String>> {
        let stuck = *self.stuck.lock().unwrap();
        if !stuck {
            self.there.lock().unwrap().remove(task);
        }
        Box::pin(std::future::ready(if stuck { Err("busy".to_owned()) } else { Ok(()) }))
    }
}

#[tokio::test]
async fn a_finished_task_goes_with_its_files_and_its_key() {
    let (mut world, faults) = World::faulty();
    let files = Arc::new(Files::default());
    world.providers = vec![files.clone()];
    let (engine, mut runs) = world.scripted().await;
    let mut call = engine.call("a");
    call.idempotency_key = Some("k".into());
    let task = engine.create(call).await.unwrap();
    files.there.lock().unwrap().insert(task.id.clone());
    let run = runs.next().await;
    assert_eq!(engine.delete(&scope(), &task.id).await, Err(DeleteError::Live));
    run.finish("done");
    world.outcome(&engine, &task.id).await;
    let other = Scope::of(Principal::named("another"));
    assert_eq!(engine.delete(&other, &task.id).await, Err(DeleteError::NotFound));

    // While the files are there, so is the task.
    *files.stuck.lock().unwrap() = true;
    assert_eq!(engine.delete(&scope(), &task.id).await, Err(DeleteError::Files));
    assert!(engine.get(&scope(), &task.id).await.unwrap().is_some());
    *files.stuck.lock().unwrap() = false;
    // The store knows of a removal before it happens.
    faults.full_removals.store(1, std::sync::atomic::Ordering::SeqCst);
    let full = engine.delete(&scope(), &task.id).await;
    assert_eq!(full, Err(DeleteError::Store(StoreError::Full)));
    assert!(files.there.lock().unwrap().contains(&task.id));

    assert_eq!(engine.delete(&scope(), &task.id).await, Ok(()));
    assert_eq!(world.store.get_unscoped(&task.id).await, Ok(None));
    assert!(files.there.lock().unwrap().is_empty());
    assert_eq!(engine.delete(&scope(), &task.id).await, Err(DeleteError::NotFound));
    let mut call = engine.call("a");
    call.idempotency_key = Some("k".into());
    let again = engine.create(call).await.unwrap();
    assert_ne!(again.id, task.id, "the key lives as long as its task");
}

/// A process that dies after the files and before the rows leaves the task, which can be deleted again.
#[tokio::test]
async fn a_deletion_that_was_interrupted_can_be_repeated() {
    let (mut world, faults) = World::faulty();
    let files = Arc::new(Files::default());
    world.providers = vec![files.clone()];
    let (engine, mut runs) = world.scripted().await;
    let task = engine.create(engine.call("a")).await.unwrap();
    files.there.lock().unwrap().insert(task.id.clone());
    runs.next().await.finish("done");
    world.outcome(&engine, &task.id).await;
    faults.full_deletions.store(1, std::sync::atomic::Ordering::SeqCst);
    let full = engine.delete(&scope(), &task.id).await;
    assert_eq!(full, Err(DeleteError::Store(StoreError::Full)));
    engine.end().await;
    let engine = world.start([]).await;
    assert!(files.there.lock().unwrap().is_empty());
    assert!(engine.get(&scope(), &task.id).await.unwrap().is_some());
    assert_eq!(engine.delete(&scope(), &task.id).await, Ok(()));
    assert_eq!(world.store.get_unscoped(&task.id).await, Ok(None));
}

#[tokio::test]
async fn a_task_goes_with_all_that_it_has_started_once_that_has_ended() {
    let world = World::in_memory();
    let parent = |cx: TaskContext| async move {
        cx.call("ends", Json::trusted("{}")).await?;
        cx.call("goes on", Json::trusted("{}")).await?;
        Ok("done".to_owned())
    };
    let ends = |_: TaskContext| async move { Ok("ended".to_owned()) };
    let (script, mut runs) = Script::new();
    let engine = world
        .start([
            program("parent", parent),
            program("ends", ends),
            tool("goes on", script),
        ])
        .await;
    let task = engine.create(engine.call("parent")).await.unwrap();
    let run = runs.next().await;
    let started = world
        .store
        .find(
            TaskLookup::StartedBy {
                parent: task.id.clone(),
                after: None,
            },
            10,
        )
        .await
        .unwrap();
    assert_eq!(started.len(), 2);
    assert_eq!(engine.delete(&scope(), &task.id).await, Err(DeleteError::Live));
    engine
        .cancel(&scope(), &task.id, longhaul_core::CancelMode::AtOnce)
        .await
        .unwrap();
    // The second child goes on after its parent's end.
    let mut run = Some(run);
    guarded("the deletion", async {
        loop {
            match engine.delete(&scope(), &task.id).await {
                Ok(()) => return,
                Err(DeleteError::LiveChild) => run.take().into_iter().for_each(|run| run.finish("late")),
                Err(DeleteError::Stopping) => {}
                Err(other) => panic!("{other:?}"),
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert!(run.is_none(), "the child was live");
    for task in started.iter().map(|child| &child.id).chain([&task.id]) {
        assert_eq!(world.store.get_unscoped(task).await, Ok(None));
    }
}
