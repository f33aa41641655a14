//! Many tasks that are waited for at once share few subscriptions.
#![expect(clippy::disallowed_methods, reason = "real sockets are not simulated")]

use crate::{
    peer::{modern, plain},
    task::modern_task,
};
use axum::{body::Body, http::Response};
use futures_util::{
    StreamExt,
    future::{join, join_all},
};
use longhaul_client::{Outcome, SystemClock};
use serde_json::{Value, json};
use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

const TASKS: usize = 1_500;

/// The task changes after it was first read and before its changes are pushed. The next poll would come in an hour.
#[tokio::test]
async fn a_change_before_the_stream_was_open_is_seen() {
    let has_ended = AtomicBool::new(false);
    let peer = modern(move |seen| match seen.method() {
        "tasks/get" => {
            let status = match has_ended.load(Ordering::SeqCst) {
                true => "cancelled",
                false => "working",
            };
            seen.result(modern_task(status, json!({"pollIntervalMs": 3_600_000})))
        }
        "subscriptions/listen" => {
            has_ended.store(true, Ordering::SeqCst);
            let acknowledged = json!({
                "jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
                "params": {"notifications": {"taskIds": ["t-1"]}},
            });
            let events =
                futures_util::stream::once(async move { Ok::<_, std::io::Error>(format!("data: {acknowledged}\n\n")) });
            Response::builder()
                .header("content-type", "text/event-stream")
                .body(Body::from_stream(events.chain(futures_util::stream::pending())))
                .unwrap()
        }
        _ => plain(404, ""),
    });
    let (connection, _) = peer.connection_with(|options| options.clock = Arc::new(SystemClock));
    let task = connection.task("t-1");
    let waited = tokio::time::timeout(Duration::from_secs(60), task.wait(&mut |_| {})).await;
    assert_eq!(waited.expect("bounded time").unwrap(), Outcome::Cancelled);
}

type Streams = Arc<Mutex<HashMap<String, UnboundedSender<Value>>>>;

fn task(id: &str, status: &str) -> Value {
    modern_task(status, json!({"taskId": id, "pollIntervalMs": 20}))
}

#[tokio::test]
async fn many_tasks_share_few_streams() {
    let (streams, ended) = (Streams::default(), Arc::new(Mutex::new(HashSet::<String>::new())));
    let polls = Arc::new(AtomicUsize::new(0));
    let (subscribers, over, polled) = (Arc::clone(&streams), Arc::clone(&ended), Arc::clone(&polls));
    let peer = modern(move |seen| match seen.method() {
        "tasks/get" => {
            polled.fetch_add(1, Ordering::Relaxed);
            let id = seen.params()["taskId"].as_str().unwrap();
            let status = if over.lock().unwrap().contains(id) {
                "cancelled"
            } else {
                "working"
            };
            seen.result(task(id, status))
        }
        "subscriptions/listen" => {
            let (sender, mut receiver) = unbounded_channel::<Value>();
            let ids = &seen.params()["notifications"]["taskIds"];
            let acknowledged = json!({
                "jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
                "params": {"notifications": {"taskIds": ids}},
            });
            sender.send(acknowledged).unwrap();
            for id in ids.as_array().unwrap() {
                let before = subscribers
                    .lock()
                    .unwrap()
                    .insert(id.as_str().unwrap().to_owned(), sender.clone());
                // A larger stream may take the place of small ones.
                drop(before);
            }
            let events = futures_util::stream::poll_fn(move |context| receiver.poll_recv(context));
            let events = events.map(|message| Ok::<_, std::io::Error>(format!("data: {message}\n\n")));
            Response::builder()
                .header("content-type", "text/event-stream")
                .body(Body::from_stream(events))
                .unwrap()
        }
        _ => plain(404, ""),
    });
    let (connection, _) = peer.connection_with(|options| options.clock = Arc::new(SystemClock));
    let tasks = (0..TASKS).map(|number| connection.task(format!("t-{number}")));
    let waiting = join_all(tasks.map(|task| async move { task.wait(&mut |_| {}).await.unwrap() }));
    let pushing = async {
        while streams.lock().unwrap().len() < TASKS {
            tokio::task::yield_now().await;
        }
        // The end of each task is pushed on its latest stream.
        let subscribed: Vec<_> = streams.lock().unwrap().drain().collect();
        for (id, stream) in subscribed {
            ended.lock().unwrap().insert(id.clone());
            let pushed = json!({"jsonrpc": "2.0", "method": "notifications/tasks", "params": task(&id, "cancelled")});
            stream.send(pushed).unwrap();
        }
    };
    let (outcomes, ()) = join(waiting, pushing).await;
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::Cancelled)));
    let opened = peer.calls_of("subscriptions/listen").len();
    assert!((2..=40).contains(&opened), "{opened} subscriptions");
    let polls = polls.load(Ordering::Relaxed);
    assert!(polls < 20 * TASKS, "{polls} polls of {TASKS} tasks");
}
