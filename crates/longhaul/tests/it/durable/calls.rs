//! Calls of other tools.

use super::{Effects, TestStore, replayed, waits::until_journaled};
use longhaul::{CallError, Error, Outcome, TaskContext, TaskId, Tool, ToolOutput, ToolResult, schemars, time::days};
use longhaul_core::EntryKind;
use longhaul_core::store::TaskLookup;
use serde_json::{Value, json};
use std::sync::Arc;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Smoke {
    build: Option<u64>,
}

fn smoke(effects: &Effects) -> Tool {
    let effects = effects.clone();
    Tool::new("smoke", move |args: Smoke| {
        effects.record("smoke");
        let output = match args.build {
            Some(build) => ToolOutput::json(&json!({"passed": build})),
            None => Err(Error::new("there is no build")),
        };
        std::future::ready(output)
    })
}

#[tokio::test]
async fn a_call_is_made_once() {
    let effects = Effects::default();
    let output = replayed(vec![smoke(&effects)], |cx| async move {
        let smoke = cx.call("smoke", json!({"build": 7})).await?;
        let typed: Value = smoke.json()?;
        Ok(json!([smoke, typed, smoke.text(), smoke.task_id().as_str()]))
    })
    .await;
    assert_eq!(output[0], json!({"passed": 7}));
    assert_eq!(output[1], json!({"passed": 7}));
    assert_eq!(output[2], r#"{"passed":7}"#);
    assert_eq!(effects.count("smoke"), 1);
}

/// Text is what most tools return.
#[tokio::test]
async fn a_call_returns_the_value_of_its_tool_also_if_it_is_text() {
    let tools = vec![
        Tool::new("text", async || "through"),
        Tool::new("nothing", async || ()),
        Tool::new("picture", async || longhaul::Content::image("image/png", b"x")),
    ];
    let output = replayed(tools, |cx| async move {
        let text = cx.call("text", ()).await?;
        let read: String = text.json()?;
        let nothing = cx.call("nothing", ()).await?;
        let picture = cx.call("picture", ()).await?;
        Ok(json!([text, read, nothing, picture]))
    })
    .await;
    assert_eq!(output[0], json!("through"));
    assert_eq!(output[1], json!("through"));
    assert_eq!(output[2], json!(""));
    assert_eq!(output[3]["content"][0]["type"], json!("image"));
}

#[tokio::test]
async fn a_call_that_fails_is_an_error_or_a_value() {
    let effects = Effects::default();
    let output = replayed(vec![smoke(&effects)], |cx| async move {
        let called = cx.call("smoke", ()).outcome().await?;
        let is_error = matches!(called.outcome(), Outcome::Result { is_error: true, .. });
        let failed = cx.call("smoke", json!({})).await.unwrap_err();
        Ok(json!([is_error, failed.to_string()]))
    })
    .await;
    assert_eq!(output, json!([true, "the tool \"smoke\" failed: there is no build"]));
    assert_eq!(effects.count("smoke"), 2);
}

/// Although the client has declared all capabilities.
#[tokio::test]
async fn a_child_cannot_ask_the_client() {
    let child = Tool::durable("child", |cx: TaskContext| async move {
        cx.elicit::<Smoke>("which build?").await?;
        ToolResult::Ok("asked")
    });
    let output = replayed(vec![child], |cx| async move {
        let failed = cx.call("child", json!({})).await.unwrap_err();
        Ok(json!(failed.to_string()))
    })
    .await;
    let result = output.as_str().unwrap();
    assert!(result.contains("cannot ask the client"), "{result}");
}

/// The parent's journal records an error in its place; the child's own task has the whole result.
#[tokio::test]
async fn a_result_too_long_for_its_parent_is_an_error() {
    const LONG: usize = 2_000_000;
    for store_kind in TestStore::all() {
        let tools = vec![
            Tool::new("long", async || "x".repeat(LONG)),
            Tool::durable("calls", |cx: TaskContext| async move {
                let Err(CallError::Failed { task_id, why, .. }) = cx.call("long", ()).await else {
                    return Err(Error::new("it was not too long"));
                };
                ToolOutput::json(&json!({"child": task_id.as_str(), "why": why}))
            }),
        ];
        let (server, client, store) = store_kind.serve(tools).await;
        let task = client.start("calls", json!({})).await.unwrap();
        let result = task.wait().await.unwrap();
        let why = result.structured()["why"].as_str().unwrap();
        assert!(
            why.contains("bytes long") && why.contains("a file, a resource"),
            "{why}"
        );
        let entry = super::entries(&store, task.id(), EntryKind::Child).await.remove(0);
        assert!(
            entry.value.as_str().len() < 1_000,
            "{} bytes",
            entry.value.as_str().len()
        );
        let child = result.structured()["child"].as_str().unwrap();
        let child = client.follow(child).wait().await.unwrap();
        assert_eq!(child.text().len(), LONG);
        server.stop().await;
    }
}

/// Although the tool has been added since: the refusal is recorded.
#[tokio::test]
async fn a_refused_call_stays_refused() {
    let effects = Effects::default();
    let late = smoke(&effects);
    let late = std::sync::Mutex::new(Some(late));
    let output = replayed(vec![], move |cx| {
        let late = late.lock().unwrap().take();
        async move {
            let Err(CallError::Refused { why, .. }) = cx.call("smoke", json!({"build": 1})).await else {
                return Err(Error::new("it was called"));
            };
            cx.step("go on", async || Ok::<_, Error>(())).await?;
            if let Some(late) = late {
                cx.server().put_tool(late).await?;
            }
            Ok(json!(&*why))
        }
    })
    .await;
    assert_eq!(output, "there is no such tool");
    assert_eq!(effects.count("smoke"), 0);
}

fn parent_and_child() -> Vec<Tool> {
    vec![
        Tool::durable("child", |cx: TaskContext| async move {
            cx.sleep(days(1)).await?;
            ToolResult::Ok("rested")
        }),
        Tool::durable("parent", |cx: TaskContext| async move {
            let rested = cx.call("child", json!({})).await?;
            ToolResult::Ok(rested.text())
        }),
    ]
}

#[tokio::test]
async fn children_know_their_parent_and_are_cancelled_with_it() {
    for store_kind in TestStore::all() {
        let (server, client, store) = store_kind.serve(parent_and_child()).await;
        let parent = client.start("parent", json!({})).await.unwrap();
        until_journaled(&store, parent.id(), EntryKind::Child).await;
        let id: TaskId = parent.id().parse().unwrap();
        let child = store
            .find(TaskLookup::ChildrenOf(id.clone()), 10)
            .await
            .unwrap()
            .remove(0);
        let lineage = child.lineage.clone().unwrap();
        assert_eq!((&lineage.parent, &lineage.root, lineage.depth), (&id, &id, 1));
        parent.cancel().await.unwrap();
        let child = client.follow(child.id.as_str());
        assert_eq!(child.next().await.unwrap()["status"], "cancelled");
        server.stop().await;
    }
}

#[tokio::test]
async fn a_child_resumes_after_a_restart() {
    for store_kind in TestStore::all() {
        let tools = || {
            vec![
                Tool::durable("ask", |cx: TaskContext| async move {
                    cx.call("nap", json!({})).await?;
                    ToolResult::Ok("woke up")
                }),
                Tool::durable("nap", |cx: TaskContext| async move {
                    let until = cx.now().await? + longhaul::time::millis(200);
                    cx.sleep_until(until).await?;
                    ToolResult::Ok("rested")
                }),
            ]
        };
        let (server, client, store) = store_kind.serve(tools()).await;
        let task = client.start("ask", json!({})).await.unwrap();
        until_journaled(&store, task.id(), EntryKind::Child).await;
        let id = task.id().to_owned();
        drop(task);
        server.stop().await;
        drop((server, client, store));
        let (server, client, store) = store_kind.serve(tools()).await;
        assert_eq!(client.follow(&*id).wait().await.unwrap().text(), "woke up");
        assert_eq!(super::entries(&store, &id, EntryKind::Child).await.len(), 1);
        server.stop().await;
    }
}

#[tokio::test]
async fn a_call_whose_future_is_dropped_is_cancelled() {
    let mut tools = parent_and_child();
    tools.push(Tool::durable("impatient", |cx: TaskContext| async move {
        let (first, ()) = cx
            .select((
                async |cx: TaskContext| drop(cx.call("child", json!({})).await),
                async |cx: TaskContext| drop(cx.sleep(longhaul::time::millis(5)).await),
            ))
            .await?;
        ToolResult::Ok(first.to_string())
    }));
    let (server, client, store) = TestStore::Memory(Arc::default()).serve(tools).await;
    let task = client.start("impatient", json!({})).await.unwrap();
    until_journaled(&store, task.id(), EntryKind::Child).await;
    let entry = super::entries(&store, task.id(), EntryKind::Child).await.remove(0);
    let child = longhaul_core::ChildEntry::from_json(&entry.value).unwrap().task;
    assert_eq!(task.wait().await.unwrap().text(), "1");
    assert_eq!(
        client.follow(child.as_str()).next().await.unwrap()["status"],
        "cancelled"
    );
    server.stop().await;
}
