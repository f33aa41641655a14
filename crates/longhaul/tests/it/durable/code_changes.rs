//! Code that changes while a task is running.

use super::{Effects, Place, waits::until_journaled};
use longhaul::{
    Era, Error, OnNonDeterminism, RetryOn, Server, TaskContext, Tool, ToolResult,
    testing::Client,
    time::{days, millis},
};
use longhaul_core::{EntryKind, Store};
use longhaul_store::MemoryStore;
use serde_json::{Value, json};
use std::sync::Arc;

/// How the code forks; one branch asks something.
#[derive(Clone, Copy, Debug)]
enum Forks {
    Join,
    All,
    Select,
    /// A fork within a branch of another one.
    Within,
    /// Beside something else, so that it stands in no order to that.
    Beside,
}

/// What the changed code does before it forks.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Change {
    Step,
    VersionedStep,
    /// A fork of the same shape, whose branches have steps of the same names.
    VersionedFork,
    /// A step in the place of the fork.
    Instead,
}

const EVERY: [Forks; 4] = [Forks::Join, Forks::All, Forks::Select, Forks::Within];

async fn step(cx: &TaskContext, effects: &Effects, name: &'static str, what: &str) -> ToolResult<()> {
    let work = async || {
        effects.happen(what);
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

async fn fork(cx: &TaskContext, how: Forks, effects: &Effects, what: &'static str) -> ToolResult<()> {
    let asks = |cx| ask(cx, effects, what);
    match how {
        Forks::Join => {
            for over in cx.join([asks]).await? {
                over?;
            }
            Ok(())
        }
        Forks::All => Ok(cx.join([asks]).all().await.map(drop)?),
        Forks::Select => {
            let late = async |cx: TaskContext| Ok(cx.sleep(days(1)).await?);
            cx.select((asks, late)).await?.1
        }
        Forks::Within => {
            let outer = async |cx: TaskContext| Ok::<_, Error>(cx.join([asks]).all().await.map(drop)?);
            Ok(cx.join([outer]).all().await.map(drop)?)
        }
        Forks::Beside => {
            let aside = async || match effects.happen("aside") {
                1 => std::future::pending().await,
                _ => Ok::<_, Error>(()),
            };
            let (aside, forked) = tokio::join!(cx.step("aside", aside), cx.join([asks]).all());
            aside?;
            Ok(forked.map(drop)?)
        }
    }
}

async fn changed(cx: &TaskContext, how: Forks, change: Change, effects: &Effects) -> ToolResult<()> {
    match change {
        Change::VersionedStep | Change::VersionedFork if !cx.version("new").await? => {}
        Change::VersionedFork => fork(cx, how, effects, "new").await?,
        Change::Step | Change::VersionedStep => step(cx, effects, "new", "new").await?,
        Change::Instead => return step(cx, effects, "new", "new").await,
    }
    fork(cx, how, effects, "forked").await
}

/// A task is in its fork when its server stops, and goes on with the changed code. What it comes to, and what happened.
async fn deploy(how: Forks, change: Option<Change>) -> (Result<String, String>, Effects) {
    let effects = Effects::default();
    let tool = |change: Option<Change>| {
        let effects = effects.clone();
        let work = move |cx: TaskContext| {
            let effects = effects.clone();
            async move {
                match change {
                    Some(change) => changed(&cx, how, change, &effects).await?,
                    None => fork(&cx, how, &effects, "forked").await?,
                }
                ToolResult::Ok("done")
            }
        };
        Tool::durable("deploy", work)
            .retry(3, millis(1), [RetryOn::Crash])
            .on_non_determinism(OnNonDeterminism::Fail)
    };
    let place = Place::Memory(Default::default());
    let (server, client, store) = place.serve(vec![tool(None)]).await;
    let task = client.start("deploy", json!({})).await.unwrap();
    until_journaled(&store, task.id(), EntryKind::Input).await;
    let id = task.id().to_owned();
    server.stop().await;

    let (server, client, _) = place.serve(vec![tool(change)]).await;
    let task = client.follow(id);
    let questions = task.questions().await.unwrap_or_default();
    for key in questions.keys() {
        // A task that has failed meanwhile takes no answer.
        let _ = task.answer(key, json!({"action": "accept"})).await;
    }
    let came_to = task.wait().await;
    server.stop().await;
    (
        came_to.map(|called| called.text()).map_err(|failure| failure.message),
        effects,
    )
}

#[tokio::test]
async fn a_version_asked_before_a_fork_is_the_old_one_for_a_task_within_it() {
    for how in EVERY {
        for change in [Change::VersionedStep, Change::VersionedFork] {
            let (came_to, effects) = deploy(how, Some(change)).await;
            assert_eq!(came_to.as_deref(), Ok("done"), "{how:?}, {change:?}");
            assert_eq!(
                (effects.count("new"), effects.count("forked")),
                (0, 1),
                "{how:?}, {change:?}"
            );
        }
    }
}

#[tokio::test]
async fn what_is_new_before_a_fork_or_in_its_place_is_not_done_for_a_task_within_it() {
    for how in EVERY {
        for change in [Change::Step, Change::Instead] {
            let (came_to, effects) = deploy(how, Some(change)).await;
            let failure = came_to.unwrap_err();
            assert!(failure.contains("step \"new\""), "{how:?}, {change:?}: {failure}");
            assert!(
                failure.contains("step \"upload\" in branch 0.0"),
                "{how:?}, {change:?}: {failure}"
            );
            assert_eq!(
                (effects.count("new"), effects.count("forked")),
                (0, 1),
                "{how:?}, {change:?}"
            );
        }
    }
}

#[tokio::test]
async fn code_that_is_the_same_goes_on_from_its_fork() {
    for how in EVERY.into_iter().chain([Forks::Beside]) {
        let (came_to, effects) = deploy(how, None).await;
        assert_eq!(came_to.as_deref(), Ok("done"), "{how:?}");
        assert_eq!(effects.count("forked"), 1, "{how:?}");
    }
}

/// Builds, asks and ships; the bad one compiles where the good one builds.
async fn ship(cx: TaskContext, first: &'static str, effects: Effects) -> ToolResult<&'static str> {
    step(&cx, &effects, first, first).await?;
    cx.elicit_url("Read this", "https://example.com").await?;
    step(&cx, &effects, "ship", "ship").await?;
    Ok("shipped")
}

/// Clients of both generations see why it does not go on, an answer is taken meanwhile, and the build that changes the code back finishes it.
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
    // Only now: a legacy client that looks at a task is asked what that asks, and this one answers nothing.
    is_blocked(&legacy.follow(id.clone()).get().await.unwrap(), "working");
    server.stop().await;

    let (server, client) = deploy("good", "build").await;
    assert_eq!(client.follow(id).wait().await.unwrap().text(), "shipped");
    let done = ["build", "compile", "ship"].map(|step| effects.count(step));
    assert_eq!(done, [1, 0, 1]);
    server.stop().await;
}
