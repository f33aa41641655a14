//! Answers that do not fit what is asked are not sent.
#![expect(clippy::disallowed_methods, reason = "real sockets are not simulated")]

use crate::{
    peer::{Peer, event_stream, legacy, modern, plain},
    task::{created, legacy_task, modern_task},
};
use longhaul_client::{Client, InputResponse, Inputs, SystemClock, TaskHandle};
use longhaul_ledger::ClientJournal;
use serde_json::{Value, json};
use std::{path::Path, sync::Arc, time::Duration};
use tokio::sync::mpsc::unbounded_channel;

const PATIENCE: Duration = Duration::from_secs(60);

fn question() -> Value {
    json!({"message": "Release?", "requestedSchema": {"type": "object", "required": ["version"], "properties": {
        "version": {"type": "string"}, "copies": {"type": "integer", "minimum": 1, "maximum": 3},
    }}})
}

fn modern_peer() -> Peer {
    modern(|seen| match seen.method() {
        "tools/call" => seen.result(created()),
        "tasks/get" => {
            let asked = json!({"q": {"method": "elicitation/create", "params": question()}});
            seen.result(modern_task("input_required", json!({"inputRequests": asked})))
        }
        "tasks/update" => seen.result(json!({"resultType": "complete"})),
        _ => plain(404, ""),
    })
}

fn legacy_peer() -> Peer {
    legacy(json!({"requests": {"tools": {"call": {}}}}), |seen| {
        match (seen.method(), seen.verb.as_str()) {
            ("tools/call", _) => seen.result(json!({"task": legacy_task("working", json!({}))})),
            ("tasks/get", _) => seen.result(legacy_task("input_required", json!({}))),
            ("tasks/result", _) => {
                let (sender, receiver) = unbounded_channel();
                let mut params = question();
                params["_meta"] = json!({"io.modelcontextprotocol/related-task": {"taskId": "t-1"}});
                let asked = json!({"jsonrpc": "2.0", "id": 7, "method": "elicitation/create", "params": params});
                sender.send(format!("data: {asked}\n\n")).unwrap();
                // It stays open.
                std::mem::forget(sender);
                event_stream(receiver)
            }
            ("", "POST") => plain(202, ""),
            _ => plain(405, ""),
        }
    })
}

/// How many answers the server has got.
fn answers(peer: &Peer) -> usize {
    let answers = peer.seen().into_iter().filter(|seen| {
        let is_response = seen.verb.as_str() == "POST" && seen.method().is_empty();
        is_response || seen.method() == "tasks/update"
    });
    answers.count()
}

async fn client(peer: &Peer, directory: &Path, is_recorded: bool) -> Client {
    let (connection, _) = peer.connection_with(|options| {
        options.inputs = Some(Inputs::deferred().into());
        options.clock = Arc::new(SystemClock);
    });
    match is_recorded {
        true => {
            let journal = ClientJournal::open(&directory.join("client/handles.db")).await.unwrap();
            Client::recorded(connection, journal)
        }
        false => Client::new(connection),
    }
}

async fn key_of_question(task: &TaskHandle) -> String {
    loop {
        if let Some(question) = task.questions().await.unwrap().first() {
            return question.key.clone().unwrap();
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn an_answer_that_does_not_fit_names_its_field_and_is_not_sent() {
    for start in [modern_peer, legacy_peer] {
        for is_recorded in [false, true] {
            let (peer, directory) = (start(), tempfile::tempdir().unwrap());
            let client = client(&peer, directory.path(), is_recorded).await;
            let call = client.start("optional", Value::Null).await.unwrap();
            let task = call.task().await.unwrap();
            let asked = tokio::time::timeout(PATIENCE, key_of_question(&task)).await;
            let key = asked.expect("bounded time");
            for (values, problem) in [
                (json!({"version": 7}), "`version`: 7 does not fit; it must be a text"),
                (
                    json!({"version": "1", "copies": 4}),
                    "`copies`: 4 does not fit; it must be a whole number from 1 to 3",
                ),
                (json!({"copies": 1}), "`version` is missing; it must be a text"),
            ] {
                let refused = task.answer(&key, InputResponse::accept(&values)).await;
                let error = refused.expect_err("a wrong answer").to_string();
                assert!(error.contains(problem) && error.contains(&key), "{values}: {error}");
            }
            assert_eq!(answers(&peer), 0, "recorded: {is_recorded}");
            task.answer(&key, InputResponse::accept(json!({"version": "1.2", "copies": 2})))
                .await
                .unwrap();
            assert_eq!(answers(&peer), 1, "recorded: {is_recorded}");
        }
    }
}
