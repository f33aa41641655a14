//! Questions of legacy tasks, which have no keys: when they are the same again, and when they are others.
#![expect(clippy::disallowed_methods, reason = "real sockets are not simulated")]

use crate::{
    peer::{HeldUntil, Peer, ReceivedRequest, event_stream, legacy, plain},
    task::legacy_task,
};
use axum::{body::Body, http::Response};
use longhaul_client::{CallError, Client, Connection, InputResponse, Inputs, Outcome, WireEvent, WireObserver};
use longhaul_ledger::ClientJournal;
use serde_json::{Value, json};
use std::{
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::sync::{
    Semaphore,
    mpsc::{UnboundedSender, unbounded_channel},
};

const PATIENCE: Duration = Duration::from_secs(60);
/// An id as Longhaul's tasks have.
const LONGHAUL: &str = "01jd8z0000abcdefghjkmnpqrstvwxyz0123";

/// What the server does, and what it has got.
#[derive(Default)]
pub(crate) struct Script {
    /// Answers are refused with this status.
    refuses: Option<u16>,
    /// What the task asks, in this order: ids and texts. Without an id each delivery has another one.
    questions: Vec<(Option<Value>, &'static str)>,
    /// How often each message is sent.
    copies: usize,
    /// The ids of the present question.
    open: Vec<Value>,
    /// The answers that were taken, with the ids of their requests. A response to any other id is ignored.
    answers: Vec<(Value, Value)>,
    /// Another status than that of the questions, for so many polls.
    works_for: usize,
    deliveries: usize,
    /// The response to an answer is held until there is a permit.
    held: Option<Arc<Semaphore>>,
    /// The open stream of `tasks/result`, and the id of the request.
    stream: Option<(UnboundedSender<String>, Value)>,
}

impl Script {
    pub(crate) fn asking(questions: &[(Option<Value>, &'static str)]) -> Arc<Mutex<Self>> {
        Arc::new(Mutex::new(Self {
            questions: questions.to_vec(),
            copies: 1,
            ..Self::default()
        }))
    }

    /// Answers are refused with this status from now on.
    pub(crate) fn refuse(&mut self, status: Option<u16>) {
        self.refuses = status;
    }

    /// The responses to answers are held from now on, until there are permits.
    pub(crate) fn hold(&mut self, until: Arc<Semaphore>) {
        self.held = Some(until);
    }

    fn is_done(&self) -> bool {
        self.answers.len() >= self.questions.len()
    }

    fn question(&mut self, task: &str) -> Option<Value> {
        let (id, text) = self.questions.get(self.answers.len())?.clone();
        self.deliveries += 1;
        let id = id.unwrap_or_else(|| json!(format!("other-{}", self.deliveries)));
        self.open.push(id.clone());
        Some(json!({
            "jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": {
                "message": text, "requestedSchema": {"type": "object", "properties": {}},
                "_meta": {"io.modelcontextprotocol/related-task": {"taskId": task}},
            },
        }))
    }

    /// Sends the next question, or the result, on the open stream.
    fn proceed(&mut self, task: &str) {
        let Some((stream, id)) = self.stream.clone() else {
            return;
        };
        let message = match self.question(task) {
            Some(question) => question,
            None => json!({"jsonrpc": "2.0", "id": id, "result": {"content": []}}),
        };
        for _ in 0..self.copies {
            let _ = stream.send(format!("data: {message}\n\n"));
        }
        let _ = stream.send(format!("data: {}\n\n", after()));
    }

    fn take(&mut self, task: &str, seen: &ReceivedRequest) -> Response<Body> {
        match self.refuses {
            Some(400) => self.proceed(task),
            Some(_) => {}
            None => {
                if self.open.contains(&seen.body["id"]) {
                    let content = seen.body["result"]["content"].clone();
                    self.answers.push((seen.body["id"].clone(), content));
                    self.open.clear();
                    self.proceed(task);
                }
            }
        }
        let mut response = plain(self.refuses.unwrap_or(202), "");
        if let Some(held) = &self.held {
            response.extensions_mut().insert(HeldUntil(Arc::clone(held)));
        }
        response
    }
}

/// A legacy server that asks on the stream of `tasks/result`.
pub(crate) fn server(task: &'static str, script: &Arc<Mutex<Script>>) -> Peer {
    let script = Arc::clone(script);
    legacy(json!({"requests": {"tools": {"call": {}}}}), move |seen| {
        let mut script = script.lock().unwrap();
        let named = |status: &str| legacy_task(status, json!({"taskId": task}));
        match seen.method() {
            "tools/call" => seen.result(json!({"task": named("working")})),
            "tasks/get" if script.works_for > 0 => {
                script.works_for -= 1;
                seen.result(named("working"))
            }
            "tasks/get" if script.is_done() => seen.result(named("completed")),
            "tasks/get" => seen.result(named("input_required")),
            "tasks/result" => {
                let (sender, receiver) = unbounded_channel();
                script.stream = Some((sender, seen.body["id"].clone()));
                script.proceed(task);
                event_stream(receiver)
            }
            "" if seen.verb == "POST" => script.take(task, seen),
            _ => plain(405, ""),
        }
    })
}

/// A message behind others: once it was received, they were dealt with.
fn after() -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/after"})
}

/// How many such messages a client has received.
struct Received(Arc<Semaphore>);

impl WireObserver for Received {
    fn observe(&self, event: WireEvent<'_>) {
        if let WireEvent::Received { message } = event
            && String::from_utf8_lossy(message).contains("notifications/after")
        {
            self.0.add_permits(1);
        }
    }
}

/// A person who never says the same twice.
#[derive(Clone)]
struct Person {
    asked: Arc<AtomicUsize>,
    /// What it answers only then.
    received: Arc<Semaphore>,
    waits: bool,
}

impl Default for Person {
    fn default() -> Self {
        Self {
            asked: Arc::default(),
            received: Arc::new(Semaphore::new(0)),
            waits: false,
        }
    }
}

impl Person {
    /// One that answers when all that the server sends with the question was received.
    fn slow() -> Self {
        Self {
            waits: true,
            ..Self::default()
        }
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    async fn client(&self, peer: &Peer, directory: &Path) -> Client {
        let journal = ClientJournal::open(&directory.join("client/handles.db")).await.unwrap();
        Client::recorded(self.connection(peer), journal)
    }

    fn connection(&self, peer: &Peer) -> Connection {
        let person = self.clone();
        let inputs = Inputs::new().elicit(move |_| {
            let said = person.asked.fetch_add(1, Ordering::SeqCst);
            let person = person.clone();
            async move {
                if person.waits {
                    person.received.acquire().await.unwrap().forget();
                }
                Ok(InputResponse::accept(json!({"said": said})))
            }
        });
        let (connection, _) = peer.connection_with(|options| {
            options.inputs = Some(inputs.into());
            options.wire = Some(Arc::new(Received(Arc::clone(&self.received))));
        });
        connection
    }
}

async fn call(client: &Client) -> Result<Outcome, CallError> {
    let called = tokio::time::timeout(PATIENCE, client.call("optional", Value::Null)).await;
    called.expect("bounded time")
}

/// Calls, and leaves the task when the server has refused so many answers.
async fn call_and_crash(person: &Person, peer: &Peer, directory: &Path, refusals: usize) {
    let client = person.client(peer, directory).await;
    let call = client.start("optional", Value::Null).await.unwrap();
    until_refused(peer, refusals).await;
    drop((call, client));
}

async fn until_refused(peer: &Peer, refusals: usize) {
    let is_answer = |seen: &ReceivedRequest| seen.verb == "POST" && seen.method().is_empty();
    while peer.seen().iter().filter(|seen| is_answer(seen)).count() < refusals {
        tokio::task::yield_now().await;
    }
}

async fn wait_again(person: &Person, peer: &Peer, directory: &Path) {
    let client = person.client(peer, directory).await;
    let [task] = client.tasks().await.unwrap().try_into().unwrap();
    let waited = tokio::time::timeout(PATIENCE, task.wait(&mut |_| {})).await;
    waited.expect("bounded time").unwrap();
}

pub(crate) fn said(script: &Mutex<Script>) -> Vec<Value> {
    let script = script.lock().unwrap();
    script
        .answers
        .iter()
        .map(|(_, content)| content["said"].clone())
        .collect()
}

#[tokio::test]
async fn a_recorded_answer_that_the_server_has_not_got_is_sent_by_the_next_process() {
    for (refuses, refusals) in [(503, 9), (404, 1)] {
        let script = Script::asking(&[(None, "Proceed?")]);
        script.lock().unwrap().refuses = Some(refuses);
        let peer = server("t-1", &script);
        let (directory, person) = (tempfile::tempdir().unwrap(), Person::default());
        call_and_crash(&person, &peer, directory.path(), refusals).await;
        script.lock().unwrap().refuses = None;
        wait_again(&person, &peer, directory.path()).await;
        assert_eq!(person.asked(), 1, "{refuses}");
        assert!(said(&script).iter().all(|said| said == 0), "{refuses}");
    }
}

/// An answer that does not fit is not sent again: the user can give another one.
#[tokio::test]
async fn an_answer_that_the_server_refuses_is_asked_again() {
    let script = Script::asking(&[(None, "Proceed?")]);
    script.lock().unwrap().refuses = Some(400);
    let peer = server("t-1", &script);
    let (directory, person) = (tempfile::tempdir().unwrap(), Person::default());
    call_and_crash(&person, &peer, directory.path(), 3).await;
    let asked = person.asked();
    assert!(asked > 1);
    script.lock().unwrap().refuses = None;
    wait_again(&person, &peer, directory.path()).await;
    assert_eq!(said(&script), [json!(person.asked() - 1)]);
}

/// The task asks for as long as its status is read.
#[tokio::test]
async fn the_same_text_is_another_question_once_the_server_has_the_answer() {
    let script = Script::asking(&[(None, "Next file?"), (None, "Next file?"), (None, "Next file?")]);
    let peer = server("t-1", &script);
    let (directory, person) = (tempfile::tempdir().unwrap(), Person::default());
    call(&person.client(&peer, directory.path()).await).await.unwrap();
    assert_eq!((person.asked(), said(&script)), (3, vec![json!(0), json!(1), json!(2)]));
}

/// The server had taken the answer, but the first process did not hear of it.
#[tokio::test]
async fn the_same_text_is_another_question_once_the_task_has_gone_on() {
    let script = Script::asking(&[(None, "Next file?")]);
    script.lock().unwrap().refuses = Some(503);
    let peer = server("t-1", &script);
    let (directory, person) = (tempfile::tempdir().unwrap(), Person::default());
    call_and_crash(&person, &peer, directory.path(), 9).await;
    {
        let mut script = script.lock().unwrap();
        script.refuses = None;
        script.works_for = 2;
        script.open.clear();
    }
    wait_again(&person, &peer, directory.path()).await;
    assert_eq!((person.asked(), said(&script)), (2, vec![json!(1)]));
}

#[tokio::test]
async fn the_same_message_again_is_asked_once() {
    let script = Script::asking(&[(Some(json!(7)), "Proceed?")]);
    script.lock().unwrap().copies = 3;
    let peer = server("t-1", &script);
    let person = Person::slow();
    let directory = tempfile::tempdir().unwrap();
    call(&person.client(&peer, directory.path()).await).await.unwrap();
    assert_eq!((person.asked(), said(&script)), (1, vec![json!(0)]));
}

/// The ids of the Python SDK 1.30 are addresses in memory.
#[tokio::test]
async fn an_id_and_a_text_that_are_used_again_are_another_question() {
    let same = (Some(json!("task-t-1-140")), "Next file?");
    let script = Script::asking(&[same.clone(), same.clone(), same]);
    let peer = server("t-1", &script);
    let (directory, person) = (tempfile::tempdir().unwrap(), Person::default());
    call(&person.client(&peer, directory.path()).await).await.unwrap();
    assert_eq!((person.asked(), said(&script)), (3, vec![json!(0), json!(1), json!(2)]));
}

/// Longhaul's ids have the key of the question, which is asked anew on each stream.
#[tokio::test]
async fn a_question_with_a_key_is_asked_once_under_all_its_ids() {
    let id = |key: &str, nth: usize| Some(json!(format!("{LONGHAUL}.{key}.{nth}")));
    let questions = [(id("in-1", 1), "Next file?"), (id("in-2", 2), "Next file?")];
    let script = Script::asking(&questions);
    let peer = server(LONGHAUL, &script);
    let (directory, person) = (tempfile::tempdir().unwrap(), Person::default());
    script.lock().unwrap().refuses = Some(503);
    call_and_crash(&person, &peer, directory.path(), 9).await;
    {
        let mut script = script.lock().unwrap();
        script.refuses = None;
        // The task has not gone on, whatever its status was for a while.
        script.works_for = 1;
        script.questions[0].0 = id("in-1", 9);
    }
    wait_again(&person, &peer, directory.path()).await;
    assert_eq!((person.asked(), said(&script)), (2, vec![json!(0), json!(1)]));
}

/// The server has sent the question on a second stream before it took the answer that it got on the first.
#[tokio::test]
async fn a_question_with_a_key_that_comes_after_its_answer_is_not_asked_again() {
    let id = |nth: usize| Some(json!(format!("{LONGHAUL}.in-1.{nth}")));
    for is_recorded in [false, true] {
        let script = Script::asking(&[(id(1), "Proceed?"), (id(2), "Proceed?")]);
        let peer = server(LONGHAUL, &script);
        let (directory, person) = (tempfile::tempdir().unwrap(), Person::default());
        let client = match is_recorded {
            true => person.client(&peer, directory.path()).await,
            false => Client::new(person.connection(&peer)),
        };
        call(&client).await.unwrap();
        assert_eq!((person.asked(), said(&script)), (1, vec![json!(0), json!(0)]));
    }
}

/// Some servers ask on the push stream before they answer the call, so nobody knows whose task asks.
#[tokio::test]
async fn a_question_that_comes_before_its_task_is_recorded_too() {
    let script = Script::asking(&[(None, "Proceed?")]);
    script.lock().unwrap().refuses = Some(503);
    let (directory, person) = (tempfile::tempdir().unwrap(), Person::default());
    let (known, received) = (Arc::clone(&script), Arc::clone(&person.received));
    let pushed: Arc<Mutex<Option<UnboundedSender<String>>>> = Arc::default();
    let peer = legacy(json!({"requests": {"tools": {"call": {}}}}), move |seen| {
        let mut script = known.lock().unwrap();
        let mut pushed = pushed.lock().unwrap();
        let push = |script: &mut Script| {
            if let (Some(question), Some(stream)) = (script.question("t-1"), &*pushed) {
                let _ = stream.send(format!("data: {question}\n\ndata: {}\n\n", after()));
            }
        };
        match seen.method() {
            "tools/call" => {
                push(&mut script);
                let id = seen.body["id"].clone();
                let received = Arc::clone(&received);
                let answer = async move {
                    received.acquire().await.unwrap().forget();
                    let task = legacy_task("working", json!({}));
                    Ok::<_, std::convert::Infallible>(
                        json!({"jsonrpc": "2.0", "id": id, "result": {"task": task}}).to_string(),
                    )
                };
                Response::builder()
                    .header("content-type", "application/json")
                    .body(Body::from_stream(futures_util::stream::once(answer)))
                    .unwrap()
            }
            "tasks/get" if !script.answers.is_empty() => seen.result(legacy_task("cancelled", json!({}))),
            "tasks/get" => seen.result(legacy_task("input_required", json!({}))),
            "tasks/result" => seen.error(200, -32602, Value::Null),
            "" if seen.verb == "POST" => script.take("t-1", seen),
            "" if seen.verb == "GET" => {
                let (sender, receiver) = unbounded_channel();
                *pushed = Some(sender);
                push_again(&mut script, &pushed);
                event_stream(receiver)
            }
            _ => plain(405, ""),
        }
    });
    let client = person.client(&peer, directory.path()).await;
    let call = client.start("optional", Value::Null).await.unwrap();
    until_refused(&peer, 9).await;
    drop((call, client));
    script.lock().unwrap().refuses = None;
    wait_again(&person, &peer, directory.path()).await;
    assert_eq!((person.asked(), said(&script)), (1, vec![json!(0)]));
}

/// What was asked and not answered is asked again on the next push stream.
fn push_again(script: &mut Script, pushed: &Option<UnboundedSender<String>>) {
    if script.deliveries > 0
        && let (Some(question), Some(stream)) = (script.question("t-1"), pushed)
    {
        let _ = stream.send(format!("data: {question}\n\n"));
    }
}

/// Some servers ask again under another id when a stream is opened, although the question is open.
#[tokio::test]
async fn a_question_that_is_open_under_two_ids_is_asked_once() {
    let answered = Arc::new(AtomicUsize::new(0));
    let question = |id: u32| {
        json!({
            "jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": {
                "message": "Proceed?", "_meta": {"io.modelcontextprotocol/related-task": {"taskId": "t-1"}},
            },
        })
    };
    let known = Arc::clone(&answered);
    let peer = legacy(json!({"requests": {"tools": {"call": {}}}}), move |seen| {
        match seen.method() {
            "tasks/get" if known.load(Ordering::SeqCst) < 2 => seen.result(legacy_task("input_required", json!({}))),
            "tasks/get" => seen.result(legacy_task("cancelled", json!({}))),
            "tasks/result" => seen.stream(&[question(1), question(2), after()], json!({"content": []})),
            "" if seen.verb == "POST" => {
                known.fetch_add(1, Ordering::SeqCst);
                plain(202, "")
            }
            _ => plain(405, ""),
        }
    });
    let (directory, person) = (tempfile::tempdir().unwrap(), Person::slow());
    let client = person.client(&peer, directory.path()).await;
    let task = client.connection().task("t-1");
    let waited = tokio::time::timeout(PATIENCE, task.wait(&mut |_| {})).await;
    waited.expect("bounded time").unwrap();
    assert_eq!(person.asked(), 1);
}

/// The task of the question whose answer the journal has.
fn answered_task(directory: &Path) -> Option<String> {
    let journal = rusqlite::Connection::open(directory.join("client/handles.db")).unwrap();
    let sql = "SELECT task_id FROM questions JOIN calls ON seq = call WHERE answer IS NOT NULL";
    journal.query_row(sql, [], |row| row.get(0)).ok()
}

/// Some servers name the task of a question only in a status that comes after it. Without one it is that of the only task there is.
#[tokio::test]
async fn a_question_that_names_no_task_is_that_of_the_status_after_it_or_of_the_only_task() {
    for tasks in [1, 2] {
        let script = Script::asking(&[(None, "Proceed?")]);
        script.lock().unwrap().refuses = Some(503);
        let asks = format!("t-{tasks}");
        let (known, asking, called) = (Arc::clone(&script), asks.clone(), AtomicUsize::new(0));
        let pushed: Arc<Mutex<Option<UnboundedSender<String>>>> = Arc::default();
        // Streams that stay open and silent.
        let others: Mutex<Vec<UnboundedSender<String>>> = Mutex::default();
        let peer = legacy(json!({"requests": {"tools": {"call": {}}}}), move |seen| {
            let mut script = known.lock().unwrap();
            let mut pushed = pushed.lock().unwrap();
            let named = |task: &Value, status: &str| legacy_task(status, json!({"taskId": task}));
            let ask = |script: &mut Script, stream: &UnboundedSender<String>| {
                let Some(mut question) = script.question(&asking) else {
                    return;
                };
                question["params"].as_object_mut().unwrap().remove("_meta");
                let mut status = named(&json!(asking), "input_required");
                status["statusMessage"] = "Proceed?".into();
                let status = json!({"jsonrpc": "2.0", "method": "notifications/tasks/status", "params": status});
                let _ = stream.send(format!("data: {question}\n\n"));
                if tasks > 1 {
                    let _ = stream.send(format!("data: {status}\n\n"));
                }
            };
            let task = &seen.body["params"]["taskId"];
            match seen.method() {
                "tools/call" => {
                    let nth = called.fetch_add(1, Ordering::SeqCst) + 1;
                    let task = named(&json!(format!("t-{nth}")), "working");
                    if let (true, Some(stream)) = (nth == tasks, &*pushed) {
                        ask(&mut script, stream);
                    }
                    seen.result(json!({"task": task}))
                }
                "tasks/get" if script.is_done() && *task == asking => seen.result(named(task, "cancelled")),
                "tasks/get" => seen.result(named(task, "working")),
                "tasks/result" => seen.error(200, -32602, Value::Null),
                "" if seen.verb == "POST" => script.take(&asking, seen),
                "" if seen.verb == "GET" => {
                    let (sender, receiver) = unbounded_channel();
                    // What was asked and not answered is asked again on the next push stream, once the one before is gone.
                    let is_gone = pushed.as_ref().is_none_or(UnboundedSender::is_closed);
                    if script.deliveries > 0 && is_gone {
                        ask(&mut script, &sender);
                    }
                    if is_gone {
                        *pushed = Some(sender);
                    } else {
                        others.lock().unwrap().push(sender);
                    }
                    event_stream(receiver)
                }
                _ => plain(405, ""),
            }
        });
        let (directory, person) = (tempfile::tempdir().unwrap(), Person::default());
        let client = person.client(&peer, directory.path()).await;
        let mut calls = Vec::new();
        for _ in 0..tasks {
            let call = client.start("optional", Value::Null).await.unwrap();
            call.task().await.unwrap();
            calls.push(call);
        }
        until_refused(&peer, 2).await;
        assert_eq!(
            (person.asked(), answered_task(directory.path())),
            (1, Some(asks.clone()))
        );
        drop((calls, client));
        script.lock().unwrap().refuses = None;
        let client = person.client(&peer, directory.path()).await;
        let recorded = client.tasks().await.unwrap();
        let task = recorded.into_iter().find(|task| task.id() == asks).unwrap();
        let waited = tokio::time::timeout(PATIENCE, task.wait(&mut |_| {})).await;
        waited.expect("bounded time").unwrap();
        assert_eq!((person.asked(), said(&script)), (1, vec![json!(0)]), "of {tasks}");
    }
}
