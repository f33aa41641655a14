//! Calls of legacy servers that are no tasks, as other processes of the user see them: what they ask can be answered there, and they can be cancelled.
#![expect(clippy::disallowed_methods, reason = "real sockets are not simulated")]

use crate::peer::{Peer, event_stream, legacy_with, plain};
use longhaul_client::{
    CallError, CallFilter, CallState, Client, Finished, InputRequest, InputResponse, Inputs, JournalError, Outcome,
    RecordedCall, RequestError, SystemClock,
};
use longhaul_ledger::{CallCancellation, ClientJournal};
use serde_json::{Value, json};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use tempfile::TempDir;
use tokio::{
    sync::mpsc::{UnboundedSender, unbounded_channel},
    task::JoinHandle,
};

const PATIENCE: Duration = Duration::from_secs(60);
/// An id as Longhaul's calls have.
const LONGHAUL: &str = "01jd8z0000abcdefghjkmnpqrstvwxyz0123";

/// What a server does.
#[derive(Default)]
struct Script {
    /// What it asks, one after the other, with the id.
    questions: Vec<(Value, &'static str)>,
    /// It asks on the push stream, and not on that of the call.
    asks_by_push: bool,
    takes_keys: bool,
    call: Option<(UnboundedSender<String>, Value)>,
    push_stream: Option<UnboundedSender<String>>,
    responses: Vec<Value>,
    cancelled: Vec<Value>,
    /// Whether the stream of the call was closed when the server was told that it is cancelled.
    was_closed: bool,
}

impl Script {
    /// Sends the next question, or the result.
    fn proceed(&mut self) {
        let Some((stream, id)) = &self.call else { return };
        let (message, is_question) = match self.questions.get(self.responses.len()) {
            Some((id, text)) => (question(id, text), true),
            None => (json!({"jsonrpc": "2.0", "id": id, "result": {"content": []}}), false),
        };
        let on = match &self.push_stream {
            Some(pushes) if is_question && self.asks_by_push => pushes,
            _ => stream,
        };
        let _ = on.send(format!("data: {message}\n\n"));
    }

    fn send(&self, message: &Value) {
        let (stream, _) = self.call.as_ref().unwrap();
        let _ = stream.send(format!("data: {message}\n\n"));
    }
}

fn question(id: &Value, text: &str) -> Value {
    let params = json!({"message": text, "requestedSchema": {"type": "object", "properties": {}}});
    json!({"jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": params})
}

/// It asks the same under each of these ids.
fn asking(ids: &[Value]) -> Script {
    Script {
        questions: ids.iter().map(|id| (id.clone(), "Ship it?")).collect(),
        ..Script::default()
    }
}

fn server(script: &Arc<Mutex<Script>>) -> Peer {
    let script = Arc::clone(script);
    let keys = script
        .lock()
        .unwrap()
        .takes_keys
        .then(|| json!({"dev.longhaul/idempotency": {}}));
    legacy_with(
        json!({"tools": {}, "experimental": keys.unwrap_or(json!({}))}),
        move |seen| {
            let mut script = script.lock().unwrap();
            match (seen.method(), seen.verb.as_str()) {
                ("tools/call", _) => {
                    let (sender, receiver) = unbounded_channel();
                    script.call = Some((sender, seen.body["id"].clone()));
                    script.proceed();
                    event_stream(receiver)
                }
                ("", "POST") => {
                    script.responses.push(seen.body.clone());
                    script.proceed();
                    plain(202, "")
                }
                ("", "GET") if script.asks_by_push => {
                    let (sender, receiver) = unbounded_channel();
                    script.push_stream = Some(sender);
                    event_stream(receiver)
                }
                ("notifications/cancelled", _) => {
                    script.was_closed = script.call.as_ref().is_none_or(|(stream, _)| stream.is_closed());
                    script.cancelled.push(seen.params()["requestId"].clone());
                    plain(202, "")
                }
                _ => plain(405, ""),
            }
        },
    )
}

/// A process that makes the call and asks a user who does not answer, and another one.
struct Scene {
    _folder: TempDir,
    script: Arc<Mutex<Script>>,
    peer: Peer,
    calling: JoinHandle<Result<Outcome, CallError>>,
    /// Of the other process.
    journal: ClientJournal,
    /// What the user was asked.
    asked: Arc<Mutex<Vec<InputRequest>>>,
}

impl Scene {
    async fn begin(script: Script) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("handles.db");
        let script = Arc::new(Mutex::new(script));
        let peer = server(&script);
        let asked: Arc<Mutex<Vec<InputRequest>>> = Arc::default();
        let noted = Arc::clone(&asked);
        let inputs = Inputs::new().elicit(move |question| {
            noted.lock().unwrap().push(question);
            std::future::pending()
        });
        let (connection, _) = peer.connection_with(|options| options.inputs = Some(inputs.into()));
        let client = Client::recorded(connection, ClientJournal::open(&file).await.unwrap());
        let calling = tokio::spawn(async move { client.call("größe", json!({})).await });
        Self {
            _folder: folder,
            script,
            peer,
            calling,
            journal: ClientJournal::open(&file).await.unwrap(),
            asked,
        }
    }

    /// Waits until the other process is shown a question other than these.
    async fn question(&self, besides: &[&str]) -> (RecordedCall, InputRequest) {
        until(async || {
            let call = self.journal.list(CallFilter::default()).await.unwrap().pop()?;
            let open = self.journal.call_questions(call.id).await.unwrap();
            assert!(open.len() <= 1, "{open:?}");
            let question = open.into_iter().next()?;
            let is_known = besides.contains(&question.key.as_deref().unwrap());
            // As it is with the question.
            let call = self.journal.get(call.id).await.unwrap();
            (!is_known).then_some((call, question))
        })
        .await
    }

    async fn outcome(self) -> Result<Outcome, CallError> {
        tokio::time::timeout(PATIENCE, self.calling).await.unwrap().unwrap()
    }
}

async fn until<T>(look: impl AsyncFn() -> Option<T>) -> T {
    let looking = async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, looking).await.unwrap()
}

#[tokio::test]
async fn what_a_plain_call_asks_is_answered_by_another_process() {
    for asks_by_push in [false, true] {
        let scene = Scene::begin(Script {
            asks_by_push,
            ..asking(&[json!(7), json!(8)])
        })
        .await;
        let (call, first) = scene.question(&[]).await;
        assert_eq!((call.state, call.asks), (CallState::InFlight, true));
        assert_eq!((first.message(), first.key.as_deref()), ("Ship it?", Some("q1")));
        let answer = |n: u32| InputResponse::accept(json!({"n": n}));
        let other = &scene.journal;
        assert!(!other.answer_call(call.id, "q2", &answer(0)).await.unwrap());
        let text = InputResponse::accept(json!("yes"));
        let odd = other.answer_call(call.id, "q1", &text).await.unwrap_err();
        assert!(matches!(odd, JournalError::InvalidAnswer(_)), "{odd}");
        assert!(other.answer_call(call.id, "q1", &answer(1)).await.unwrap());
        assert!(!other.answer_call(call.id, "q1", &answer(0)).await.unwrap());
        // The same text under another id is another question.
        let (_, second) = scene.question(&["q1"]).await;
        assert_eq!(second.key.as_deref(), Some("q2"));
        assert!(other.answer_call(call.id, "q2", &answer(2)).await.unwrap());
        let (script, asked) = (Arc::clone(&scene.script), Arc::clone(&scene.asked));
        assert!(matches!(scene.outcome().await, Ok(Outcome::Result { .. })));
        let responses: Vec<Value> = script.lock().unwrap().responses.clone();
        let said: Vec<_> = responses
            .iter()
            .map(|response| (response["id"].clone(), response["result"]["content"]["n"].clone()))
            .collect();
        assert_eq!(said, [(json!(7), json!(1)), (json!(8), json!(2))], "{asks_by_push}");
        let keys: Vec<_> = asked
            .lock()
            .unwrap()
            .iter()
            .map(|question| question.key.clone())
            .collect();
        assert_eq!(keys, [Some("q1".to_owned()), Some("q2".to_owned())]);
    }
}

#[tokio::test]
async fn a_question_of_a_longhaul_server_has_the_key_of_its_id() {
    let id = json!(format!("{LONGHAUL}.in-1.1"));
    let scene = Scene::begin(asking(&[id])).await;
    let (call, question) = scene.question(&[]).await;
    assert_eq!(question.key.as_deref(), Some("in-1"));
    let decline = InputResponse::decline();
    assert!(scene.journal.answer_call(call.id, "in-1", &decline).await.unwrap());
    let script = Arc::clone(&scene.script);
    scene.outcome().await.unwrap();
    assert_eq!(script.lock().unwrap().responses[0]["result"]["action"], "decline");
}

#[tokio::test]
async fn a_question_that_the_server_withdraws_is_not_asked_any_more() {
    for takes_keys in [false, true] {
        let scene = Scene::begin(Script {
            takes_keys,
            ..asking(&[json!(7)])
        })
        .await;
        let (call, _) = scene.question(&[]).await;
        let withdrawn = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}});
        scene.script.lock().unwrap().send(&withdrawn);
        until(async || {
            let open = scene.journal.call_questions(call.id).await.unwrap();
            open.is_empty().then_some(())
        })
        .await;
        let answer = InputResponse::accept(json!({}));
        assert!(!scene.journal.answer_call(call.id, "q1", &answer).await.unwrap());
        assert!(!scene.journal.get(call.id).await.unwrap().asks);
        // The call goes on.
        let (_, id) = scene.script.lock().unwrap().call.clone().unwrap();
        let result = json!({"jsonrpc": "2.0", "id": id, "result": {"content": []}});
        scene.script.lock().unwrap().send(&result);
        assert!(matches!(scene.outcome().await, Ok(Outcome::Result { .. })));
    }
}

#[tokio::test]
async fn a_call_is_cancelled_by_another_process() {
    let scene = Scene::begin(asking(&[json!(7)])).await;
    let (call, _) = scene.question(&[]).await;
    let other = scene.journal.clone();
    assert_eq!(other.cancel_call(call.id).await.unwrap(), CallCancellation::Requested);
    let (script, peer) = (Arc::clone(&scene.script), scene.peer.url());
    let error = tokio::time::timeout(PATIENCE, scene.calling)
        .await
        .unwrap()
        .unwrap()
        .unwrap_err();
    assert!(
        matches!(error, CallError::Request(RequestError::CancelledElsewhere)),
        "{peer}: {error}"
    );
    let now = other.get(call.id).await.unwrap();
    assert_eq!((now.state, now.asks), (CallState::Finished(Finished::Cancelled), false));
    let (_, request) = script.lock().unwrap().call.clone().unwrap();
    until(async || (script.lock().unwrap().cancelled == [request.clone()]).then_some(())).await;
    assert!(script.lock().unwrap().responses.is_empty());
    let refused = other.cancel_call(call.id).await.unwrap_err();
    assert!(matches!(refused, JournalError::WrongState { .. }), "{refused}");
    assert_eq!(other.call_questions(call.id).await.unwrap(), []);
}

/// A server does not find a call whose stream is closed, and with an idempotency key goes on with it.
#[tokio::test]
async fn a_call_with_a_key_is_cancelled_before_its_stream_is_closed() {
    let folder = tempfile::tempdir().unwrap();
    let journal = ClientJournal::open(&folder.path().join("handles.db")).await.unwrap();
    let script = Arc::new(Mutex::new(Script {
        takes_keys: true,
        // One that never comes.
        questions: vec![(Value::Null, "")],
        asks_by_push: true,
        ..Script::default()
    }));
    let peer = server(&script);
    for by_another_process in [true, false] {
        let (connection, _) = peer.connection_with(|options| options.clock = Arc::new(SystemClock));
        let client = Client::recorded(connection, journal.clone());
        {
            let mut script = script.lock().unwrap();
            script.cancelled.clear();
            script.call = None;
        }
        let call = client.start("forbidden", Value::Null).await.unwrap();
        let recorded = until(async || client.calls().await.unwrap().pop()).await;
        until(async || (script.lock().unwrap().call.is_some()).then_some(())).await;
        match by_another_process {
            true => drop(journal.cancel_call(recorded.id).await.unwrap()),
            false => drop(call.cancel().await),
        }
        let error = call.result().await.unwrap_err();
        let (cancelled, was_closed) = {
            let script = script.lock().unwrap();
            (script.cancelled.len(), script.was_closed)
        };
        assert_eq!((cancelled, was_closed), (1, false));
        match error {
            CallError::Request(RequestError::CancelledElsewhere) => assert!(by_another_process),
            CallError::OutcomeUnknown { idempotency_key } => {
                assert_eq!((by_another_process, idempotency_key), (false, None))
            }
            other => panic!("{other}"),
        }
        let now = journal.get(recorded.id).await.unwrap();
        assert_eq!(
            now.state == CallState::Finished(Finished::Cancelled),
            by_another_process,
            "{now:?}"
        );
    }
}
