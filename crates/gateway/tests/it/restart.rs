//! Restarts of the gateway and of the upstream in the middle of a call.

use crate::{
    client::{Called, Client},
    upstream::{Tasks, Upstream},
    world::{RunningGateway, guarded, options},
};
use longhaul_client::{Outcome, TaskStatus};
use longhaul_core::{CancelMode, Principal, Retry, RetryOn, Scope};
use serde_json::json;

/// The client's id of the task, after the gateway has been restarted while the tool ran.
async fn restarted(
    tool: &str,
    upstream: &Upstream,
    client_tasks: Tasks,
) -> (tempfile::TempDir, RunningGateway, Client, String) {
    let directory = tempfile::tempdir().unwrap();
    let gateway = RunningGateway::start(directory.path(), options(&[("up", upstream)])).await;
    let client = Client::connect(&gateway.url, client_tasks);
    let Called::Task(task) = client.start(tool, json!({})).await.unwrap() else {
        panic!("no task")
    };
    let id = task.id().to_owned();
    upstream.has_begun(1).await;
    if upstream.tasks != Tasks::None {
        // The gateway has the task of the upstream when it reports its status.
        while task.get().await.unwrap().message.is_none() {
            tokio::task::yield_now().await;
        }
    }
    gateway.stop().await;
    let gateway = RunningGateway::start(directory.path(), options(&[("up", upstream)])).await;
    let client = Client::connect(&gateway.url, client_tasks);
    (directory, gateway, client, id)
}

#[tokio::test]
async fn a_task_of_the_upstream_is_followed_again_and_its_tool_runs_once() {
    for upstream_tasks in [Tasks::Legacy, Tasks::Modern] {
        for client_tasks in [Tasks::Legacy, Tasks::Modern] {
            let upstream = Upstream::start(upstream_tasks).await;
            let (_directory, gateway, client, id) = restarted("hold", &upstream, client_tasks).await;
            let task = client.connection.task(id);
            assert_eq!(task.get().await.unwrap().status, TaskStatus::Working);
            upstream.release();
            let outcome = guarded("the end", task.wait(&mut |_| {})).await.unwrap();
            let Outcome::Result { json, .. } = outcome else {
                panic!("{outcome:?}")
            };
            assert!(json.as_str().contains("held"), "{json:?}");
            assert_eq!(upstream.begun(), 1);
            gateway.stop().await;
        }
    }
}

#[tokio::test]
async fn a_plain_call_of_the_upstream_is_made_again_only_if_it_is_idempotent() {
    let upstream = Upstream::start(Tasks::None).await;
    let (_directory, gateway, client, id) = restarted("repeat", &upstream, Tasks::Modern).await;
    upstream.has_begun(2).await;
    // One for the call that the restart has cut off, which the upstream does not know to be unwanted.
    upstream.release();
    upstream.release();
    let outcome = guarded("the end", client.connection.task(id).wait(&mut |_| {}))
        .await
        .unwrap();
    assert!(
        matches!(outcome, Outcome::Result { is_error: false, .. }),
        "{outcome:?}"
    );
    gateway.stop().await;

    let upstream = Upstream::start(Tasks::None).await;
    let (_directory, gateway, client, id) = restarted("hold", &upstream, Tasks::Modern).await;
    let outcome = guarded("the end", client.connection.task(id).wait(&mut |_| {}))
        .await
        .unwrap();
    let Outcome::RpcError(failure) = outcome else {
        panic!("{outcome:?}")
    };
    assert!(
        failure
            .message
            .contains("it is not known whether `hold` has run on upstream `up`"),
        "{failure:?}"
    );
    assert!(failure.data.unwrap().as_str().contains("interrupted"));
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
        let Called::Task(task) = client.start("hold", json!({})).await.unwrap() else {
            panic!("no task")
        };
        let waits = async {
            loop {
                let message = task.get().await.unwrap().message.unwrap_or_default();
                if message.starts_with("waiting for upstream `up` for up to ") {
                    return;
                }
                tokio::task::yield_now().await;
            }
        };
        guarded("the call to wait", waits).await;
        let upstream = Upstream::start_at(&address, upstream_tasks).await;
        upstream.release();
        let outcome = guarded("the end", task.wait(&mut |_| {})).await.unwrap();
        let Outcome::Result { json, is_error: false } = outcome else {
            panic!("{outcome:?}")
        };
        assert!(json.as_str().contains("held"), "{json:?}");
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
        let Called::Task(task) = client.start("hold", json!({})).await.unwrap() else {
            panic!("no task")
        };
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
        let ended = guarded("the end", task.wait(&mut |_| {})).await.unwrap();
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
        let Called::Task(task) = client.start("hold", json!({})).await.unwrap() else {
            panic!("no task")
        };
        let id = task.id().to_owned();
        let waits = async {
            while !(task.get().await.unwrap().message)
                .is_some_and(|message| message.starts_with("waiting for upstream"))
            {
                tokio::task::yield_now().await;
            }
        };
        guarded("the status", waits).await;
        gateway.stop().await;

        let upstream = Upstream::start_at(&address, upstream_tasks).await;
        let gateway = RunningGateway::start(directory.path(), upstreams).await;
        upstream.has_begun(1).await;
        upstream.release();
        let task = Client::connect(&gateway.url, Tasks::Modern).connection.task(id);
        let outcome = guarded("the end", task.wait(&mut |_| {})).await.unwrap();
        assert!(
            matches!(outcome, Outcome::Result { is_error: false, .. }),
            "{upstream_tasks:?}: {outcome:?}"
        );
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
        let Called::Task(task) = client.start("hold", json!({})).await.unwrap() else {
            panic!("no task")
        };
        upstream.has_begun(1).await;
        tasks.push(task);
    }
    let told = async |text: &str| {
        while tasks[1].get().await.unwrap().message.as_deref() != Some(text) {
            tokio::task::yield_now().await;
        }
    };
    let waits = told("waits: 1 of at most 1 calls of upstream `up` run");
    guarded("the status", waits).await;
    assert_eq!(gateway.waiting().await, (1, Some(1)));
    upstream.release();
    upstream.has_begun(2).await;
    guarded("another status", told("half")).await;
    assert_eq!(gateway.waiting().await, (0, Some(1)));
    upstream.release();
    for task in &tasks {
        guarded("the end", task.wait(&mut |_| {})).await.unwrap();
    }
    gateway.stop().await;
}
