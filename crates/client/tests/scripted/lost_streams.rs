//! What is told of streams that are lost and opened again.
#![expect(clippy::disallowed_methods, reason = "real sockets are not simulated")]

use crate::{
    peer::{Peer, event_stream, legacy, modern, plain},
    task::{legacy_task, modern_task},
};
use axum::{body::Body, http::Response};
use longhaul_client::{CallResponse, Event, InputResponse, Inputs, Outcome, TaskHandle};
use serde_json::{Map, Value, json};
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug, PartialEq)]
enum Told {
    Lost(String),
    Reopened,
}

fn told(to: &UnboundedSender<Told>, event: &Event<'_>) {
    let told = match event {
        Event::StreamLost { reason } => Told::Lost((*reason).to_owned()),
        Event::StreamReopened => Told::Reopened,
        _ => return,
    };
    to.send(told).unwrap();
}

async fn next(heard: &mut UnboundedReceiver<Told>) -> Told {
    let next = tokio::time::timeout(PATIENCE, heard.recv()).await;
    next.expect("bounded time").unwrap()
}

/// Waits for the task, kills the server once it has `opened` its stream, and starts it again. What is told comes once, however often the stream was tried.
async fn lost_once(mut peer: Peer, task: TaskHandle, opened: Arc<AtomicUsize>, has_ended: Arc<AtomicBool>) {
    let (to, mut heard) = unbounded_channel();
    let waiting = tokio::spawn(async move { task.wait(&mut |event| told(&to, &event)).await });
    while opened.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    peer.kill();
    let lost = next(&mut heard).await;
    assert!(matches!(&lost, Told::Lost(reason) if !reason.is_empty()), "{lost:?}");
    peer.restart();
    assert_eq!(next(&mut heard).await, Told::Reopened);
    has_ended.store(true, Ordering::SeqCst);
    let waited = tokio::time::timeout(PATIENCE, waiting).await.expect("bounded time");
    assert_eq!(waited.unwrap().unwrap(), Outcome::Cancelled);
    assert_eq!(heard.recv().await, None);
}

fn status(has_ended: &AtomicBool) -> &'static str {
    match has_ended.load(Ordering::SeqCst) {
        true => "cancelled",
        false => "working",
    }
}

#[tokio::test]
async fn a_subscription_that_is_lost_is_told_and_that_it_is_open_again() {
    let (opened, has_ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let (opens, ended, streams) = (Arc::clone(&opened), Arc::clone(&has_ended), Mutex::new(Vec::new()));
    let peer = modern(move |seen| match seen.method() {
        "tasks/get" => seen.result(modern_task(status(&ended), json!({}))),
        "subscriptions/listen" => {
            let (stream, events) = unbounded_channel();
            let accepted = json!({
                "jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
                "params": {"notifications": {"taskIds": ["t-1"]}},
            });
            stream.send(format!("data: {accepted}\n\n")).unwrap();
            streams.lock().unwrap().push(stream);
            opens.fetch_add(1, Ordering::SeqCst);
            event_stream(events)
        }
        _ => plain(404, ""),
    });
    let (connection, _) = peer.connection();
    lost_once(peer, connection.task("t-1"), opened, has_ended).await;
}

#[tokio::test]
async fn a_push_stream_that_is_lost_is_told_and_that_it_is_open_again() {
    let (opened, has_ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let (opens, ended, streams) = (Arc::clone(&opened), Arc::clone(&has_ended), Mutex::new(Vec::new()));
    let tasks = json!({"requests": {"tools": {"call": {}}}});
    let peer = legacy(tasks, move |seen| match seen.method() {
        "tools/call" => seen.result(json!({"task": legacy_task("working", json!({}))})),
        "tasks/get" => seen.result(legacy_task(status(&ended), json!({}))),
        "" if seen.verb == "GET" => {
            let (stream, events) = unbounded_channel();
            streams.lock().unwrap().push(stream);
            opens.fetch_add(1, Ordering::SeqCst);
            event_stream(events)
        }
        "tasks/result" => seen.error(200, -32603, Value::Null),
        _ => plain(202, ""),
    });
    let inputs = Inputs::new().elicit(|_| async { Ok(InputResponse::decline()) });
    let (connection, _) = peer.connection_with(|options| options.inputs = Some(inputs.into()));
    let tools = connection.list_tools().await.unwrap();
    let tool = tools.iter().find(|tool| tool.name == "optional").unwrap();
    let called = connection.call_tool(tool, &Map::new(), &mut |_| {}).await.unwrap();
    let CallResponse::Task(task) = called else {
        panic!("{called:?}")
    };
    lost_once(peer, task, opened, has_ended).await;
}

/// A plain call of a legacy server, whose stream breaks off behind an event with an id, or ends there, as a server may that wants to be polled.
#[tokio::test]
async fn the_stream_of_a_call_is_told_if_it_breaks_and_not_if_it_ends() {
    for breaks in [true, false] {
        let (id, stream) = (Arc::new(Mutex::new(Value::Null)), Arc::new(Mutex::new(None)));
        let (known, open) = (Arc::clone(&id), Arc::clone(&stream));
        let peer = legacy(Value::Null, move |seen| match seen.method() {
            "tools/call" => {
                *known.lock().unwrap() = seen.body["id"].clone();
                let progress = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {
                    "progressToken": seen.params()["_meta"]["progressToken"], "progress": 1,
                }});
                let (sender, mut events) = unbounded_channel();
                sender.send(Ok(format!("id: 1\ndata: {progress}\n\n"))).unwrap();
                *open.lock().unwrap() = Some(sender);
                let events = futures_util::stream::poll_fn(move |context| events.poll_recv(context));
                Response::builder()
                    .header("content-type", "text/event-stream")
                    .body(Body::from_stream(events))
                    .unwrap()
            }
            _ if seen.header("last-event-id").is_some() => {
                let id = known.lock().unwrap().clone();
                let response = json!({"jsonrpc": "2.0", "id": id, "result": {"content": []}});
                Response::builder()
                    .header("content-type", "text/event-stream")
                    .body(Body::from(format!("id: 2\ndata: {response}\n\n")))
                    .unwrap()
            }
            _ => plain(405, ""),
        });
        let (connection, _) = peer.connection();
        let tools = connection.list_tools().await.unwrap();
        let (to, mut heard) = unbounded_channel();
        let mut observe = |event: Event<'_>| {
            if let (Event::Progress(_), Some(stream)) = (&event, stream.lock().unwrap().take())
                && breaks
            {
                stream.send(Err(std::io::Error::other("broken"))).unwrap();
            }
            told(&to, &event);
        };
        let called = connection.call_tool(&tools[0], &Map::new(), &mut observe).await;
        assert!(matches!(called.unwrap(), CallResponse::Done(_)));
        drop(to);
        let mut all = Vec::new();
        while let Some(told) = heard.recv().await {
            all.push(told);
        }
        match breaks {
            true => assert!(matches!(&all[..], [Told::Lost(_), Told::Reopened]), "{all:?}"),
            false => assert_eq!(all, []),
        }
    }
}
