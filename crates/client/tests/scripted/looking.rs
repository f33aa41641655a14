//! Looking at tasks asks nobody: only a call, an answer and a wait for the result do.
#![expect(clippy::disallowed_methods, reason = "real sockets are not simulated")]

use crate::{
    peer::{Peer, event_stream, legacy, plain},
    task::legacy_task,
};
use longhaul_client::{CallResponse, Client, InputResponse, Inputs, Outcome, SystemClock, TaskStatus};
use longhaul_ledger::ClientJournal;
use serde_json::{Value, json};
use std::{
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

const PATIENCE: Duration = Duration::from_secs(60);

/// A legacy server that sends the question of its task on every push stream whenever the task is read, until it has an answer.
fn pushing() -> Peer {
    pushing_until(&Arc::default())
}

/// The same; somebody else may answer.
fn pushing_until(is_answered: &Arc<AtomicBool>) -> Peer {
    let is_answered = Arc::clone(is_answered);
    let streams: Mutex<Vec<UnboundedSender<String>>> = Mutex::default();
    legacy(json!({"requests": {"tools": {"call": {}}}}), move |seen| {
        let is_done = is_answered.load(Ordering::SeqCst);
        match (seen.method(), seen.verb.as_str()) {
            ("tools/call", _) => seen.result(json!({"task": legacy_task("working", json!({}))})),
            ("tasks/get", _) if is_done => seen.result(legacy_task("completed", json!({}))),
            ("tasks/get", _) => {
                let question = json!({
                    "jsonrpc": "2.0", "id": 7, "method": "elicitation/create", "params": {
                        "message": "Proceed?", "requestedSchema": {"type": "object", "properties": {}},
                        "_meta": {"io.modelcontextprotocol/related-task": {"taskId": "t-1"}},
                    },
                });
                let event = format!("data: {question}\n\n");
                streams
                    .lock()
                    .unwrap()
                    .retain(|stream| stream.send(event.clone()).is_ok());
                seen.result(legacy_task("input_required", json!({})))
            }
            ("tasks/result", _) if is_done => seen.result(json!({"content": []})),
            ("tasks/result", _) => event_stream(unbounded_channel().1),
            ("", "POST") => {
                is_answered.store(true, Ordering::SeqCst);
                plain(202, "")
            }
            ("", "GET") => {
                let (sender, receiver) = unbounded_channel();
                streams.lock().unwrap().push(sender);
                event_stream(receiver)
            }
            _ => plain(405, ""),
        }
    })
}

/// Whether the program waits for the result.
type Waits = Arc<AtomicBool>;
/// Whether it waited when its handler was asked, each time.
type Asked = Arc<Mutex<Vec<bool>>>;

async fn process(peer: &Peer, directory: &Path) -> (Client, Waits, Asked) {
    let (waits, asked) = (Waits::default(), Asked::default());
    let (now, seen) = (Arc::clone(&waits), Arc::clone(&asked));
    let inputs = Inputs::new().elicit(move |_| {
        seen.lock().unwrap().push(now.load(Ordering::SeqCst));
        async { Ok(InputResponse::accept(json!({}))) }
    });
    let (connection, _) = peer.connection_with(|options| {
        options.inputs = Some(inputs.into());
        options.clock = Arc::new(SystemClock);
    });
    let journal = ClientJournal::open(&directory.join("client/handles.db")).await.unwrap();
    (Client::recorded(connection, journal), waits, asked)
}

#[tokio::test]
async fn looking_at_a_legacy_task_asks_no_handler() {
    let (peer, directory) = (pushing(), tempfile::tempdir().unwrap());
    let (first, ..) = process(&peer, directory.path()).await;
    let detached = first.start("optional", Value::Null).await.unwrap().detach().await;
    assert!(matches!(detached, Ok(CallResponse::Task(_))), "{detached:?}");
    drop((detached, first));

    let (second, waits, asked) = process(&peer, directory.path()).await;
    let [task] = second.tasks().await.unwrap().try_into().unwrap();
    let looking = async {
        loop {
            task.get().await.unwrap();
            if let [question] = task.questions().await.unwrap().as_slice() {
                break question.message().to_owned();
            }
        }
    };
    let question = tokio::time::timeout(PATIENCE, looking).await.expect("bounded time");
    assert_eq!(question, "Proceed?");
    for _ in 0..20 {
        task.get().await.unwrap();
        assert_eq!(second.tasks().await.unwrap().len(), 1);
    }
    assert!(asked.lock().unwrap().is_empty());

    waits.store(true, Ordering::SeqCst);
    let outcome = tokio::time::timeout(PATIENCE, task.wait(&mut |_| {})).await;
    let outcome = outcome.expect("bounded time").unwrap();
    assert!(matches!(outcome, Outcome::Result { .. }), "{outcome:?}");
    assert_eq!(*asked.lock().unwrap(), [true]);
}

/// What a task has asked that was only looked at is not asked when it has ended.
#[tokio::test]
async fn a_task_that_ends_while_it_is_looked_at_asks_no_handler() {
    let is_answered = Arc::default();
    let (peer, directory) = (pushing_until(&is_answered), tempfile::tempdir().unwrap());
    let (first, ..) = process(&peer, directory.path()).await;
    let detached = first.start("optional", Value::Null).await.unwrap().detach().await;
    assert!(matches!(detached, Ok(CallResponse::Task(_))), "{detached:?}");
    drop((detached, first));

    let (second, _, asked) = process(&peer, directory.path()).await;
    let [task] = second.tasks().await.unwrap().try_into().unwrap();
    let looking = async {
        while task.get().await.unwrap().status != TaskStatus::InputRequired
            || task.questions().await.unwrap().is_empty()
        {}
    };
    tokio::time::timeout(PATIENCE, looking).await.expect("bounded time");
    // Somebody else answers.
    is_answered.store(true, Ordering::SeqCst);
    assert!(task.get().await.unwrap().status.is_final());
    for _ in 0..20 {
        task.get().await.unwrap();
    }
    assert!(asked.lock().unwrap().is_empty());
}
