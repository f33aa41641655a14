//! A task that sends each of its questions once, as that of the Python SDK 1.30 does.

use super::server::{RELATED_TASK, ServerRecord, events};
use axum::{body::Body, http::Response};
use futures_util::stream;
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

const QUESTIONS: [&str; 2] = ["First?", "Second?"];
/// It is used again: an address in memory.
const ID: &str = "task-call-0-140";

/// The state of the task.
#[derive(Default)]
pub(super) struct AsksOnce {
    answered: usize,
    /// A question waits for a stream.
    is_queued: bool,
    /// A question was sent, and has no answer.
    pub(super) is_open: bool,
    /// Since the last answer.
    polls: usize,
    changes: usize,
    /// The requests for the result, the earliest first, by id. Nobody may read their streams any more.
    streams: Vec<(Value, UnboundedSender<String>)>,
}

impl AsksOnce {
    /// The status of the task, and how often it has changed.
    pub(super) fn polled(&mut self) -> (&'static str, usize) {
        self.polls += 1;
        if self.polls == 2 && self.answered < QUESTIONS.len() {
            self.is_queued = true;
            self.changes += 1;
            self.deliver();
        }
        let status = match (self.is_queued || self.is_open, self.answered) {
            (true, _) => "input_required",
            (false, 2) => "completed",
            (false, _) => "working",
        };
        (status, self.changes)
    }

    /// What it asks.
    pub(super) fn question(&self) -> &'static str {
        QUESTIONS[self.answered]
    }

    /// The question was lost on its way.
    pub(super) fn ask_again(&mut self) {
        (self.is_queued, self.is_open) = (true, false);
    }

    fn deliver(&mut self) {
        let Some((_, stream)) = self.streams.first().filter(|_| self.is_queued) else {
            return;
        };
        (self.is_queued, self.is_open) = (false, true);
        let question = json!({
            "jsonrpc": "2.0", "id": ID, "method": "elicitation/create", "params": {
                "message": QUESTIONS[self.answered], "requestedSchema": {"type": "object", "properties": {}},
                "_meta": {RELATED_TASK: {"taskId": "call-0"}},
            },
        });
        let _ = stream.send(question.to_string());
    }
}

impl ServerRecord {
    /// The answer to what such a task deals with: `None` inside is 202.
    pub(super) fn ask_once(&mut self, message: &Value) -> Option<Option<Response<Body>>> {
        let once = &mut self.once;
        match message["method"].as_str() {
            Some("notifications/cancelled") => once
                .streams
                .retain(|(request, _)| *request != message["params"]["requestId"]),
            Some("tasks/result") if once.answered < QUESTIONS.len() => {
                let (sender, receiver) = unbounded_channel();
                once.streams.push((message["id"].clone(), sender));
                once.deliver();
                let messages = stream::unfold(receiver, |mut receiver| async {
                    let message = receiver.recv().await?;
                    Some((message, receiver))
                });
                return Some(Some(events(messages)));
            }
            None if message["result"].is_object() => {
                if once.is_open && message["id"] == ID {
                    let question = QUESTIONS[once.answered];
                    (once.is_open, once.polls) = (false, 0);
                    once.answered += 1;
                    once.changes += 1;
                    if once.answered == QUESTIONS.len() {
                        for (request, stream) in once.streams.drain(..) {
                            let result = json!({"jsonrpc": "2.0", "id": request, "result": {"content": []}});
                            let _ = stream.send(result.to_string());
                        }
                    }
                    let mut answer = message["result"]["content"].clone();
                    answer["question"] = question.into();
                    self.executions.get_mut("call-0").unwrap().answers.push(answer);
                }
            }
            _ => return None,
        }
        Some(None)
    }
}
