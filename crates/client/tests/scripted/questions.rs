//! What servers ask, in all ways of asking.

use crate::{
    peer::{Peer, ReceivedRequest, legacy, modern, plain},
    task::{created, legacy_task, modern_task},
};
use axum::{
    body::Body,
    http::{Method, Response},
};
use longhaul_client::{CallResponse, InputResponse, Inputs, Outcome, RequestError, RpcFailure};
use serde_json::{Map, Value, json};
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

/// Answers elicitations with their message, and counts them by it.
fn echoing() -> (Inputs, Arc<Mutex<Vec<String>>>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    let inputs = Inputs::new()
        .elicit(move |question| {
            seen.lock().unwrap().push(question.message().to_owned());
            async move { Ok(InputResponse::accept(json!({"said": question.message()}))) }
        })
        .sample(false, |_| async {
            Err(RpcFailure {
                code: -1,
                message: "no model here".into(),
                data: None,
            })
        });
    (inputs, asked)
}

fn elicitation(message: &str) -> Value {
    json!({"method": "elicitation/create", "params": {"message": message, "requestedSchema": {"type": "object", "properties": {}}}})
}

fn done() -> Value {
    json!({"content": [{"type": "text", "text": "x"}]})
}

async fn call(peer: &Peer, inputs: Inputs) -> Result<Outcome, RequestError> {
    let (connection, _) = peer.connection_with(|options| {
        options.inputs = Some(inputs.clone().into());
        options.max_response = 1 << 20;
    });
    let tools = connection.list_tools().await.unwrap();
    match connection.call_tool(&tools[0], &Map::new(), &mut |_| {}).await? {
        CallResponse::Done(outcome) => Ok(outcome),
        CallResponse::Task(task) => task.wait(&mut |_| {}).await,
    }
}

fn accepted(said: &str) -> Value {
    json!({"action": "accept", "content": {"said": said}})
}

/// The state comes back byte for byte, under a new id, and only with the answers to its own round.
#[tokio::test]
async fn a_modern_request_is_sent_again_with_the_answers() {
    let peer = modern(|seen| match seen.params()["requestState"].as_str() {
        None => seen.result(json!({
            "resultType": "input_required", "requestState": "s\u{e9} =1",
            "inputRequests": {"a": elicitation("A?"), "b": elicitation("B?")},
        })),
        Some("s\u{e9} =1") => seen.result(json!({"resultType": "input_required", "requestState": "second"})),
        Some(_) => seen.result(json!({"resultType": "complete", "content": []})),
    });
    let (inputs, asked) = echoing();
    assert!(matches!(call(&peer, inputs).await.unwrap(), Outcome::Result { .. }));
    let calls = peer.calls_of("tools/call");
    assert_eq!(calls.len(), 3);
    assert_eq!(
        calls[1].params()["inputResponses"],
        json!({"a": accepted("A?"), "b": accepted("B?")})
    );
    assert_eq!(calls[2].params().get("inputResponses"), None);
    assert!(calls[0].body["id"] != calls[1].body["id"] && calls[1].body["id"] != calls[2].body["id"]);
    let declared = &calls[0].params()["_meta"]["io.modelcontextprotocol/clientCapabilities"];
    assert_eq!(
        (&declared["elicitation"], &declared["sampling"]),
        (&json!({"form": {}}), &json!({}))
    );
    asked.lock().unwrap().sort();
    assert_eq!(*asked.lock().unwrap(), ["A?", "B?"]);
}

/// A thousand questions are answered; of more than that nobody is asked any.
#[tokio::test]
async fn a_round_may_ask_a_thousand_questions() {
    for (count, is_answered) in [(1_000, true), (1_001, false)] {
        let peer = modern(move |seen| match seen.params().get("inputResponses") {
            None => {
                let requests: Map<String, Value> = (0..count)
                    .map(|nth| (nth.to_string(), elicitation(&nth.to_string())))
                    .collect();
                seen.result(json!({"resultType": "input_required", "inputRequests": requests}))
            }
            Some(_) => seen.result(done()),
        });
        let (inputs, asked) = echoing();
        let called = call(&peer, inputs).await;
        assert_eq!(called.is_ok(), is_answered, "{called:?}");
        assert_eq!(asked.lock().unwrap().len(), if is_answered { count } else { 0 });
        if let Err(error) = called {
            assert!(error.to_string().contains("1001 questions at once"), "{error}");
        }
    }
}

/// Each key is asked once. A server that keeps nothing between two rounds gets the answer once more, and then it has asked too often.
#[tokio::test]
async fn a_round_that_asks_the_same_again_asks_the_user_once() {
    for repeats in [1, usize::MAX] {
        let rounds = AtomicUsize::new(0);
        let peer = modern(move |seen| match rounds.fetch_add(1, Ordering::SeqCst) <= repeats {
            true => seen.result(json!({"resultType": "input_required", "inputRequests": {"a": elicitation("A?")}})),
            false => seen.result(done()),
        });
        let (inputs, asked) = echoing();
        let called = call(&peer, inputs).await;
        let calls = peer.calls_of("tools/call");
        assert_eq!(calls.len(), 3);
        for again in &calls[1..] {
            assert_eq!(again.params()["inputResponses"], json!({"a": accepted("A?")}));
        }
        assert_eq!(*asked.lock().unwrap(), ["A?"]);
        match repeats {
            1 => assert!(matches!(called.unwrap(), Outcome::Result { .. })),
            _ => {
                let error = called.unwrap_err().to_string();
                assert!(
                    error.contains("it asks \"a\" again, which was answered twice"),
                    "{error}"
                );
            }
        }
    }
}

/// A round has keys of its own, so another question may have the key of an earlier one.
#[tokio::test]
async fn another_question_under_the_key_of_an_earlier_round_is_asked() {
    let peer = modern(|seen| {
        let text = match seen.params()["inputResponses"]["a"]["content"]["said"].as_str() {
            None => "A?",
            Some("A?") => "B?",
            Some(_) => return seen.result(done()),
        };
        seen.result(json!({"resultType": "input_required", "inputRequests": {"a": elicitation(text)}}))
    });
    let (inputs, asked) = echoing();
    call(&peer, inputs).await.unwrap();
    assert_eq!(*asked.lock().unwrap(), ["A?", "B?"]);
}

/// An elicitation without an answer is answered with `cancel`; for sampling there is no such answer.
#[tokio::test]
async fn what_has_no_answer_is_cancelled() {
    let sampling = json!({"method": "sampling/createMessage", "params": {}});
    let peer =
        modern(move |seen| seen.result(json!({"resultType": "input_required", "inputRequests": {"a": sampling}})));
    let error = call(&peer, echoing().0).await.unwrap_err();
    assert!(
        matches!(&error, RequestError::Unanswered { method, .. } if method == "sampling/createMessage"),
        "{error}"
    );
    assert!(!error.is_refusal(), "the tool has run as far as to its question");
    assert_eq!(peer.calls_of("tools/call").len(), 1);

    let peer = modern(|seen| match seen.params()["inputResponses"].is_null() {
        true => seen.result(json!({"resultType": "input_required", "inputRequests": {"a": elicitation("?")}})),
        false => seen.result(done()),
    });
    let failing = Inputs::new().elicit(|_| async {
        Err(RpcFailure {
            code: -1,
            message: "the window was closed".into(),
            data: None,
        })
    });
    call(&peer, failing).await.unwrap();
    assert_eq!(
        peer.calls_of("tools/call")[1].params()["inputResponses"],
        json!({"a": {"action": "cancel"}})
    );
}

/// Nobody has seen the question, so nobody has answered it, not even with `cancel`.
#[tokio::test]
async fn a_question_that_nobody_has_seen_is_not_answered() {
    let peer = modern(|seen| match seen.params()["inputResponses"].is_null() {
        true => seen.result(json!({"resultType": "input_required", "inputRequests": {"a": elicitation("?")}})),
        false => seen.result(done()),
    });
    let error = call(&peer, Inputs::deferred()).await.unwrap_err();
    assert!(
        matches!(&error, RequestError::Unanswered { method, .. } if method == "elicitation/create"),
        "{error}"
    );
    assert!(error.to_string().contains("there is no task yet"), "{error}");
    assert_eq!(peer.calls_of("tools/call").len(), 1);
}

/// A modern task that asks twice: `first`, then `first` and `second`.
fn asks_twice(update: impl Fn(&ReceivedRequest) -> Option<Response<Body>> + Send + Sync + 'static) -> Peer {
    let answered = Mutex::new(Vec::<String>::new());
    modern(move |seen| match seen.method() {
        "tools/call" => seen.result(created()),
        "tasks/update" => update(seen).unwrap_or_else(|| {
            let keys = seen.params()["inputResponses"].as_object().unwrap().keys().cloned();
            answered.lock().unwrap().extend(keys);
            seen.result(json!({"resultType": "complete"}))
        }),
        "tasks/get" => {
            let answered = answered.lock().unwrap();
            let open: Map<String, Value> = [("first", "1?"), ("second", "2?")]
                .into_iter()
                .filter(|(key, _)| !answered.iter().any(|known| known == key))
                .map(|(key, message)| (key.to_owned(), elicitation(message)))
                .collect();
            match open.is_empty() {
                true => seen.result(modern_task("completed", json!({"result": done()}))),
                false => seen.result(modern_task("input_required", json!({"inputRequests": open}))),
            }
        }
        _ => plain(404, ""),
    })
}

#[tokio::test]
async fn each_question_of_a_task_is_asked_and_answered_once() {
    let refusals = AtomicUsize::new(0);
    // The first answers do not arrive: they are sent again, and the user is not asked again.
    let peer = asks_twice(move |_| (refusals.fetch_add(1, Ordering::Relaxed) < 2).then(|| plain(503, "busy")));
    let (inputs, asked) = echoing();
    assert!(matches!(call(&peer, inputs).await.unwrap(), Outcome::Result { .. }));
    let mut asked = asked.lock().unwrap().clone();
    asked.sort();
    assert_eq!(asked, ["1?", "2?"]);
    let updates = peer.calls_of("tasks/update");
    let taken = &updates.last().unwrap().params()["inputResponses"];
    assert_eq!(taken["second"], accepted("2?"));
    assert_eq!(updates[0].header("mcp-name"), Some("t-1"));
}

#[tokio::test]
async fn a_task_that_cannot_be_answered_is_cancelled() {
    let peer = modern(|seen| match seen.method() {
        "tools/call" => seen.result(created()),
        "tasks/get" => {
            let asked = json!({"s": {"method": "sampling/createMessage", "params": {}}});
            seen.result(modern_task("input_required", json!({"inputRequests": asked})))
        }
        _ => seen.result(json!({"resultType": "complete"})),
    });
    let error = call(&peer, echoing().0).await.unwrap_err();
    assert!(matches!(error, RequestError::Unanswered { .. }), "{error}");
    assert_eq!(peer.calls_of("tasks/cancel").len(), 1);
}

/// The question comes on the stream of `tasks/result`.
#[tokio::test]
async fn a_legacy_task_asks_on_the_stream_of_its_result() {
    let answered = Arc::new(Mutex::new(false));
    let known = Arc::clone(&answered);
    let task = |status: &str| legacy_task(status, json!({}));
    let peer = legacy(json!({"requests": {"tools": {"call": {}}}}), move |seen| {
        match seen.method() {
            "tools/call" => seen.result(json!({"task": task("working")})),
            "tasks/get" if *known.lock().unwrap() => seen.result(task("completed")),
            "tasks/get" => seen.result(task("input_required")),
            "tasks/result" if *known.lock().unwrap() => seen.result(done()),
            "tasks/result" => {
                let mut asked = elicitation("Which?");
                asked["jsonrpc"] = "2.0".into();
                asked["id"] = 7.into();
                asked["params"]["_meta"] = json!({"io.modelcontextprotocol/related-task": {"taskId": "t-1"}});
                seen.stream(&[asked], done())
            }
            // The push stream.
            _ if seen.verb == Method::GET => plain(405, ""),
            _ => {
                if seen.body["id"] == 7 {
                    *known.lock().unwrap() = true;
                }
                plain(202, "")
            }
        }
    });
    let (connection, _) = peer.connection_with(|options| options.inputs = Some(echoing().0.into()));
    let tools = connection.list_tools().await.unwrap();
    let optional = tools.iter().find(|tool| tool.name == "optional").unwrap();
    let CallResponse::Task(task) = connection.call_tool(optional, &Map::new(), &mut |_| {}).await.unwrap() else {
        panic!("not a task")
    };
    assert!(matches!(task.wait(&mut |_| {}).await.unwrap(), Outcome::Result { .. }));
    let seen = peer.seen();
    // A server may ask on the push stream alone, so it is open before anything is asked for.
    let nth = |wanted: &dyn Fn(&ReceivedRequest) -> bool| seen.iter().position(wanted).unwrap();
    assert!(nth(&|seen| seen.verb == Method::GET) < nth(&|seen| seen.method() == "tools/list"));
    let answer = seen.iter().find(|seen| seen.body["id"] == 7).unwrap();
    assert_eq!(answer.body["result"]["content"], json!({"said": "Which?"}));
    assert_eq!(
        answer.body["result"]["_meta"]["io.modelcontextprotocol/related-task"],
        json!({"taskId": "t-1"})
    );
    assert_eq!(answer.header("mcp-session-id"), Some("session-1"));
    assert!(*answered.lock().unwrap());
}

/// The reference server does not cancel its request when the task is cancelled.
#[tokio::test]
async fn the_question_of_a_legacy_task_is_withdrawn_when_the_task_has_ended() {
    let asked = Arc::new(AtomicUsize::new(0));
    let is_asked = Arc::clone(&asked);
    let peer = legacy(json!({"requests": {"tools": {"call": {}}}}), move |seen| {
        match seen.method() {
            "tasks/get" if is_asked.load(Ordering::Relaxed) > 0 => seen.result(legacy_task("cancelled", json!({}))),
            "tasks/get" => seen.result(legacy_task("input_required", json!({}))),
            "tasks/result" => {
                let mut request = elicitation("?");
                request["jsonrpc"] = "2.0".into();
                request["id"] = "q".into();
                request["params"]["_meta"] = json!({"io.modelcontextprotocol/related-task": {"taskId": "t-1"}});
                seen.stream(&[request], done())
            }
            _ => plain(202, ""),
        }
    });
    let (ended, mut has_ended) = tokio::sync::mpsc::channel::<()>(1);
    let inputs = Inputs::new().elicit(move |_| {
        asked.fetch_add(1, Ordering::Relaxed);
        let open = ended.clone();
        async move {
            let _open = open;
            std::future::pending().await
        }
    });
    let (connection, _) = peer.connection_with(|options| options.inputs = Some(inputs.clone().into()));
    let outcome = connection.task("t-1").wait(&mut |_| {}).await.unwrap();
    assert_eq!(outcome, Outcome::Cancelled);
    // Only the handler itself is left when its answer is dropped.
    drop((connection, inputs));
    assert_eq!(has_ended.recv().await, None);
    assert!(peer.seen().iter().all(|seen| seen.body["id"] != "q"));
}
