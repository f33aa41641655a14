//! Waiting over a restart of the server.

use super::{Effects, TestStore};
use longhaul::{
    AskError, Error, TaskContext, Tool, ToolResult, schemars,
    time::{Timestamp, days, millis},
};
use longhaul_core::{EntryKind, Store};
use serde_json::json;
use std::sync::Arc;
use tokio::sync::watch;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Approval {
    approved: bool,
    /// When to publish.
    window: Timestamp,
}

fn release(effects: &Effects) -> Tool {
    release_once(effects, watch::Sender::new(true).subscribe())
}

/// Publishes only once it is `open`.
fn release_once(effects: &Effects, open: watch::Receiver<bool>) -> Tool {
    let effects = effects.clone();
    Tool::durable("release", move |cx: TaskContext| {
        let (effects, open) = (effects.clone(), open.clone());
        async move {
            effects.record("run");
            cx.step("build", async || Ok::<_, Error>(effects.record("build")))
                .await?;
            let ok: Approval = cx.elicit("Ship it?").within(days(3)).await?;
            cx.sleep_until(ok.window).await?;
            let published = cx
                .step("publish", async || {
                    // The value of a sender that is gone stays.
                    let _ = open.clone().wait_for(|open| *open).await;
                    Ok::<_, Error>(effects.record("publish"))
                })
                .await?;
            ToolResult::Ok(format!("{} {published}", ok.approved))
        }
    })
}

/// The task asks on one server, and the client answers on the next.
#[tokio::test]
async fn a_question_survives_a_restart() {
    for store_kind in TestStore::all() {
        let effects = Effects::default();
        let (server, client, store) = store_kind.serve(vec![release(&effects)]).await;
        let task = client.start("release", json!({})).await.unwrap();
        let asked = task.questions().await.unwrap();
        let id = task.id().to_owned();
        drop(task);
        server.stop().await;
        drop((server, client, store));

        let (server, client, store) = store_kind.serve(vec![release(&effects)]).await;
        let task = client.follow(&*id);
        let questions = task.questions().await.unwrap();
        assert_eq!(questions, asked, "the same question, under the same key");
        let key = questions.keys().next().unwrap();
        let answer = json!({"action": "accept", "content": {"approved": true, "window": "2020-01-01T00:00:00Z"}});
        task.answer(key, answer).await.unwrap();
        assert_eq!(task.wait().await.unwrap().text(), "true 1");
        assert_eq!((effects.count("build"), effects.count("publish")), (1, 1));
        let journal = super::entries(&store, &id, EntryKind::Failure).await;
        assert!(journal.is_empty(), "an announced stop costs no attempt");
        server.stop().await;
    }
}

#[tokio::test]
async fn an_answer_between_two_servers_is_not_lost() {
    for store_kind in TestStore::all() {
        let effects = Effects::default();
        // A step that runs when the server stops runs again, so none may have an effect on the first server.
        let open = watch::Sender::new(false);
        let release = || vec![release_once(&effects, open.subscribe())];
        let (server, client, store) = store_kind.serve(release()).await;
        let task = client.start("release", json!({})).await.unwrap();
        let key = task.questions().await.unwrap().keys().next().unwrap().clone();
        let answer = json!({"action": "accept", "content": {"approved": false, "window": "2020-01-01T00:00:00Z"}});
        task.answer(&key, answer).await.unwrap();
        let id = task.id().to_owned();
        drop(task);
        server.stop().await;
        drop((server, client, store));
        open.send_replace(true);
        let (server, client, _) = store_kind.serve(release()).await;
        assert_eq!(client.follow(id).wait().await.unwrap().text(), "false 1");
        assert_eq!((effects.count("build"), effects.count("publish")), (1, 1));
        server.stop().await;
    }
}

#[tokio::test]
async fn a_timer_counts_from_when_it_was_first_reached() {
    for store_kind in TestStore::all() {
        let nap = || {
            Tool::durable("nap", |cx: TaskContext| async move {
                let before = cx.now().await?;
                cx.sleep(millis(300)).await?;
                cx.sleep_until(before + millis(301)).await?;
                cx.sleep_until(before.unix_millis() + 302).await?;
                ToolResult::Ok(format!("{}", (cx.now().await? - before).as_millis()))
            })
        };
        let (server, client, store) = store_kind.serve(vec![nap()]).await;
        let task = client.start("nap", json!({})).await.unwrap();
        let id = task.id().to_owned();
        until_journaled(&store, &id, EntryKind::Timer).await;
        drop(task);
        server.stop().await;
        drop((server, client, store));
        let (server, client, _) = store_kind.serve(vec![nap()]).await;
        let slept: u64 = client.follow(id).wait().await.unwrap().text().parse().unwrap();
        assert!(slept >= 302, "{slept}");
        server.stop().await;
    }
}

#[tokio::test]
async fn an_unanswered_question_times_out_in_every_replay() {
    let effects = Effects::default();
    let output = super::replayed(vec![], move |cx| {
        let effects = effects.clone();
        async move {
            let asked = cx.elicit::<Approval>("Approve?").within(millis(20)).await;
            effects.record("asked");
            match asked {
                Err(AskError::Unanswered) => Ok(json!("nobody")),
                other => Ok(json!(format!("{:?}", other.map(|ok| ok.approved)))),
            }
        }
    })
    .await;
    assert_eq!(output, "nobody");
}

#[tokio::test]
async fn a_cancelled_task_stops_where_it_waits() {
    let (server, client, _) = TestStore::Memory(Arc::default())
        .serve(vec![Tool::durable("nap", |cx: TaskContext| async move {
            cx.sleep(days(1)).await?;
            ToolResult::Ok("rested")
        })])
        .await;
    let task = client.start("nap", json!({})).await.unwrap();
    task.cancel().await.unwrap();
    assert_eq!(task.next().await.unwrap()["status"], "cancelled");
    server.stop().await;
}

/// Waits until there is an entry of this kind.
pub(super) async fn until_journaled(store: &Arc<dyn Store>, task: &str, kind: EntryKind) {
    while super::entries(store, task, kind).await.is_empty() {
        tokio::task::yield_now().await;
    }
}
