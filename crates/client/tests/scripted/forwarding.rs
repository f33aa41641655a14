//! Requests of someone else: what a gateway sends, and how it finds out which request a server asks for.

use crate::peer::{Peer, legacy, modern};
use longhaul_client::{CallOptions, CallResponse, InputResponse, Inputs, LogLevel, Logging, Outcome};
use longhaul_core::{Json, JsonMembers};
use serde_json::{Map, Value, json};
use std::sync::{Arc, Mutex};

fn done() -> Value {
    json!({"resultType": "complete", "content": []})
}

fn elicitation() -> Value {
    json!({"method": "elicitation/create", "params": {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}})
}

fn log_message() -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "said"}})
}

/// The sources of questions and of log messages, in their order.
type Sources = Arc<Mutex<Vec<(&'static str, Option<u64>)>>>;

async fn call(peer: &Peer, options: CallOptions) -> Vec<(&'static str, Option<u64>)> {
    let sources = Sources::default();
    let (asked, logged) = (Arc::clone(&sources), Arc::clone(&sources));
    let (connection, _) = peer.connection_with(|options| {
        let inputs = Inputs::new().elicit(move |question| {
            asked.lock().unwrap().push(("asked", question.source));
            std::future::ready(Ok(InputResponse::accept(json!({}))))
        });
        options.inputs = Some(inputs.into());
        options.logging = Some(Logging::new(LogLevel::Info, move |message| {
            logged.lock().unwrap().push(("logged", message.source));
        }));
    });
    let tools = connection.list_tools().await.unwrap();
    let called = connection
        .call_tool_with(&tools[0], &Map::new(), &options, &mut |_| {})
        .await
        .unwrap();
    assert!(matches!(called, CallResponse::Done(Outcome::Result { .. })));
    sources.lock().unwrap().clone()
}

fn numbered(source: u64) -> CallOptions {
    let mut options = CallOptions::default();
    options.source = Some(source);
    options
}

/// Two calls of one connection are told apart by the number that the caller has given them.
#[tokio::test]
async fn what_is_asked_and_logged_on_the_stream_of_a_call_has_its_number() {
    let rounds = modern(
        |seen| match (seen.method(), seen.params()["inputResponses"].is_object()) {
            ("tools/call", false) => seen.stream(
                &[log_message()],
                json!({"resultType": "input_required", "inputRequests": {"a": elicitation()}}),
            ),
            ("tools/call", true) => seen.result(done()),
            (other, _) => panic!("{other}"),
        },
    );
    assert_eq!(
        call(&rounds, numbered(7)).await,
        [("logged", Some(7)), ("asked", Some(7))]
    );
    assert_eq!(
        call(&rounds, CallOptions::default()).await,
        [("logged", None), ("asked", None)]
    );

    let mut request = elicitation();
    request["jsonrpc"] = "2.0".into();
    request["id"] = 1.into();
    let requests = legacy(Value::Null, move |seen| match seen.method() {
        "tools/call" => seen.stream(&[request.clone(), log_message()], done()),
        _ => crate::peer::plain(202, ""),
    });
    let mut sources = call(&requests, numbered(8)).await;
    sources.sort_unstable();
    // Whether the handler has been called by the end of the call is the scheduler's choice.
    sources.retain(|(kind, _)| *kind == "logged");
    assert_eq!(sources, [("logged", Some(8))]);
}

/// Numbers keep their digits, and the members of `_meta` go along.
#[tokio::test]
async fn a_call_is_sent_with_the_text_of_its_arguments_and_with_meta() {
    let peer = modern(|seen| seen.result(done()));
    let mut options = numbered(1);
    options.arguments_text = Some(Json::parse(r#"{"x": "1" ,"big":[true]}"#).unwrap());
    options.meta = JsonMembers::from([("com.example/k".to_owned(), Json::trusted("1"))]);
    call(&peer, options).await;
    let sent = &peer.calls_of("tools/call")[0];
    assert_eq!(sent.params()["arguments"], json!({"x": "1", "big": [true]}));
    assert_eq!(sent.params()["_meta"]["com.example/k"], 1);
    assert!(sent.params()["_meta"]["progressToken"].is_u64());
}

/// What the server asks for a prompt is answered, and the result is what it wrote.
#[tokio::test]
async fn a_forwarded_request_is_answered_in_rounds() {
    let peer = modern(
        |seen| match (seen.method(), seen.params()["inputResponses"].is_object()) {
            ("prompts/get", false) => {
                seen.result(json!({"resultType": "input_required", "inputRequests": {"a": elicitation()}}))
            }
            ("prompts/get", true) => seen.result(json!({"resultType": "complete", "messages": [], "later": 1.50})),
            (other, _) => panic!("{other}"),
        },
    );
    let sources = Arc::new(Mutex::new(Vec::new()));
    let asked = Arc::clone(&sources);
    let (connection, _) = peer.connection_with(|options| {
        let inputs = Inputs::new().elicit(move |question| {
            asked.lock().unwrap().push(question.source);
            std::future::ready(Ok(InputResponse::decline()))
        });
        options.inputs = Some(inputs.into());
    });
    let params = JsonMembers::from([("name".to_owned(), Json::trusted("\"p\""))]);
    let result = connection
        .forward("prompts/get", &params, &numbered(3), &mut |_| {})
        .await
        .unwrap();
    assert!(result.as_str().contains(r#""later":1.5"#), "{result:?}");
    assert_eq!(*sources.lock().unwrap(), [Some(3)]);
}
