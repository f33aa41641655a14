//! Restarts of the gateway while the task of an upstream of 2025-11-25 asks something on a stream.

use crate::{
    asks_once::{AsksOnce, Seen},
    client::{end, failure, success},
    upstream::Tasks,
    world::{RunningGateway, guarded, until, with_every_call_a_task},
};
use longhaul_client::{
    CallResponse, Connection, Event, InputResponse, Inputs, Options, TaskHandle, TaskSnapshot, TaskStatus,
};
use serde_json::{Map, json};

/// A client of the gateway, whose user answers when the test says so.
fn client(gateway: &RunningGateway) -> Connection {
    let mut options = Options::named("client", "1.0.0");
    options.era = Tasks::Modern.era();
    options.inputs = Some(Inputs::deferred().into());
    Connection::lazy(&gateway.url, options).unwrap()
}

async fn gateway(directory: &tempfile::TempDir, upstream: &AsksOnce) -> RunningGateway {
    RunningGateway::start(directory.path(), vec![with_every_call_a_task(upstream.options())]).await
}

/// Waits until the task is in a state.
async fn reaches(what: &str, task: &TaskHandle, is_met: impl Fn(&TaskSnapshot) -> bool) -> TaskSnapshot {
    let reached = async {
        loop {
            let snapshot = task.get().await.unwrap();
            if is_met(&snapshot) {
                return snapshot;
            }
            tokio::task::yield_now().await;
        }
    };
    guarded(what, reached).await
}

/// The gateway, and the client's task with what it is asked.
async fn asked(directory: &tempfile::TempDir, upstream: &AsksOnce) -> (RunningGateway, TaskHandle, String) {
    let gateway = gateway(directory, upstream).await;
    let client = client(&gateway);
    let tool = client.tool("ask").await.unwrap().expect("the tool");
    let (arguments, mut on_event) = (Map::new(), |_: Event<'_>| {});
    let call = client.call_tool(&tool, &arguments, &mut on_event);
    let CallResponse::Task(task) = guarded("the call", call).await.unwrap() else {
        panic!("no task")
    };
    let asks = reaches("the question", &task, |task| !task.input_requests.is_empty()).await;
    let key = asks.input_requests[0].key.clone().unwrap();
    (gateway, task, key)
}

async fn answer(task: &TaskHandle, key: &str) {
    let response = InputResponse::accept(json!({"which": "this"}));
    guarded("the answer", task.answer(key, response)).await.unwrap();
}

/// What the client has after the restart.
async fn again(
    directory: &tempfile::TempDir,
    upstream: &AsksOnce,
    gateway: RunningGateway,
    task: &TaskHandle,
) -> (RunningGateway, TaskHandle) {
    gateway.stop().await;
    let gateway = self::gateway(directory, upstream).await;
    let task = client(&gateway).task(task.id());
    (gateway, task)
}

async fn completes(task: &TaskHandle, upstream: &AsksOnce, id: usize) {
    let outcome = end(task).await;
    assert!(success(&outcome).contains("this"), "{outcome:?}");
    upstream.seen(|seen| assert_eq!(seen.answers, [(json!(id), json!("this"))]));
}

#[tokio::test]
async fn an_answer_after_the_restart_reaches_an_upstream_that_asks_once() {
    let upstream = AsksOnce::start(Seen::default()).await;
    let directory = tempfile::tempdir().unwrap();
    let (gateway, task, key) = asked(&directory, &upstream).await;
    let (gateway, task) = again(&directory, &upstream, gateway, &task).await;
    let asks = reaches("the question", &task, |task| !task.input_requests.is_empty()).await;
    assert_eq!(asks.input_requests.len(), 1, "{asks:?}");
    assert_eq!(asks.input_requests[0].key.as_ref(), Some(&key));
    answer(&task, &key).await;
    completes(&task, &upstream, 1).await;
    gateway.stop().await;
}

/// A second restart finds it, too.
#[tokio::test]
async fn an_answer_before_the_restart_reaches_an_upstream_that_asks_once() {
    let upstream = AsksOnce::start(Seen {
        is_busy: true,
        ..Seen::default()
    })
    .await;
    let directory = tempfile::tempdir().unwrap();
    let (gateway, task, key) = asked(&directory, &upstream).await;
    let (gateway, task) = again(&directory, &upstream, gateway, &task).await;
    answer(&task, &key).await;
    until("the answer", || upstream.seen(|seen| seen.refused > 0)).await;
    let (gateway, task) = again(&directory, &upstream, gateway, &task).await;
    upstream.seen(|seen| seen.is_busy = false);
    completes(&task, &upstream, 1).await;
    gateway.stop().await;
}

#[tokio::test]
async fn an_upstream_that_asks_again_gets_the_answer_to_its_last_request_only() {
    let upstream = AsksOnce::start(Seen {
        repeats: true,
        ..Seen::default()
    })
    .await;
    let directory = tempfile::tempdir().unwrap();
    let (gateway, task, key) = asked(&directory, &upstream).await;
    let (gateway, task) = again(&directory, &upstream, gateway, &task).await;
    until("the question again", || upstream.seen(|seen| seen.asked > 1)).await;
    answer(&task, &key).await;
    completes(&task, &upstream, 2).await;
    gateway.stop().await;
}

#[tokio::test]
async fn an_answer_that_has_lost_its_session_is_told() {
    let upstream = AsksOnce::start(Seen::default()).await;
    let directory = tempfile::tempdir().unwrap();
    let (gateway, task, _) = asked(&directory, &upstream).await;
    gateway.stop().await;
    upstream.seen(Seen::end_session);
    let gateway = self::gateway(&directory, &upstream).await;
    let task = client(&gateway).task(task.id());
    let outcome = end(&task).await;
    let failure = failure(&outcome);
    assert!(failure.message.contains("it did not get the answer"), "{failure:?}");
    gateway.stop().await;

    let upstream = AsksOnce::start(Seen {
        keeps_task: true,
        ..Seen::default()
    })
    .await;
    let directory = tempfile::tempdir().unwrap();
    let (gateway, task, _) = asked(&directory, &upstream).await;
    gateway.stop().await;
    upstream.seen(Seen::end_session);
    let gateway = self::gateway(&directory, &upstream).await;
    let task = client(&gateway).task(task.id());
    let says = |task: &TaskSnapshot| {
        let message = task.message.as_deref().unwrap_or_default();
        message.contains("has ended the session in which it asked")
    };
    let told = reaches("the status", &task, says).await;
    assert_eq!(told.status, TaskStatus::InputRequired);
    gateway.stop().await;
}
