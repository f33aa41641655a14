//! Questions that a legacy server asks once: whoever comes later answers them.
#![expect(clippy::disallowed_methods, reason = "real sockets are not simulated")]

use crate::{
    peer::{Peer, ReceivedRequest, event_stream, legacy, plain},
    task::legacy_task,
};
use longhaul_client::{Client, InputRequest, InputResponse, Inputs, TaskHandle};
use longhaul_ledger::ClientJournal;
use serde_json::{Value, json};
use std::{
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::sync::{
    mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    watch,
};

const PATIENCE: Duration = Duration::from_secs(60);

/// What the server does.
struct Script {
    /// What is sent when the task is first waited for: on the stream of `tasks/result`, or on the push stream.
    messages: Vec<Value>,
    is_pushed: bool,
    status: &'static str,
    changes: u32,
    /// The responses that came, with their sessions.
    responses: Vec<(Option<String>, Value)>,
    push_stream: Option<UnboundedSender<String>>,
    result_streams: Vec<UnboundedSender<String>>,
}

impl Script {
    fn new(messages: &[Value]) -> Arc<Mutex<Self>> {
        Arc::new(Mutex::new(Self {
            messages: messages.to_vec(),
            is_pushed: false,
            status: "input_required",
            changes: 0,
            responses: Vec::new(),
            push_stream: None,
            result_streams: Vec::new(),
        }))
    }

    fn pushing(messages: &[Value]) -> Arc<Mutex<Self>> {
        let script = Self::new(messages);
        script.lock().unwrap().is_pushed = true;
        // As FastMCP 3 says while it asks.
        script.lock().unwrap().status = "working";
        script
    }

    fn send(&mut self, on: Option<UnboundedSender<String>>) {
        if let Some(stream) = on {
            for message in self.messages.drain(..) {
                let _ = stream.send(format!("data: {message}\n\n"));
            }
        }
    }

    fn answer(&mut self, seen: &ReceivedRequest) -> axum::http::Response<axum::body::Body> {
        let task = |status: &str, changes: u32| {
            legacy_task(
                status,
                json!({"lastUpdatedAt": format!("2026-11-20T09:00:{changes:02}Z")}),
            )
        };
        match (seen.method(), seen.verb.as_str()) {
            ("tools/call", _) => seen.result(json!({"task": task("working", 0)})),
            ("tasks/get", _) => {
                if self.is_pushed {
                    self.send(self.push_stream.clone());
                }
                seen.result(task(self.status, self.changes))
            }
            ("tasks/result", _) if self.is_pushed => seen.error(200, -32602, Value::Null),
            ("tasks/result", _) => {
                let (sender, receiver) = unbounded_channel();
                self.send(Some(sender.clone()));
                self.result_streams.push(sender);
                event_stream(receiver)
            }
            ("", "POST") => {
                let session = seen.header("mcp-session-id").map(str::to_owned);
                self.responses.push((session, seen.body.clone()));
                self.status = "cancelled";
                plain(202, "")
            }
            ("", "GET") if self.is_pushed => {
                let (sender, receiver) = unbounded_channel();
                self.push_stream = Some(sender);
                event_stream(receiver)
            }
            ("notifications/cancelled", _) => plain(202, ""),
            _ => plain(405, ""),
        }
    }
}

fn server(script: &Arc<Mutex<Script>>) -> Peer {
    let script = Arc::clone(script);
    legacy(json!({"requests": {"tools": {"call": {}}}}), move |seen| {
        script.lock().unwrap().answer(seen)
    })
}

fn question(id: Value, text: &str) -> Value {
    let mut question = unnamed_question(id, text);
    question["params"]["_meta"] = json!({"io.modelcontextprotocol/related-task": {"taskId": "t-1"}});
    question
}

/// It does not say which task asks.
fn unnamed_question(id: Value, text: &str) -> Value {
    let schema = json!({"type": "object", "properties": {}});
    json!({
        "jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": {"message": text, "requestedSchema": schema},
    })
}

/// A user who never answers, and what it is asked.
async fn silent(peer: &Peer, directory: &Path) -> (Client, UnboundedReceiver<InputRequest>) {
    let (sender, asked) = unbounded_channel();
    let inputs = Inputs::new().elicit(move |question| {
        sender.send(question).unwrap();
        std::future::pending()
    });
    (client(peer, directory, inputs).await, asked)
}

async fn client(peer: &Peer, directory: &Path, inputs: Inputs) -> Client {
    let journal = ClientJournal::open(&directory.join("client/handles.db")).await.unwrap();
    let (connection, _) = peer.connection_with(|options| options.inputs = Some(inputs.into()));
    Client::recorded(connection, journal)
}

/// Calls, and is gone when the user was asked so many questions.
async fn leave_at_the_form(peer: &Peer, directory: &Path, questions: usize) -> Vec<InputRequest> {
    let (client, mut asked) = silent(peer, directory).await;
    let call = client.start("optional", Value::Null).await.unwrap();
    let mut all = Vec::new();
    for _ in 0..questions {
        let question = tokio::time::timeout(PATIENCE, asked.recv()).await;
        all.push(question.expect("bounded time").unwrap());
    }
    drop((call, client));
    all
}

async fn only_task(client: &Client) -> TaskHandle {
    let [task] = client.tasks().await.unwrap().try_into().unwrap();
    task
}

async fn wait(task: &TaskHandle) {
    let waited = tokio::time::timeout(PATIENCE, task.wait(&mut |_| {})).await;
    waited.expect("bounded time").unwrap();
}

fn keys(questions: &[InputRequest]) -> Vec<&str> {
    questions.iter().filter_map(|asked| asked.key.as_deref()).collect()
}

/// The ids of the responses, with what the user said. All came in the first session.
fn responses(script: &Mutex<Script>) -> Vec<(Value, Value)> {
    let responses = script.lock().unwrap().responses.clone();
    let response = |(session, response): (Option<String>, Value)| {
        assert_eq!(session.as_deref(), Some("session-1"));
        (response["id"].clone(), response["result"]["content"]["said"].clone())
    };
    responses.into_iter().map(response).collect()
}

#[tokio::test]
async fn a_question_that_was_asked_once_is_asked_again_by_the_next_process() {
    for script in [
        Script::new(&[question(json!(7), "Proceed?")]),
        Script::pushing(&[
            json!({"jsonrpc": "2.0", "method": "notifications/tasks/status", "params":
                legacy_task("input_required", json!({"statusMessage": "Proceed?"}))}),
            unnamed_question(json!(7), "Proceed?"),
        ]),
    ] {
        let (peer, directory) = (server(&script), tempfile::tempdir().unwrap());
        let asked = leave_at_the_form(&peer, directory.path(), 1).await;
        assert_eq!(asked[0].task.as_deref(), Some("t-1"));
        let (asked_again, mut seen) = unbounded_channel();
        let inputs = Inputs::new().elicit(move |question| {
            asked_again.send(question).unwrap();
            async { Ok(InputResponse::accept(json!({"said": "yes"}))) }
        });
        let client = client(&peer, directory.path(), inputs).await;
        wait(&only_task(&client).await).await;
        assert_eq!(seen.try_recv().unwrap(), asked[0]);
        assert!(seen.try_recv().is_err());
        assert_eq!(responses(&script), [(json!(7), json!("yes"))]);
    }
}

/// The server sends its question once, to one of two that wait already. That one leaves, and the other is asked.
#[tokio::test]
async fn a_process_that_waits_is_asked_when_another_one_leaves() {
    let pushed = json!({"jsonrpc": "2.0", "method": "notifications/tasks/status", "params":
        legacy_task("input_required", json!({"statusMessage": "Proceed?"}))});
    for (script, status, messages) in [
        (Script::new(&[]), "input_required", vec![question(json!(7), "Proceed?")]),
        (
            Script::pushing(&[]),
            "working",
            vec![pushed, unnamed_question(json!(7), "Proceed?")],
        ),
    ] {
        script.lock().unwrap().status = "working";
        let (peer, directory) = (server(&script), tempfile::tempdir().unwrap());
        let (first, mut asked_first) = silent(&peer, directory.path()).await;
        let (second, mut asked_second) = silent(&peer, directory.path()).await;
        let call = first.start("optional", Value::Null).await.unwrap();
        call.detach().await.unwrap();
        let tasks = [only_task(&first).await, only_task(&second).await];
        let waiting = tasks.map(|task| tokio::spawn(async move { wait(&task).await }));
        while peer.calls_of("tasks/get").len() < 8 {
            tokio::task::yield_now().await;
        }
        {
            let mut script = script.lock().unwrap();
            (script.messages, script.status) = (messages, status);
        }
        let [wait_first, wait_second] = waiting;
        let bounded = tokio::time::timeout(PATIENCE, async {
            tokio::select! {
                question = asked_first.recv() => {
                    wait_first.abort();
                    drop(first);
                    (question, asked_second.recv().await)
                }
                question = asked_second.recv() => {
                    wait_second.abort();
                    drop(second);
                    (question, asked_first.recv().await)
                }
            }
        });
        let (question, again) = bounded.await.expect("bounded time");
        assert_eq!(question.unwrap().task.as_deref(), Some("t-1"));
        assert_eq!(again.unwrap().params["message"], "Proceed?");
    }
}

/// Whoever answers need not wait for the task.
#[tokio::test]
async fn recorded_questions_are_listed_and_answered_by_their_keys() {
    let script = Script::new(&[question(json!(7), "File?"), question(json!(8), "Backup?")]);
    let (peer, directory) = (server(&script), tempfile::tempdir().unwrap());
    let asked = leave_at_the_form(&peer, directory.path(), 2).await;
    let client = client(&peer, directory.path(), Inputs::new()).await;
    let task = only_task(&client).await;
    let mut listed = task.recorded_questions().await.unwrap();
    listed.sort_by_key(|question| asked.iter().position(|asked| asked == question));
    assert_eq!(listed, asked);
    let [_, backup] = keys(&asked)[..] else {
        panic!("{asked:?}")
    };
    let answer = InputResponse::accept(json!({"said": "later"}));
    task.answer(backup, answer.clone()).await.unwrap();
    let again = task.answer(backup, answer).await.unwrap_err().to_string();
    assert!(again.contains("does not ask"), "{again}");
    assert_eq!(task.recorded_questions().await.unwrap().len(), 1);
    let of_backup = asked.iter().position(|asked| asked.message() == "Backup?");
    assert_eq!(of_backup, Some(1));
    assert_eq!(responses(&script), [(json!(8), json!("later"))]);
    // The task has ended, so nothing is asked any more.
    wait(&task).await;
    assert_eq!(task.recorded_questions().await.unwrap(), []);
}

#[tokio::test]
async fn a_question_that_the_server_withdraws_is_not_recorded_any_more() {
    let script = Script::new(&[question(json!(7), "Proceed?")]);
    let (peer, directory) = (server(&script), tempfile::tempdir().unwrap());
    let (client, mut asked) = silent(&peer, directory.path()).await;
    let call = client.start("optional", Value::Null).await.unwrap();
    let key = asked.recv().await.unwrap().key;
    assert!(key.is_some());
    let task = call.task().await.unwrap();
    let withdrawal = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}});
    let stream = script.lock().unwrap().result_streams[0].clone();
    stream.send(format!("data: {withdrawal}\n\n")).unwrap();
    while !task.recorded_questions().await.unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    assert_eq!(responses(&script), []);
}

/// An id that comes with another text is used again: the response to the earlier request has arrived.
#[tokio::test]
async fn an_id_that_is_used_again_is_another_question() {
    let script = Script::new(&[question(json!("a-1"), "First?"), question(json!("a-1"), "Second?")]);
    let (peer, directory) = (server(&script), tempfile::tempdir().unwrap());
    let (client, _asked) = silent(&peer, directory.path()).await;
    let call = client.start("optional", Value::Null).await.unwrap();
    let task = call.task().await.unwrap();
    loop {
        let open = task.recorded_questions().await.unwrap();
        if open.len() == 1 && open[0].message() == "Second?" {
            break;
        }
        tokio::task::yield_now().await;
    }
}

/// The server has taken an answer when its task has changed and asks. An answer must not be sent to another question with the same id.
#[tokio::test]
async fn an_old_answer_is_not_sent_when_the_task_has_gone_on() {
    let script = Script::new(&[question(json!("a-1"), "First?")]);
    let refuses = watch::Sender::new(0);
    let (known, seen_answers) = (Arc::clone(&script), refuses.clone());
    let peer = legacy(json!({"requests": {"tools": {"call": {}}}}), move |seen| {
        // Nobody hears that the answer has arrived.
        if seen.method().is_empty() && seen.verb == "POST" && known.lock().unwrap().changes == 0 {
            seen_answers.send_modify(|answers| *answers += 1);
            return plain(503, "");
        }
        known.lock().unwrap().answer(seen)
    });
    let directory = tempfile::tempdir().unwrap();
    let said = |text: &'static str| {
        Inputs::new().elicit(move |question| {
            let to = question.message().to_owned();
            async move { Ok(InputResponse::accept(json!({"said": format!("{text} {to}")}))) }
        })
    };
    let first = client(&peer, directory.path(), said("old")).await;
    let call = first.start("optional", Value::Null).await.unwrap();
    let mut answers = refuses.subscribe();
    // It is not sent again after that.
    answers.wait_for(|answers| *answers == 9).await.unwrap();
    drop((call, first));
    {
        let mut script = script.lock().unwrap();
        script.changes = 1;
        script.messages.push(question(json!("a-1"), "Second?"));
    }
    let second = client(&peer, directory.path(), said("new")).await;
    wait(&only_task(&second).await).await;
    assert_eq!(responses(&script), [(json!("a-1"), json!("new Second?"))]);
}
