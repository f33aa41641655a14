//! A key that was answered is not shown again, whatever the server sends.
#![expect(clippy::disallowed_methods, reason = "real sockets are not simulated")]

use crate::{
    peer::{Peer, event_stream, legacy, modern, plain},
    task::{created, legacy_task, modern_task},
};
use futures_util::StreamExt;
use longhaul_client::{CallStatus, Client, InputResponse, Inputs, Outcome, RunningCall, SystemClock};
use longhaul_ledger::ClientJournal;
use serde_json::{Value, json};
use std::{
    path::Path,
    pin::pin,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

const PATIENCE: Duration = Duration::from_secs(60);
/// An id as Longhaul's tasks have.
const TASK: &str = "01jd8z0000abcdefghjkmnpqrstvwxyz0123";
/// Polls that show the task asking after it has the answer.
const LAG: usize = 6;

#[derive(Default)]
struct Script {
    answers: usize,
    polls_since: usize,
    deliveries: usize,
    streams: Vec<UnboundedSender<String>>,
}

impl Script {
    fn ask(&mut self) {
        self.deliveries += 1;
        let question = json!({
            "jsonrpc": "2.0", "id": format!("{TASK}.in-1.{}", self.deliveries), "method": "elicitation/create", "params": {
                "message": "Proceed?", "requestedSchema": {"type": "object", "properties": {}},
                "_meta": {"io.modelcontextprotocol/related-task": {"taskId": TASK}},
            },
        });
        self.streams
            .retain(|stream| stream.send(format!("data: {question}\n\n")).is_ok());
    }
}

/// A legacy server that goes on asking for a while, under the same key, when it has the answer.
fn lagging() -> Peer {
    let script = Arc::new(Mutex::new(Script::default()));
    legacy(json!({"requests": {"tools": {"call": {}}}}), move |seen| {
        let mut script = script.lock().unwrap();
        let named = |status: &str| legacy_task(status, json!({"taskId": TASK}));
        match seen.method() {
            "tools/call" => seen.result(json!({"task": named("working")})),
            "tasks/get" if script.answers > 0 => {
                script.polls_since += 1;
                script.ask();
                match script.polls_since > LAG {
                    true => seen.result(named("completed")),
                    false => seen.result(named("input_required")),
                }
            }
            "tasks/get" => seen.result(named("input_required")),
            "tasks/result" if script.polls_since > LAG => seen.result(json!({"content": []})),
            "tasks/result" => {
                let (sender, receiver) = unbounded_channel();
                script.streams.push(sender);
                script.ask();
                event_stream(receiver)
            }
            "" if seen.verb == "POST" => {
                script.answers += 1;
                script.ask();
                plain(202, "")
            }
            _ => plain(405, ""),
        }
    })
}

/// A modern server that does the same.
fn lagging_modern() -> Peer {
    let (answers, polls) = (Mutex::new(0), Mutex::new(0));
    modern(move |seen| match seen.method() {
        "tools/call" => seen.result(created()),
        "tasks/update" => {
            *answers.lock().unwrap() += 1;
            seen.result(json!({"resultType": "complete"}))
        }
        "tasks/get" => {
            let mut polls = polls.lock().unwrap();
            *polls += usize::from(*answers.lock().unwrap() > 0);
            match *polls > LAG {
                true => seen.result(modern_task("completed", json!({"result": {"content": []}}))),
                false => {
                    let asked = json!({"q": {"method": "elicitation/create", "params": {"message": "Proceed?"}}});
                    let more = json!({"inputRequests": asked, "statusMessage": format!("poll {polls}")});
                    seen.result(modern_task("input_required", more))
                }
            }
        }
        _ => plain(404, ""),
    })
}

async fn client(peer: &Peer, directory: Option<&Path>) -> Client {
    let (connection, _) = peer.connection_with(|options| {
        options.inputs = Some(Inputs::deferred().into());
        options.clock = Arc::new(SystemClock);
    });
    match directory {
        Some(directory) => {
            let journal = ClientJournal::open(&directory.join("client/handles.db")).await.unwrap();
            Client::recorded(connection, journal)
        }
        None => Client::new(connection),
    }
}

/// Answers each question that is shown. All keys that were shown, each as often as it was.
async fn answer_all(call: &RunningCall) -> Vec<String> {
    let (mut status, mut shown) = (pin!(call.status()), Vec::new());
    while let Some(status) = status.next().await {
        let CallStatus::Task(task) = status else { continue };
        for question in &task.input_requests {
            let key = question.key.clone().unwrap();
            let answered = call.answer(&key, InputResponse::accept(json!({}))).await;
            shown.push(key);
            answered.unwrap_or_else(|error| panic!("{shown:?}: {error}"));
        }
    }
    shown
}

#[tokio::test]
async fn a_status_does_not_show_a_key_that_was_answered() {
    for start in [lagging, lagging_modern] {
        for is_recorded in [false, true] {
            let (peer, directory) = (start(), tempfile::tempdir().unwrap());
            let client = client(&peer, Some(directory.path()).filter(|_| is_recorded)).await;
            let call = client.start("optional", Value::Null).await.unwrap();
            let shown = tokio::time::timeout(PATIENCE, answer_all(&call)).await;
            assert_eq!(shown.expect("bounded time").len(), 1, "recorded: {is_recorded}");
            assert!(matches!(call.result().await, Ok(Outcome::Result { .. })));
        }
    }
}
