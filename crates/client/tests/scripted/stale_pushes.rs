//! Pushes that are late or wrong.

use crate::{
    peer::{Peer, event_stream, modern, plain},
    task::modern_task,
};
use longhaul_client::{Event, InputResponse, Inputs, SystemClock};
use longhaul_core::Clock;
use serde_json::{Value, json};
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::sync::{
    Notify,
    mpsc::{UnboundedSender, unbounded_channel},
};

type Stream = Arc<Mutex<Option<UnboundedSender<String>>>>;

/// A server whose task is this when it is read, and the stream on which it pushes.
fn pushing(get: impl Fn() -> Value + Send + Sync + 'static) -> (Peer, Stream) {
    let stream = Stream::default();
    let opened = Arc::clone(&stream);
    let peer = modern(move |seen| match seen.method() {
        "tasks/get" => seen.result(get()),
        "tasks/update" => seen.result(json!({"resultType": "complete"})),
        "subscriptions/listen" => {
            let (sender, receiver) = unbounded_channel();
            let acknowledged = json!({
                "jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
                "params": {"notifications": seen.params()["notifications"]},
            });
            sender.send(format!("data: {acknowledged}\n\n")).unwrap();
            *opened.lock().unwrap() = Some(sender);
            event_stream(receiver)
        }
        _ => plain(404, ""),
    });
    (peer, stream)
}

fn push(stream: &Stream, status: &str, more: Value) {
    let pushed = json!({"jsonrpc": "2.0", "method": "notifications/tasks", "params": modern_task(status, more)});
    let sent = stream
        .lock()
        .unwrap()
        .as_ref()
        .unwrap()
        .send(format!("data: {pushed}\n\n"));
    sent.unwrap();
}

/// Waits until the stream is open, and polls are rare because of it.
async fn subscribed(stream: &Stream, peer: &Peer) {
    while stream.lock().unwrap().is_none() {
        tokio::task::yield_now().await;
    }
    let mut polls = peer.calls_of("tasks/get").len();
    loop {
        SystemClock.sleep(Duration::from_millis(300)).await;
        match peer.calls_of("tasks/get").len() {
            now if now == polls => return,
            now => polls = now,
        }
    }
}

fn asking(message: &str) -> Value {
    let question = json!({"method": "elicitation/create", "params": {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}});
    json!({"inputRequests": {"k": question}, "statusMessage": message, "lastUpdatedAt": "2026-11-20T09:00:05Z"})
}

/// What the user fills in is not lost because a push is late: only a poll withdraws a question.
#[tokio::test]
async fn a_late_push_withdraws_no_question() {
    let (peer, stream) = pushing(|| modern_task("input_required", asking("")));
    let (asked, withdrawn) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    struct OnDrop(Arc<AtomicBool>);
    impl Drop for OnDrop {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let (counted, dropped) = (Arc::clone(&asked), Arc::clone(&withdrawn));
    let inputs = Inputs::new().elicit(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        let open = OnDrop(Arc::clone(&dropped));
        async move {
            let _open = open;
            std::future::pending::<()>().await;
            Ok(InputResponse::decline())
        }
    });
    let (connection, _) = peer.connection_with(|options| {
        options.clock = Arc::new(SystemClock);
        options.inputs = Some(inputs.into());
    });
    let task = connection.task("t-1");
    let (seen, changed) = (Mutex::new(String::new()), Notify::new());
    let mut observe = |event: Event<'_>| {
        if let Event::Status(task) = event {
            *seen.lock().unwrap() = task.message.clone().unwrap_or_default();
            changed.notify_one();
        }
    };
    let pushes = async {
        subscribed(&stream, &peer).await;
        for round in 0..20 {
            // One from before the question, and one that does not know it yet.
            push(&stream, "working", json!({}));
            push(&stream, "working", json!({"lastUpdatedAt": "2026-11-20T09:00:05Z"}));
            let message = format!("round {round}");
            push(&stream, "input_required", asking(&message));
            while *seen.lock().unwrap() != message {
                changed.notified().await;
            }
        }
    };
    tokio::select! {
        ended = task.wait(&mut observe) => panic!("{ended:?}"),
        () = pushes => {}
    }
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    assert!(withdrawn.load(Ordering::SeqCst), "with the wait");
}

/// A server that pushes an end that it does not know when it is asked is not asked each time.
#[tokio::test]
async fn wrong_pushes_cause_no_polls_without_end() {
    let polls = AtomicUsize::new(0);
    let (peer, stream) = pushing(move || {
        // The first polls are fast, so that there is a subscription soon.
        let interval = if polls.fetch_add(1, Ordering::SeqCst) < 3 {
            20
        } else {
            60_000
        };
        modern_task("working", json!({"pollIntervalMs": interval}))
    });
    let (connection, _) = peer.connection_with(|options| options.clock = Arc::new(SystemClock));
    let task = connection.task("t-1");
    let mut ignore = |_: Event<'_>| {};
    let pushes = async {
        subscribed(&stream, &peer).await;
        let before = peer.calls_of("tasks/get").len();
        for _ in 0..100 {
            push(&stream, "completed", json!({"result": {"content": []}}));
            SystemClock.sleep(Duration::from_millis(5)).await;
        }
        peer.calls_of("tasks/get").len() - before
    };
    let polls = tokio::select! {
        ended = task.wait(&mut ignore) => panic!("{ended:?}"),
        polls = pushes => polls,
    };
    assert!(polls <= 1, "{polls} polls because of wrong pushes");
}
