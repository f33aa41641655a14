//! What a task's owner can read: its parent, its output and its history.

use super::{Effects, TestStore, waits::until_journaled};
use crate::{ERAS, connect};
use longhaul::{
    Content, Error, RetryOn, ServerHandle, StepError, TaskContext, Tool, ToolResult,
    testing::Client,
    time::{days, millis},
};
use longhaul_core::EntryKind;
use serde_json::{Value, json};
use std::sync::Arc;

fn parent_and_child() -> Vec<Tool> {
    vec![
        Tool::durable("child", |cx: TaskContext| async move {
            cx.sleep(millis(1)).await?;
            ToolResult::Ok("rested")
        }),
        Tool::durable("parent", |cx: TaskContext| async move {
            let rested = cx.call("child", json!({})).await?;
            ToolResult::Ok(rested.task_id().as_str().to_owned())
        }),
    ]
}

#[tokio::test]
async fn a_child_names_its_parent_and_root() {
    let (server, client, _) = TestStore::Memory(Arc::default()).serve(parent_and_child()).await;
    let parent = client.start("parent", json!({})).await.unwrap();
    let child = parent.wait().await.unwrap().text().to_owned();
    for era in ERAS {
        let other = connect(&server, era).await;
        let seen = other.follow(child.clone()).get().await.unwrap();
        assert_eq!(seen["_meta"]["dev.longhaul/parent"], parent.id());
        assert_eq!(seen["_meta"]["dev.longhaul/root"], parent.id());
        let seen = other.follow(parent.id()).get().await.unwrap();
        assert!(seen["_meta"].get("dev.longhaul/parent").is_none(), "{seen}");
    }
    server.stop().await;
}

fn emits() -> Tool {
    Tool::durable("emits", |cx: TaskContext| async move {
        cx.emit("one").await?;
        cx.step("between", async || Ok::<_, Error>(1)).await?;
        cx.emit(Content::image("image/png", [1, 2, 3])).await?;
        cx.emit("three").await?;
        ToolResult::Ok("done")
    })
}

/// The contents, and the `_meta` that says where the next page starts.
async fn read(client: &Client, uri: &str) -> (Vec<Value>, Value) {
    let mut result = client.request("resources/read", json!({"uri": uri})).await.unwrap();
    let position = result["_meta"]["dev.longhaul/output"].take();
    (result["contents"].as_array().unwrap().clone(), position)
}

#[tokio::test]
async fn output_is_read_in_order_and_in_pages() {
    let (server, client, _) = TestStore::Memory(Arc::default()).serve(vec![emits()]).await;
    let task = client.start("emits", json!({})).await.unwrap();
    task.wait().await.unwrap();
    let output = format!("longhaul://task/{}/output", task.id());
    for era in ERAS {
        let client = connect(&server, era).await;
        let templates = client.request("resources/templates/list", json!({})).await.unwrap();
        let templates = templates["resourceTemplates"].as_array().unwrap().clone();
        for name in ["task_output", "task_history"] {
            assert!(templates.iter().any(|one| one["name"] == name), "{templates:?}");
        }
        let (all, position) = read(&client, &output).await;
        assert_eq!(position, json!({"next": 4, "total": 4}));
        assert_eq!(
            (&all[0]["text"], &all[0]["mimeType"]),
            (&json!("one"), &json!("text/plain"))
        );
        assert_eq!(
            (&all[1]["blob"], &all[1]["mimeType"]),
            (&json!("AQID"), &json!("image/png"))
        );
        assert_eq!(all[2]["text"], "three");
        let (first, position) = read(&client, &format!("{output}?limit=1")).await;
        assert_eq!((first.as_slice(), &position["next"]), (&all[..1], &json!(1)));
        let (rest, _) = read(&client, &format!("{output}?after=1")).await;
        assert_eq!(rest, all[1..]);
        for one in &all {
            let (alone, _) = read(&client, one["uri"].as_str().unwrap()).await;
            assert_eq!(alone, std::slice::from_ref(one), "each block has a URI of its own");
        }
        let unknown = client.read("longhaul://task/nobody/output").await.unwrap_err();
        let other = client.read("longhaul://task/nobody/log").await.unwrap_err();
        assert_eq!(unknown.code, other.code);
    }
    server.stop().await;
}

/// Between the two are more entries than a page has.
#[tokio::test]
async fn output_is_found_among_many_other_entries() {
    const STEPS: u32 = 1_000;
    let tool = Tool::durable("works", |cx: TaskContext| async move {
        cx.emit("first").await?;
        for _ in 0..STEPS {
            cx.now().await?;
        }
        cx.emit("last").await?;
        cx.now().await?;
        ToolResult::Ok("done")
    });
    let (server, client, _) = TestStore::Memory(Arc::default()).serve(vec![tool]).await;
    let task = client.start("works", json!({})).await.unwrap();
    task.wait().await.unwrap();
    let output = format!("longhaul://task/{}/output", task.id());
    let (all, position) = read(&client, &output).await;
    let texts: Vec<_> = all.iter().map(|block| block["text"].as_str().unwrap()).collect();
    assert_eq!(texts, ["first", "last"]);
    assert_eq!(position, json!({"next": STEPS + 3, "total": STEPS + 3}));
    let (one, position) = read(&client, &format!("{output}?limit=1")).await;
    assert_eq!(
        (one.as_slice(), position),
        (&all[..1], json!({"next": 1, "total": STEPS + 3}))
    );
    server.stop().await;
}

async fn history(server: &ServerHandle, task: &str, range: &str) -> Value {
    let mut seen = Vec::new();
    for era in ERAS {
        let client = connect(server, era).await;
        let uri = format!("longhaul://task/{task}/history{range}");
        let contents = client.read(&uri).await.unwrap();
        assert_eq!(contents[0]["mimeType"], "application/json");
        seen.push(contents[0]["text"].as_str().unwrap().to_owned());
    }
    assert_eq!(seen[0], seen[1]);
    serde_json::from_str(&seen[0]).unwrap()
}

fn states(history: &Value) -> Vec<(&str, &str)> {
    let entries = history["entries"].as_array().unwrap().iter();
    entries
        .map(|entry| (entry["what"].as_str().unwrap(), entry["state"].as_str().unwrap()))
        .collect()
}

#[tokio::test]
async fn the_history_shows_the_state_of_entries_and_no_values() {
    let effects = Effects::default();
    let tool = Tool::durable("works", move |cx: TaskContext| {
        let effects = effects.clone();
        async move {
            cx.step("secret", async || Ok::<_, Error>("hunter2".to_owned())).await?;
            cx.step("flaky", async || match effects.record("flaky") {
                1 => Err(StepError::new("not yet")),
                _ => Ok(2),
            })
            .max_attempts(3)
            .await?;
            let failed = cx
                .step("broken", async || {
                    Err::<u8, _>(StepError::non_retryable("no such thing"))
                })
                .await;
            assert!(failed.is_err());
            cx.sleep(days(1)).await?;
            ToolResult::Ok("done")
        }
    });
    let (server, client, store) = TestStore::Memory(Arc::default()).serve(vec![tool]).await;
    let task = client.start("works", json!({})).await.unwrap();
    until_journaled(&store, task.id(), EntryKind::Timer).await;
    let seen = history(&server, task.id(), "").await;
    assert_eq!(
        states(&seen),
        [
            ("step \"secret\"", "done"),
            ("step \"flaky\"", "done"),
            ("step \"broken\"", "failed"),
            ("timer", "waiting"),
        ]
    );
    assert_eq!((&seen["next"], &seen["total"]), (&json!(4), &json!(4)));
    let entries = &seen["entries"];
    assert_eq!(entries[1]["failed"]["tries"], 1);
    assert_eq!(entries[1]["failed"]["last"][0]["why"], "not yet");
    assert_eq!(entries[2]["why"], "no such thing");
    assert!(entries[3]["until"].is_string(), "{seen}");
    assert!(!seen.to_string().contains("hunter2"), "{seen}");
    let part = history(&server, task.id(), "?after=1&limit=2").await;
    assert_eq!(part["entries"], json!([entries[1], entries[2]]));
    assert_eq!(part["next"], 3);
    task.cancel().await.unwrap();
    assert_eq!(task.next().await.unwrap()["status"], "cancelled");
    let over = history(&server, task.id(), "?after=3").await;
    assert_eq!(states(&over), [("timer", "given up")]);
    server.stop().await;
}

#[tokio::test]
async fn a_blocked_task_has_its_history() {
    let tool = Tool::durable("crashes", |cx: TaskContext| async move {
        cx.step("before", async || Ok::<_, Error>(())).await?;
        if cx.version("always").await? {
            panic!("here");
        }
        ToolResult::Ok("never")
    })
    .retry(3, millis(1), [RetryOn::Crash])
    .blocked_timeout(millis(0));
    let (server, client, _) = TestStore::Memory(Arc::default()).serve(vec![tool]).await;
    let task = client.start("crashes", json!({})).await.unwrap();
    let failure = task.wait().await.unwrap_err();
    assert_eq!(failure.data["reason"], "poisoned", "{failure:?}");
    let seen = history(&server, task.id(), "").await;
    let failures: Vec<&Value> = (seen["entries"].as_array().unwrap().iter())
        .filter(|entry| entry["what"].as_str().unwrap().starts_with("failure"))
        .collect();
    // The failure lists every attempt as the journal does: with its time and its kind.
    let attempts: Vec<Value> = (failures.iter())
        .map(|entry| json!({"at": entry["at"], "by": entry["by"], "why": entry["why"]}))
        .collect();
    assert_eq!(failure.data["history"], json!(attempts));
    assert_eq!(attempts.len(), 3);
    for one in &attempts {
        assert!(one["at"].as_str().unwrap().ends_with('Z'), "{one}");
        assert_eq!(one["by"], "panic");
        assert_eq!(one["why"], "it panicked after version \"always\": here");
    }
    let last = format!(
        "the last: at {}, it panicked after",
        attempts[2]["at"].as_str().unwrap()
    );
    assert!(failure.message.contains(&last), "{failure:?}");
    server.stop().await;
}

#[derive(serde::Deserialize, longhaul::schemars::JsonSchema)]
struct Consent {
    #[expect(dead_code, reason = "nobody answers")]
    yes: bool,
}

#[tokio::test]
async fn the_history_shows_durations_questions_and_joins() {
    let tool = Tool::durable("works", |cx: TaskContext| async move {
        cx.sleep(std::time::Duration::from_millis(5)).await?;
        let branch = |_: TaskContext| async { Ok::<_, longhaul::Error>(()) };
        cx.join([branch, branch]).all().await?;
        let works = |cx: TaskContext| async move {
            Ok::<_, longhaul::Error>(cx.step("part", async || Ok::<_, Error>(())).await?)
        };
        for worked in cx.join([works, works]).await? {
            worked?;
        }
        cx.elicit::<Consent>("Go on?").await?;
        ToolResult::Ok("done")
    });
    let (server, client, store) = TestStore::Memory(Arc::default()).serve(vec![tool]).await;
    let task = client.start("works", json!({})).await.unwrap();
    until_journaled(&store, task.id(), EntryKind::Input).await;
    let shown = history(&server, task.id(), "").await;
    assert_eq!(
        states(&shown),
        [
            ("timer", "done"),
            ("join", "done"),
            ("step \"part\" in branch 1.0", "done"),
            ("step \"part\" in branch 1.1", "done"),
            ("input", "waiting")
        ]
    );
    // From when its entry was written, which may be a little after the sleep began.
    let took = shown["entries"][0]["tookMs"].as_u64();
    assert!(took.is_some_and(|took| took <= 5), "{shown}");
    assert_eq!(shown["entries"][4]["question"], "Go on?");
    server.stop().await;
}
