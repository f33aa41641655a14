//! The nine cells of {2025-11-25 tasks, 2026-07-28 tasks, no tasks} client × upstream: what each does through the gateway.

use crate::{
    client::{Called, Client},
    upstream::{Tasks, Upstream},
    world::{RunningGateway, guarded, options, until},
};
use longhaul_client::{Outcome, TaskStatus};
use longhaul_core::{TaskPolicy, Verdict};
use serde_json::json;

/// Runs a test in each cell, with a gateway and an upstream of its own.
async fn in_each_cell(what: &str, test: impl AsyncFn(&Client, &Upstream)) {
    for upstream_tasks in Tasks::ALL {
        let upstream = Upstream::start(upstream_tasks).await;
        let directory = tempfile::tempdir().unwrap();
        let gateway = RunningGateway::start(directory.path(), options(&[("up", &upstream)])).await;
        for client_tasks in Tasks::ALL {
            let client = Client::connect(&gateway.url, client_tasks);
            test(&client, &upstream).await;
            println!("{what:<10} client {client_tasks:?} x upstream {upstream_tasks:?}: passed");
        }
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_call_has_the_result_of_a_direct_call() {
    in_each_cell("call", async |client, upstream| {
        let arguments = json!({"n": [1, 2.5, "ü"], "deep": {"a": null}});
        let direct = Client::connect(&upstream.url, client.tasks)
            .result("echo", arguments.clone())
            .await;
        assert_eq!(client.result("echo", arguments).await, direct);
        let large = client.text("large", json!({"bytes": 200_000})).await;
        assert_eq!(large.len(), 200_000);
    })
    .await;
}

#[tokio::test]
async fn a_failure_is_that_of_a_direct_call() {
    in_each_cell("failure", async |client, upstream| {
        let direct = Client::connect(&upstream.url, client.tasks);
        let (direct, through) = (
            direct.call("fail", json!({})).await,
            client.call("fail", json!({})).await,
        );
        let verdicts = [direct, through].map(|outcome| outcome.unwrap().verdict());
        assert_eq!(verdicts, [Verdict::ToolError; 2]);
    })
    .await;
}

#[tokio::test]
async fn a_question_reaches_the_user_once_and_its_answer_the_tool() {
    in_each_cell("question", async |client, _| {
        assert_eq!(client.text("confirm", json!({})).await, "confirmed: true");
        assert_eq!(*client.asked.lock().unwrap(), ["Really?"]);
    })
    .await;
}

#[tokio::test]
async fn a_client_with_tasks_gets_a_task_and_its_progress() {
    in_each_cell("task", async |client, upstream| {
        let before = upstream.begun();
        if client.tasks == Tasks::None {
            upstream.release();
            assert_eq!(client.text("hold", json!({})).await, "held");
            return;
        }
        let Called::Task(task) = client.start("hold", json!({})).await.unwrap() else {
            panic!("no task")
        };
        upstream.has_begun(before + 1).await;
        let mut status = None;
        while status.as_deref() != Some("half") {
            let snapshot = guarded("a poll", task.get()).await.unwrap();
            assert_eq!(snapshot.status, TaskStatus::Working);
            status = snapshot
                .message
                .map(|message| message.split(": ").last().unwrap_or_default().to_owned());
            tokio::task::yield_now().await;
        }
        upstream.release();
        let outcome = guarded("the end", task.wait(&mut |_| {})).await.unwrap();
        assert_eq!(outcome.verdict(), Verdict::Succeeded);
        assert_eq!(upstream.begun(), before + 1);
    })
    .await;
}

#[tokio::test]
async fn a_cancel_reaches_the_upstream() {
    in_each_cell("cancel", async |client, upstream| {
        let (begun, cancelled) = (
            upstream.begun(),
            upstream.work.cancelled.load(std::sync::atomic::Ordering::SeqCst),
        );
        if client.tasks == Tasks::None {
            let call = client.call("hold", json!({}));
            tokio::select! {
                outcome = call => panic!("it ended: {outcome:?}"),
                () = upstream.has_begun(begun + 1) => {}
            }
            // The request was dropped, and this client sends no cancellation.
            upstream.release();
            until("the work to end", || upstream.gate.available_permits() == 0).await;
            return;
        }
        let Called::Task(task) = client.start("hold", json!({})).await.unwrap() else {
            panic!("no task")
        };
        upstream.has_begun(begun + 1).await;
        task.cancel().await.unwrap();
        upstream.was_cancelled(cancelled + 1).await;
        // A legacy server has no outcome of a cancelled task.
        let ended = guarded("the end", task.wait(&mut |_| {})).await;
        assert!(!matches!(ended, Ok(Outcome::Result { .. })), "{ended:?}");
        assert_eq!(task.get().await.unwrap().status, TaskStatus::Cancelled);
    })
    .await;
}

/// A call that becomes a task after an hour is one at once if the upstream makes a task of it.
#[tokio::test]
async fn a_call_is_a_task_as_soon_as_it_is_one_of_the_upstream() {
    let upstream = Upstream::start(Tasks::Modern).await;
    let directory = tempfile::tempdir().unwrap();
    let mut upstreams = options(&[("up", &upstream)]);
    upstreams[0].rules[0].task = Some(TaskPolicy::After(3_600_000));
    let gateway = RunningGateway::start(directory.path(), upstreams).await;
    let client = Client::connect(&gateway.url, Tasks::Modern);
    let Called::Task(task) = client.start("hold", json!({})).await.unwrap() else {
        panic!("no task")
    };
    upstream.release();
    let outcome = guarded("the end", task.wait(&mut |_| {})).await.unwrap();
    assert_eq!(outcome.verdict(), Verdict::Succeeded);
    // The upstream of a client without tasks is not asked for one, so its progress arrives.
    let plain = Client::connect(&gateway.url, Tasks::None);
    upstream.release();
    assert_eq!(plain.text("hold", json!({})).await, "held");
    gateway.stop().await;
}
