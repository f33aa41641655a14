//! Restarts of the gateway and of the upstream in the middle of a call.

use crate::{
    client::{Client, end, failure, says, success},
    upstream::{Tasks, Upstream},
    world::{RunningGateway, guarded, options},
};
use longhaul_client::{Outcome, TaskHandle, TaskStatus};
use longhaul_core::{CancelMode, Principal, Retry, RetryOn, Scope};
use serde_json::json;

/// The client's task, after the gateway has been restarted while the tool ran.
async fn restarted(tool: &str, upstream: &Upstream) -> (tempfile::TempDir, RunningGateway, TaskHandle) {
    let directory = tempfile::tempdir().unwrap();
    let gateway = RunningGateway::start(directory.path(), options(&[("up", upstream)])).await;
    let task = Client::connect(&gateway.url, Tasks::Modern).task(tool, json!({})).await;
    upstream.has_begun(1).await;
    gateway.stop().await;
    let gateway = RunningGateway::start(directory.path(), options(&[("up", upstream)])).await;
    let task = Client::connect(&gateway.url, Tasks::Modern).connection.task(task.id());
    (directory, gateway, task)
}

#[tokio::test]
async fn a_plain_call_of_the_upstream_is_made_again_only_if_it_is_idempotent() {
    let upstream = Upstream::start(Tasks::None).await;
    let (_directory, gateway, task) = restarted("repeat", &upstream).await;
    upstream.has_begun(2).await;
    // One for the call that the restart has cut off, which the upstream does not know to be unwanted.
    upstream.release();
    upstream.release();
    let outcome = end(&task).await;
    success(&outcome);
    gateway.stop().await;

    let upstream = Upstream::start(Tasks::None).await;
    let (_directory, gateway, task) = restarted("hold", &upstream).await;
    let outcome = end(&task).await;
    let failure = failure(&outcome);
    let why = "it is not known whether `hold` has run on upstream `up`";
    assert!(failure.message.contains(why), "{failure:?}");
    assert!(failure.data.as_ref().unwrap().as_str().contains("interrupted"));
    assert_eq!(upstream.begun(), 1);
    gateway.stop().await;
}

/// It was not sent before, so it is sent once, though the tool is not idempotent.
#[tokio::test]
async fn a_call_waits_for_an_upstream_that_is_down() {
    for upstream_tasks in Tasks::ALL {
        let upstream = Upstream::start(upstream_tasks).await;
        let directory = tempfile::tempdir().unwrap();
        let gateway = RunningGateway::start(directory.path(), options(&[("up", &upstream)])).await;
        let client = Client::connect(&gateway.url, Tasks::Modern);
        client.text("echo", json!({})).await;
        let address = upstream.stop().await;
        let task = client.task("hold", json!({})).await;
        let waits = |message: &str| message.starts_with("waiting for upstream `up` for up to ");
        says(&task, "the call to wait", waits).await;
        let upstream = Upstream::start_at(&address, upstream_tasks).await;
        upstream.release();
        let outcome = end(&task).await;
        assert!(success(&outcome).contains("held"), "{outcome:?}");
        assert_eq!(upstream.begun(), 1);
        gateway.stop().await;
    }
}

/// Whoever has a task of the upstream, of either generation, is told that it was the upstream that has cancelled it.
#[tokio::test]
async fn a_task_that_the_upstream_has_cancelled_itself_has_failed() {
    for (upstream_tasks, client_tasks) in [
        (Tasks::Legacy, Tasks::Legacy),
        (Tasks::Legacy, Tasks::Modern),
        (Tasks::Modern, Tasks::Legacy),
        (Tasks::Modern, Tasks::Modern),
    ] {
        let upstream = Upstream::start(upstream_tasks).await;
        let directory = tempfile::tempdir().unwrap();
        let mut upstreams = options(&[("up", &upstream)]);
        // Whatever is retried: the upstream had accepted the call.
        upstreams[0].rules[0].retry = Some(Retry {
            attempts: 3,
            backoff: 10,
            on: vec![RetryOn::Error, RetryOn::Crash],
        });
        let gateway = RunningGateway::start(directory.path(), upstreams).await;
        let client = Client::connect(&gateway.url, client_tasks);
        let task = client.task("hold", json!({})).await;
        upstream.has_begun(1).await;
        // The gateway has the task of the upstream when it reports its status.
        while guarded("a poll", task.get()).await.unwrap().message.is_none() {
            tokio::task::yield_now().await;
        }
        let engine = upstream.server.engine().unwrap();
        let scope = Scope::of(Principal::local());
        let running = engine.list(&scope, None, 2).await.unwrap().tasks;
        assert_eq!(running.len(), 1, "{running:?}");
        engine.cancel(&scope, &running[0].id, CancelMode::AtOnce).await.unwrap();
        let ended = end(&task).await;
        let Outcome::Result { json, is_error: true } = &ended else {
            panic!("{ended:?}")
        };
        let why = "upstream `up`: the upstream has cancelled its task";
        assert!(json.as_str().contains(why), "{json:?}");
        let status = match client_tasks {
            Tasks::Legacy => TaskStatus::Failed,
            _ => TaskStatus::Completed,
        };
        assert_eq!(task.get().await.unwrap().status, status);
        assert_eq!(upstream.begun(), 1);
        gateway.stop().await;
    }
}

/// It waited for its upstream when the gateway was stopped, so nobody is in doubt whether it has run.
#[tokio::test]
async fn a_call_that_was_not_sent_before_a_restart_is_sent_after_it() {
    for upstream_tasks in Tasks::ALL {
        let upstream = Upstream::start(upstream_tasks).await;
        let directory = tempfile::tempdir().unwrap();
        let upstreams = options(&[("up", &upstream)]);
        let gateway = RunningGateway::start(directory.path(), upstreams.clone()).await;
        let client = Client::connect(&gateway.url, Tasks::Modern);
        // Its tools are known, and nothing was sent on the connection of the client yet.
        let address = upstream.stop().await;
        let task = client.task("hold", json!({})).await;
        let id = task.id().to_owned();
        says(&task, "the status", |message| {
            message.starts_with("waiting for upstream")
        })
        .await;
        gateway.stop().await;

        let upstream = Upstream::start_at(&address, upstream_tasks).await;
        let gateway = RunningGateway::start(directory.path(), upstreams).await;
        upstream.has_begun(1).await;
        upstream.release();
        let task = Client::connect(&gateway.url, Tasks::Modern).connection.task(id);
        let outcome = end(&task).await;
        success(&outcome);
        assert_eq!(upstream.begun(), 1);
        gateway.stop().await;
    }
}

/// A call that may not run yet says so, and only as long as that is so.
#[tokio::test]
async fn a_call_says_that_it_waits_for_others_of_its_upstream() {
    let upstream = Upstream::start(Tasks::None).await;
    let directory = tempfile::tempdir().unwrap();
    let mut upstreams = options(&[("up", &upstream)]);
    upstreams[0].concurrency = Some(1);
    let gateway = RunningGateway::start(directory.path(), upstreams).await;
    let client = Client::connect(&gateway.url, Tasks::Modern);
    let mut tasks = Vec::new();
    for _ in 0..2 {
        let task = client.task("hold", json!({})).await;
        upstream.has_begun(1).await;
        tasks.push(task);
    }
    let waits = "waits: 1 of at most 1 calls of upstream `up` run";
    says(&tasks[1], "the status", |message| message == waits).await;
    assert_eq!(gateway.waiting().await, (1, Some(1)));
    upstream.release();
    upstream.has_begun(2).await;
    says(&tasks[1], "another status", |message| message == "half").await;
    assert_eq!(gateway.waiting().await, (0, Some(1)));
    upstream.release();
    for task in &tasks {
        end(task).await;
    }
    gateway.stop().await;
}
