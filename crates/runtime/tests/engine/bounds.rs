//! How much a task's journal may hold, also of what is begun at once.

use crate::support::{CallOf, Effects, Fault, World, program, text};
use futures_util::future::join_all;
use longhaul_core::{Entry, EntryKind, Json, TaskId};
use longhaul_runtime::{ChildError, JournalError, MAX_ENTRIES, StepError, TaskContext, ToolSettings};
use std::sync::{Arc, Mutex};

/// Begins so many branches at once, and tells what each came to.
async fn fan_out<F: Future>(cx: &TaskContext, count: usize, branch: impl Fn(TaskContext) -> F) -> Vec<F::Output> {
    let fork = cx.fork(count).unwrap();
    let begun = (0..count).map(|nth| {
        let (fork, branch) = (&fork, branch(fork.begin(nth).unwrap()));
        async move {
            let came_to = branch.await;
            fork.over(nth);
            came_to
        }
    });
    let begun: Vec<_> = begun.collect();
    join_all(begun).await
}

/// Code whose first attempt ends by a panic when all is done. What it came to is to be the same in both.
fn replayed<F>(code: impl Fn(TaskContext) -> F + Send + Sync + 'static) -> ToolSettings
where
    F: Future<Output = Result<String, Fault>> + Send + 'static,
{
    let came_to = Arc::new(Mutex::new(None));
    program("fans_out", move |cx| {
        let (code, came_to) = (code(cx), Arc::clone(&came_to));
        async move {
            let now = match code.await {
                Ok(words) => words,
                Err(fault) => fault.to_string(),
            };
            let before = came_to.lock().unwrap().replace(now.clone());
            assert_eq!(before.as_ref(), Some(&now), "the first attempt ends here");
            Ok(now)
        }
    })
}

async fn entries(world: &World, id: &TaskId) -> Vec<Entry> {
    let journal = world.store.journal(id, 0, usize::MAX).await.unwrap();
    let by_code = |entry: &Entry| entry.key.kind != EntryKind::Failure;
    journal.into_iter().filter(by_code).collect()
}

#[tokio::test]
async fn a_fan_out_of_steps_takes_no_more_entries_than_there_are() {
    const BRANCHES: usize = 10_500;
    let world = World::in_memory();
    let effects = Effects::default();
    let done = effects.clone();
    let code = move |cx: TaskContext| {
        let done = done.clone();
        async move {
            let all = fan_out(&cx, BRANCHES, |cx| {
                let done = done.clone();
                async move { done.step(&cx, "a").await }
            })
            .await;
            let full = |came_to: &&Result<u32, StepError>| {
                matches!(came_to, Err(StepError::Journal(JournalError::TooManyEntries { .. })))
            };
            let refused = all.iter().filter(full).count();
            let known: u64 = all.iter().flatten().map(|nth| u64::from(*nth)).sum();
            Ok(format!("{refused} were refused, the others came to {known}"))
        }
    };
    let engine = world.start([replayed(code)]).await;
    let task = engine.create(engine.call("fans_out")).await.unwrap();
    let known: u32 = (1..=MAX_ENTRIES).sum();
    let outcome = world.outcome(&engine, &task.id).await;
    assert_eq!(outcome, text(&format!("500 were refused, the others came to {known}")));
    assert_eq!(entries(&world, &task.id).await.len(), MAX_ENTRIES as usize);
}

/// The race is decided, and there is no room to say so: that is told, the first time and again.
#[tokio::test]
async fn a_race_without_room_for_its_winner_ends_the_same_each_time() {
    let world = World::in_memory();
    let effects = Effects::default();
    let code = move |cx: TaskContext| {
        let done = effects.clone();
        async move {
            let fork = cx.fork(MAX_ENTRIES as usize).unwrap();
            let race = fork.winner()?;
            let branches: Vec<_> = (0..MAX_ENTRIES as usize).map(|nth| fork.begin(nth).unwrap()).collect();
            let mut steps: Vec<_> = branches.iter().map(|cx| Box::pin(done.step(cx, "a"))).collect();
            // As long as none is decided, the others go on.
            if race.winner.is_none() {
                let (first, nth, _) = futures_util::future::select_all(&mut steps).await;
                first?;
                fork.decide(race, nth).await?;
            }
            Ok("decided".to_owned())
        }
    };
    let engine = world.start([replayed(code)]).await;
    let task = engine.create(engine.call("fans_out")).await.unwrap();
    let outcome = world.outcome(&engine, &task.id).await;
    let refused = format!("select would be more than {MAX_ENTRIES} entries: let a child task do a part of the work");
    assert_eq!(outcome, text(&refused));
}

#[tokio::test]
async fn a_fan_out_of_calls_starts_no_more_children_than_it_may() {
    let world = World::in_memory();
    let code = |cx: TaskContext| async move {
        let all = fan_out(
            &cx,
            1_500,
            |cx| async move { cx.call("nop", Json::trusted("{}")).await },
        )
        .await;
        let refused = all
            .iter()
            .filter(|called| matches!(called, Err(ChildError::Refused(_))));
        let done = all.iter().flatten().count();
        Ok(format!("{done} ended, {} were refused", refused.count()))
    };
    let nop = |_: TaskContext| async move { Ok(String::new()) };
    let engine = world.start([replayed(code), program("nop", nop)]).await;
    let task = engine.create(engine.call("fans_out")).await.unwrap();
    let outcome = world.outcome(&engine, &task.id).await;
    assert_eq!(outcome, text("1000 ended, 500 were refused"));
    let entries = entries(&world, &task.id).await;
    let started = entries.iter().filter(|entry| !entry.value.as_str().contains("refused"));
    assert_eq!((entries.len(), started.count()), (1_500, 1_000));
}
