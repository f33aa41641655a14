//! Of a tool with a concurrency key so many tasks with one value are in progress.

use crate::support::{CallOf, Process, Run, Runs, Script, World, home, settle, tool};
use longhaul_core::{BoxFuture, Json, Outcome, Principal, TaskId};
use longhaul_runtime::{Call, ConcurrencyKey, Engine, ExecutionEnd, ToolSettings};
use std::sync::Arc;

fn by_branch(limit: usize) -> Option<ConcurrencyKey> {
    Some(ConcurrencyKey {
        value: Arc::new(|arguments: &Json| {
            let arguments: serde_json::Value = serde_json::from_str(arguments.as_str()).unwrap();
            arguments["branch"].to_string()
        }),
        limit,
    })
}

fn deploy(engine: &Engine, branch: &str) -> Call {
    Call {
        arguments: Json::from(serde_json::json!({ "branch": branch })),
        ..engine.call("a")
    }
}

async fn task(engine: &Engine, branch: &str) -> TaskId {
    engine.create(deploy(engine, branch)).await.unwrap().id.clone()
}

/// The run of this task, and no other one.
async fn only(runs: &mut Runs, id: &TaskId) -> Run {
    let run = runs.next().await;
    assert_eq!(run.attempt.task, *id);
    settle().await;
    assert!(runs.started().is_none());
    run
}

/// Tasks and plain calls, of all principals, although slots are free; the others of the tool go on.
#[tokio::test]
async fn calls_with_the_same_value_run_one_after_the_other() {
    let world = World::in_memory().with_slots(8);
    let (engine, mut runs) = world.playing(|tool| tool.concurrency_key = by_branch(1)).await;
    let first = task(&engine, "main").await;
    let run = only(&mut runs, &first).await;
    let mut plain = engine.begin(deploy(&engine, "main")).await.unwrap();
    let mut theirs = deploy(&engine, "main");
    theirs.owner.principal = Principal::named("another");
    let theirs = engine.create(theirs).await.unwrap();
    let left = engine.begin(deploy(&engine, "main")).await.unwrap();
    let wait = engine.queue_wait(&world.task(&theirs.id).await).await.unwrap();
    assert_eq!(wait.unwrap().to_string(), "queued", "nothing is said of others");
    let other = task(&engine, "next").await;
    only(&mut runs, &other).await.finish("deployed");

    left.handle().leave();
    run.end(ExecutionEnd::Errored(Outcome::tool_error("exit 1")));
    only(&mut runs, plain.id()).await.finish("deployed");
    plain.ended(|_| ()).await.unwrap();
    let run = only(&mut runs, &theirs.id).await;
    let last = task(&engine, "main").await;
    settle().await;
    assert!(runs.started().is_none());
    run.finish("deployed");
    only(&mut runs, &last).await.finish("deployed");
}

/// What waits is let in by an end, by a new limit, and where the tool has no key any more.
#[tokio::test]
async fn another_limit_counts_at_once() {
    let world = World::in_memory();
    let (engine, mut runs) = world.playing(|tool| tool.concurrency_key = by_branch(1)).await;
    let mut tasks = Vec::new();
    for _ in 0..5 {
        tasks.push(task(&engine, "main").await);
    }
    let _first = only(&mut runs, &tasks[0]).await;
    for (limit, begun) in [(Some(2), 1..2), (Some(2), 2..2), (Some(1), 2..2), (None, 2..5)] {
        let (script, mut runs) = Script::bound(false);
        let mut changed = tool("a", script);
        changed.concurrency_key = limit.and_then(by_branch);
        engine
            .put_tool(longhaul_runtime::Tool::new(changed).unwrap())
            .await
            .unwrap();
        for id in &tasks[begun] {
            assert_eq!(runs.next().await.attempt.task, *id);
        }
        settle().await;
        assert!(runs.started().is_none(), "{limit:?}");
    }
}

/// Over crashes of the server, whatever its tool then is.
#[test]
fn no_task_waits_for_one_that_a_crash_has_ended() {
    let (directory, clock) = home();
    let life = |limit: Option<usize>, life: &dyn Fn(Engine, Runs, World) -> BoxFuture<'static, Vec<TaskId>>| {
        Process::run(directory.path(), &clock, async |world| {
            let with_key = |tool: &mut ToolSettings| tool.concurrency_key = limit.and_then(by_branch);
            let (engine, runs) = world.playing(with_key).await;
            life(engine, runs, world).await
        })
    };
    let tasks = life(Some(1), &|engine, mut runs, _| {
        Box::pin(async move {
            let mut tasks = Vec::new();
            for _ in 0..4 {
                tasks.push(task(&engine, "main").await);
            }
            only(&mut runs, &tasks[0]).await;
            tasks
        })
    });
    let (first, second) = (tasks[0].clone(), tasks[1].clone());
    life(Some(1), &move |engine, mut runs, world| {
        let (first, second) = (first.clone(), second.clone());
        Box::pin(async move {
            let run = only(&mut runs, &first).await;
            assert!(run.resumed);
            run.finish("went on");
            world.outcome(&engine, &first).await;
            only(&mut runs, &second).await;
            Vec::new()
        })
    });
    let mut rest = tasks[1..].to_vec();
    rest.sort();
    life(None, &move |_, mut runs, _| {
        let rest = rest.clone();
        Box::pin(async move {
            let mut begun = Vec::new();
            while begun.len() < rest.len() {
                begun.push(runs.next().await.attempt.task);
            }
            begun.sort();
            assert_eq!(begun, rest);
            Vec::new()
        })
    });
}
