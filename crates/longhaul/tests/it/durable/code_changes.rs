//! Code that changes while a task is running.

use super::{Effects, TestStore, waits::until_journaled};
use longhaul::{
    Era, Error, OnNonDeterminism, RetryOn, Server, TaskContext, Tool, ToolResult,
    testing::Client,
    time::{days, millis},
};
use longhaul_core::{EntryKind, Store, store::SearchStore};
use longhaul_store::MemoryStore;
use serde_json::{Value, json};
use std::sync::Arc;

/// How the code forks; one branch asks something.
#[derive(Clone, Copy, Debug)]
enum ForkShape {
    Join,
    All,
    Select,
    /// A fork within a branch of another one.
    Nested,
    /// Concurrent with a step, so that their order is not fixed.
    Beside,
}

/// What the changed code does before it forks.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Change {
    Step,
    VersionedStep,
    /// A fork of the same shape, whose branches have steps of the same names.
    VersionedFork,
    /// A step instead of the fork.
    Instead,
}

const MAIN_SHAPES: [ForkShape; 4] = [ForkShape::Join, ForkShape::All, ForkShape::Select, ForkShape::Nested];

async fn step(cx: &TaskContext, effects: &Effects, name: &'static str, what: &str) -> ToolResult<()> {
    let work = async || {
        effects.record(what);
        Ok::<_, Error>(())
    };
    Ok(cx.step(name, work).await?)
}

/// Asks in a branch, after a step of its own.
async fn ask(cx: TaskContext, effects: &Effects, what: &str) -> ToolResult<()> {
    step(&cx, effects, "upload", what).await?;
    if what == "forked" {
        cx.elicit_url("Read this", "https://example.com").await?;
    }
    Ok(())
}

async fn fork(cx: &TaskContext, shape: ForkShape, effects: &Effects, what: &'static str) -> ToolResult<()> {
    let asks = |cx| ask(cx, effects, what);
    match shape {
        ForkShape::Join => {
            for result in cx.join([asks]).await? {
                result?;
            }
            Ok(())
        }
        ForkShape::All => Ok(cx.join([asks]).all().await.map(drop)?),
        ForkShape::Select => {
            let late = async |cx: TaskContext| Ok(cx.sleep(days(1)).await?);
            cx.select((asks, late)).await?.1
        }
        ForkShape::Nested => {
            let outer = async |cx: TaskContext| Ok::<_, Error>(cx.join([asks]).all().await.map(drop)?);
            Ok(cx.join([outer]).all().await.map(drop)?)
        }
        ForkShape::Beside => {
            let aside = async || match effects.record("aside") {
                1 => std::future::pending().await,
                _ => Ok::<_, Error>(()),
            };
            let (aside, forked) = tokio::join!(cx.step("aside", aside), cx.join([asks]).all());
            aside?;
            Ok(forked.map(drop)?)
        }
    }
}

async fn changed(cx: &TaskContext, shape: ForkShape, change: Change, effects: &Effects) -> ToolResult<()> {
    match change {
        Change::VersionedStep | Change::VersionedFork if !cx.version("new").await? => {}
        Change::VersionedFork => fork(cx, shape, effects, "new").await?,
        Change::Step | Change::VersionedStep => step(cx, effects, "new", "new").await?,
        Change::Instead => return step(cx, effects, "new", "new").await,
    }
    fork(cx, shape, effects, "forked").await
}

/// Stops the server while a task is inside its fork and resumes the task with the changed code. Returns the task's result and its effects.
async fn deploy(shape: ForkShape, change: Option<Change>) -> (Result<String, String>, Effects) {
    let effects = Effects::default();
    let tool = |change: Option<Change>| {
        let effects = effects.clone();
        let work = move |cx: TaskContext| {
            let effects = effects.clone();
            async move {
                match change {
                    Some(change) => changed(&cx, shape, change, &effects).await?,
                    None => fork(&cx, shape, &effects, "forked").await?,
                }
                ToolResult::Ok("done")
            }
        };
        Tool::durable("deploy", work)
            .retry(3, millis(1), [RetryOn::Crash])
            .on_non_determinism(OnNonDeterminism::Fail)
    };
    let store_kind = TestStore::Memory(Default::default());
    let (server, client, store) = store_kind.serve(vec![tool(None)]).await;
    let task = client.start("deploy", json!({})).await.unwrap();
    until_journaled(&store, task.id(), EntryKind::Input).await;
    let id = task.id().to_owned();
    server.stop().await;

    let (server, client, _) = store_kind.serve(vec![tool(change)]).await;
    let task = client.follow(id);
    let questions = task.questions().await.unwrap_or_default();
    for key in questions.keys() {
        // The answer is refused if the task has failed meanwhile.
        let _ = task.answer(key, json!({"action": "accept"})).await;
    }
    let result = task.wait().await;
    server.stop().await;
    (
        result.map(|called| called.text()).map_err(|failure| failure.message),
        effects,
    )
}

#[tokio::test]
async fn a_version_added_before_a_fork_is_false_for_a_task_inside_the_fork() {
    for shape in MAIN_SHAPES {
        for change in [Change::VersionedStep, Change::VersionedFork] {
            let (result, effects) = deploy(shape, Some(change)).await;
            assert_eq!(result.as_deref(), Ok("done"), "{shape:?}, {change:?}");
            assert_eq!(
                (effects.count("new"), effects.count("forked")),
                (0, 1),
                "{shape:?}, {change:?}"
            );
        }
    }
}

#[tokio::test]
async fn an_operation_added_before_a_fork_or_in_its_place_is_non_determinism() {
    for shape in MAIN_SHAPES {
        for change in [Change::Step, Change::Instead] {
            let (result, effects) = deploy(shape, Some(change)).await;
            let failure = result.unwrap_err();
            assert!(failure.contains("step \"new\""), "{shape:?}, {change:?}: {failure}");
            assert!(
                failure.contains("step \"upload\" in branch 0.0"),
                "{shape:?}, {change:?}: {failure}"
            );
            assert_eq!(
                (effects.count("new"), effects.count("forked")),
                (0, 1),
                "{shape:?}, {change:?}"
            );
        }
    }
}

#[tokio::test]
async fn unchanged_code_resumes_inside_its_fork() {
    for shape in MAIN_SHAPES.into_iter().chain([ForkShape::Beside]) {
        let (result, effects) = deploy(shape, None).await;
        assert_eq!(result.as_deref(), Ok("done"), "{shape:?}");
        assert_eq!(effects.count("forked"), 1, "{shape:?}");
    }
}

/// Builds, asks and ships. The first step of the bad deploy has another name.
async fn ship(cx: TaskContext, first: &'static str, effects: Effects) -> ToolResult<&'static str> {
    step(&cx, &effects, first, first).await?;
    cx.elicit_url("Read this", "https://example.com").await?;
    step(&cx, &effects, "ship", "ship").await?;
    Ok("shipped")
}

/// Clients of both eras see why it is blocked, an answer is accepted meanwhile, and the build that changes the code back finishes it.
#[tokio::test]
async fn a_bad_deploy_blocks_a_task_and_a_good_one_finishes_it() {
    let (store, effects) = (Arc::new(MemoryStore::new()), Effects::default());
    let deploy = async |build: &str, first: &'static str| {
        let effects = effects.clone();
        let tool = Tool::durable("ship", move |cx: TaskContext| ship(cx, first, effects.clone()));
        let server = Server::new("test", "1.0.0").tool(tool).build_id(build);
        let server = server
            .store(Arc::clone(&store) as Arc<dyn Store>)
            .start()
            .await
            .unwrap();
        let client = Client::connect(&server, Era::Modern).await.unwrap();
        (server, client)
    };
    let (server, client) = deploy("good", "build").await;
    let task = client.start("ship", json!({})).await.unwrap();
    let id = task.id().to_owned();
    until_journaled(&(Arc::clone(&store) as Arc<dyn Store>), &id, EntryKind::Input).await;
    server.stop().await;

    let (server, client) = deploy("bad", "compile").await;
    let legacy = Client::connect(&server, Era::Legacy).await.unwrap();
    let task = client.follow(id.clone());
    let mut watch = server.engine().unwrap().watch(&id.parse().unwrap());
    while store.counts().await.unwrap().blocked == 0 {
        watch.changed().await;
    }
    let is_blocked = |state: &Value, status: &str| {
        assert_eq!(state["status"], status);
        let line = state["statusMessage"].as_str().unwrap();
        assert!(line.starts_with("blocked (non-determinism): "), "{line}");
        assert!(
            line.contains("step \"compile\"") && line.contains("step \"build\""),
            "{line}"
        );
    };
    is_blocked(&task.get().await.unwrap(), "input_required");
    for key in task.questions().await.unwrap().keys() {
        task.answer(key, json!({"action": "accept"})).await.unwrap();
    }
    is_blocked(&task.get().await.unwrap(), "working");
    // Only now: `tasks/get` of a legacy client would send it the task's question, which this client does not answer.
    is_blocked(&legacy.follow(id.clone()).get().await.unwrap(), "working");
    server.stop().await;

    let (server, client) = deploy("good", "build").await;
    assert_eq!(client.follow(id).wait().await.unwrap().text(), "shipped");
    let done = ["build", "compile", "ship"].map(|step| effects.count(step));
    assert_eq!(done, [1, 0, 1]);
    server.stop().await;
}
