//! Pushes between the creation of a task and its first poll.
#![expect(clippy::disallowed_methods, reason = "real sockets are not simulated")]

use crate::{
    peer::{Peer, event_stream, legacy, modern, plain},
    pipe::Server,
    task::{created, legacy_task, modern_task},
};
use longhaul_client::{CallResponse, Connection, Options, Outcome};
use longhaul_core::{BoxFuture, Clock, UnixMillis};
use serde_json::{Map, Value, json};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::sync::mpsc::unbounded_channel;

const PATIENCE: Duration = Duration::from_secs(60);
/// What the specification's examples ask for.
const INTERVAL: u64 = 5_000;

/// The time of a poll never comes.
struct NoPolls;

impl Clock for NoPolls {
    fn now(&self) -> UnixMillis {
        UnixMillis(0)
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        match duration >= Duration::from_millis(INTERVAL) {
            true => Box::pin(std::future::pending()),
            false => Box::pin(tokio::task::yield_now()),
        }
    }
}

async fn outcome(connection: &Connection, tool: &str) -> Outcome {
    let calling = async {
        let tool = connection.tool(tool).await.unwrap().unwrap();
        match connection.call_tool(&tool, &Map::new(), &mut |_| {}).await.unwrap() {
            CallResponse::Task(task) => task.wait(&mut |_| {}).await.unwrap(),
            CallResponse::Done(outcome) => panic!("{outcome:?}"),
        }
    };
    tokio::time::timeout(PATIENCE, calling)
        .await
        .expect("without waiting for a poll")
}

fn with_interval(mut task: Value) -> Value {
    for member in ["pollInterval", "pollIntervalMs"] {
        if task.get(member).is_some() {
            task[member] = INTERVAL.into();
        }
    }
    task
}

fn subscribing(ends_before: bool) -> Peer {
    let has_ended = Arc::new(AtomicBool::new(false));
    modern(move |seen| match seen.method() {
        "tools/call" => {
            has_ended.store(ends_before, Ordering::SeqCst);
            seen.result(with_interval(created()))
        }
        "tasks/get" => {
            let ended = json!({"result": {"content": [{"type": "text", "text": "ok"}]}});
            let task = match has_ended.load(Ordering::SeqCst) {
                true => modern_task("completed", ended),
                false => modern_task("working", json!({})),
            };
            seen.result(with_interval(task))
        }
        "subscriptions/listen" => {
            let (sender, receiver) = unbounded_channel();
            let acknowledged = json!({
                "jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
                "params": {"notifications": seen.params()["notifications"]},
            });
            sender.send(format!("data: {acknowledged}\n\n")).unwrap();
            if !ends_before {
                has_ended.store(true, Ordering::SeqCst);
                let params = modern_task("completed", json!({"result": {"content": []}}));
                let pushed = json!({"jsonrpc": "2.0", "method": "notifications/tasks", "params": params});
                sender.send(format!("data: {pushed}\n\n")).unwrap();
            }
            std::mem::forget(sender);
            event_stream(receiver)
        }
        _ => plain(404, ""),
    })
}

/// Whether it ends before the subscription, which is not told then, or behind it.
#[tokio::test]
async fn a_modern_task_that_ends_before_its_first_poll_is_noticed_by_its_subscription() {
    for ends_before in [true, false] {
        let peer = subscribing(ends_before);
        let (connection, _) = peer.connection_with(|options| options.clock = Arc::new(NoPolls));
        assert!(matches!(outcome(&connection, "optional").await, Outcome::Result { .. }));
        assert!(peer.calls_of("tasks/get").len() <= 3);
    }
}

#[tokio::test]
async fn a_legacy_task_that_ends_before_its_first_poll_is_noticed_by_its_status() {
    let tasks = json!({"requests": {"tools": {"call": {}}}});
    let has_ended = Arc::new(AtomicBool::new(false));
    let peer = legacy(tasks, move |seen| match (seen.verb.as_str(), seen.method()) {
        ("GET", _) => {
            let (sender, receiver) = unbounded_channel();
            has_ended.store(true, Ordering::SeqCst);
            let params = legacy_task("completed", json!({}));
            let pushed = json!({"jsonrpc": "2.0", "method": "notifications/tasks/status", "params": params});
            sender.send(format!("data: {pushed}\n\n")).unwrap();
            std::mem::forget(sender);
            event_stream(receiver)
        }
        (_, "tools/call") => seen.result(json!({"task": with_interval(legacy_task("working", json!({})))})),
        (_, "tasks/get") => {
            let status = match has_ended.load(Ordering::SeqCst) {
                true => "completed",
                false => "working",
            };
            seen.result(with_interval(legacy_task(status, json!({}))))
        }
        (_, "tasks/result") => seen.result(json!({"content": []})),
        _ => plain(202, ""),
    });
    let (connection, _) = peer.connection_with(|options| options.clock = Arc::new(NoPolls));
    assert!(matches!(outcome(&connection, "optional").await, Outcome::Result { .. }));
}

/// A status on the heels of the answer, or before it.
#[tokio::test]
async fn the_status_of_a_task_on_a_pipe_is_used_whenever_it_comes() {
    for is_before in [false, true] {
        let mut options = Options::named("test", "0");
        options.clock = Arc::new(NoPolls);
        let (connection, mut server) = Server::connected_with(options, 1 << 20);
        let script = async {
            loop {
                let request = server.next().await;
                let pushed = json!({
                    "jsonrpc": "2.0", "method": "notifications/tasks/status", "params": legacy_task("completed", json!({})),
                });
                let result = match request["method"].as_str().unwrap() {
                    "server/discover" => {
                        let error = json!({"code": -32601, "message": "no"});
                        server
                            .send(&json!({"jsonrpc": "2.0", "id": request["id"], "error": error}))
                            .await;
                        continue;
                    }
                    "initialize" => json!({
                        "protocolVersion": "2025-11-25", "serverInfo": {"name": "x", "version": "1"},
                        "capabilities": {"tools": {}, "tasks": {"requests": {"tools": {"call": {}}}}},
                    }),
                    "tools/list" => json!({"tools": [
                        {"name": "work", "inputSchema": {"type": "object"}, "execution": {"taskSupport": "optional"}},
                    ]}),
                    "tools/call" => {
                        if is_before {
                            server.send(&pushed).await;
                        }
                        let task = with_interval(legacy_task("working", json!({})));
                        server.answer(&request, json!({"task": task})).await;
                        if !is_before {
                            server.send(&pushed).await;
                        }
                        continue;
                    }
                    "tasks/get" => with_interval(legacy_task("completed", json!({}))),
                    "tasks/result" => json!({"content": []}),
                    _ => continue,
                };
                server.answer(&request, result).await;
            }
        };
        tokio::select! {
            outcome = outcome(&connection, "work") => assert!(matches!(outcome, Outcome::Result { .. })),
            () = script => {}
        }
    }
}
