//! Handlers that ask while their request lasts: run again in the modern generation, awaited in the legacy one.

use crate::{
    client::Connection,
    questions::request,
    request::{Post, everything},
    rounds::{accept, answer},
    server::{MAX_BODY, Server},
    stage::{Counter, HandlerFuture, form},
};
use longhaul_core::{Json, LogLevel};
use longhaul_runtime::{Completer, Prompt, PromptHandler, Question, RequestContext};
use serde_json::{Value, json};
use std::{collections::BTreeMap, sync::Arc};

/// Asks the questions in its argument: names separated by spaces together, by semicolons one after the other.
#[derive(Default)]
struct Curious {
    runs: Counter,
    dropped: Counter,
}

impl PromptHandler for Curious {
    fn get(self: Arc<Self>, arguments: BTreeMap<String, String>, cx: RequestContext) -> HandlerFuture<Json> {
        Box::pin(async move {
            self.runs.count();
            let mut running = Running(Some(self.dropped.clone()));
            cx.progress(1.0, None, Some("asking"));
            cx.log(LogLevel::Error, None, Json::from(json!("asking")));
            let mut answers = Vec::new();
            for names in arguments["ask"].split(';') {
                let asked = names.split(' ').map(|name| match name {
                    "wait" => panic!("nobody waits here"),
                    "nameless" => cx.ask(Question {
                        name: None,
                        ..form("nameless")
                    }),
                    name => cx.ask(form(name)),
                });
                answers.extend(futures_util::future::try_join_all(asked).await?);
            }
            let text = format!("[{}]", answers.iter().map(Json::as_str).collect::<Vec<_>>().join(","));
            running.0 = None;
            let message = json!({"role": "user", "content": {"type": "text", "text": text}});
            Ok(Json::from(json!({"messages": [message]})))
        })
    }
}

/// Counts when it is dropped before its end.
struct Running(Option<Counter>);

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(dropped) = &self.0 {
            dropped.count();
        }
    }
}

impl Completer for Curious {
    fn complete(self: Arc<Self>, _: String, _: String, _: Json, cx: RequestContext) -> HandlerFuture<Vec<String>> {
        Box::pin(async move {
            cx.ask(form("name")).await?;
            Ok(Vec::new())
        })
    }
}

async fn curious() -> (Server, Arc<Curious>) {
    let server = Server::start().await;
    let handler = Arc::<Curious>::default();
    server.engine.catalog().put_prompt(Prompt {
        name: "curious".into(),
        shown: Json::from(json!({"name": "curious", "arguments": [{"name": "ask"}]})),
        required: Vec::new(),
        handler: Arc::clone(&handler) as _,
        completer: Some(Arc::clone(&handler) as _),
    });
    (server, handler)
}

fn params(ask: &str) -> Value {
    json!({"name": "curious", "arguments": {"ask": ask}})
}

fn prompt(ask: &str) -> Post {
    Post::modern_with("prompts/get", params(ask), everything())
}

fn names(round: &Value) -> Vec<&str> {
    assert_eq!(round["resultType"], "input_required", "{round}");
    let requests = round["inputRequests"].as_object().unwrap();
    let mut names: Vec<&str> = requests.keys().map(String::as_str).collect();
    // An object has no order, even if the library that reads it keeps one.
    names.sort_unstable();
    names
}

fn answers(result: &Value) -> Value {
    let text = result["messages"][0]["content"]["text"].as_str();
    serde_json::from_str(text.unwrap_or_else(|| panic!("{result}"))).unwrap()
}

#[tokio::test]
async fn u_10_a_handler_is_run_again_with_all_answers_so_far() {
    let (server, handler) = curious().await;
    let first = prompt("name town;nameless;name");
    let decline = json!({"action": "decline"});
    let mut round = server.result(&first).await;
    assert_eq!(names(&round), ["name", "town"]);
    for (given, asked) in [
        (json!({"town": accept("town", "Ulm"), "other": {}}), "name"),
        // The third question.
        (answer("name", "Ann"), "in-3"),
        // Asked again, by another name.
        (json!({"in-3": decline, "name": accept("name", "Bob")}), "name-2"),
    ] {
        round = server.result(&first.retry(&round, given)).await;
        assert_eq!(names(&round), [asked]);
    }
    let last = json!({"name-2": accept("name", "Eve")});
    let result = server.result(&first.retry(&round, last)).await;
    let expected = json!([
        accept("name", "Ann"),
        accept("town", "Ulm"),
        decline,
        accept("name", "Eve")
    ]);
    assert_eq!(answers(&result), expected);
    assert_eq!((handler.runs.get(), handler.dropped.get()), (5, 4));
}

#[tokio::test]
async fn u_12_a_handlers_state_is_signed_too() {
    let (server, _) = curious().await;
    let first = prompt("name");
    let round = server.result(&first).await;
    let answered = first.retry(&round, answer("name", "Ann"));
    let mut tampered = answered.clone();
    tampered.body["params"]["requestState"] = json!(format!("{}-TAMPERED", round["requestState"].as_str().unwrap()));
    let garbled = [json!(12345), json!({}), json!({"action": "accept"})];
    let garbled = garbled.map(|garbled| first.retry(&round, json!({"name": garbled})));
    let other = prompt("town").retry(&round, answer("name", "Ann"));
    for wrong in [other, tampered].iter().chain(&garbled) {
        assert_eq!(server.error(wrong).await, (200, -32602), "{}", wrong.body);
    }
    answers(&server.result(&answered).await);
}

#[tokio::test]
async fn answers_to_a_first_request_are_taken_by_name() {
    let (server, _) = curious().await;
    let mut early = prompt("name");
    early.body["params"]["inputResponses"] = json!({"name": accept("name", "Ann"), "extra": {}});
    assert_eq!(answers(&server.result(&early).await), json!([accept("name", "Ann")]));
    early.body["params"]["inputResponses"] = json!({"wrong": accept("name", "Ann")});
    assert_eq!(names(&server.result(&early).await), ["name"]);
}

#[tokio::test]
async fn a_client_that_cannot_be_asked_gets_the_capability_to_declare() {
    let (server, _) = curious().await;
    let plain = Post::modern_plain("prompts/get", params("name"));
    assert_eq!(server.error(&plain).await, (400, -32021));
    let legacy = Post::legacy(Some(&server.session().await), "prompts/get", params("name"));
    let mut client = server.stream(&legacy).await;
    let messages = client.messages(&legacy).await;
    assert_eq!(messages.last().unwrap()["error"]["code"], -32603);
}

#[tokio::test]
async fn messages_of_a_handler_are_sent_before_its_questions() {
    let (server, _) = curious().await;
    let mut post = prompt("name").progress_token(json!(5));
    post.body["params"]["_meta"]["io.modelcontextprotocol/logLevel"] = json!("debug");
    let mut client = server.stream(&post).await;
    let messages = client.messages(&post).await;
    let methods: Vec<&Value> = messages.iter().map(|message| &message["method"]).collect();
    let [progress, log] = ["progress", "message"].map(|kind| json!(format!("notifications/{kind}")));
    assert_eq!(methods, [&progress, &log, &Value::Null]);
    assert_eq!(names(&messages[2]["result"]), ["name"]);
}

#[tokio::test]
async fn u_10_completions_are_never_answered_with_questions() {
    let (server, _) = curious().await;
    let params = json!({"ref": {"type": "ref/prompt", "name": "curious"}, "argument": {"name": "ask", "value": ""}});
    let post = Post::modern_with("completion/complete", params, everything());
    assert_eq!(server.error(&post).await, (200, -32603));
}

/// A legacy session, a `prompts/get` in it that asks, and its stream.
async fn asking(server: &Server, ask: &str) -> (String, Post, Connection) {
    let session = server.session_that_can_be_asked().await;
    let call = Post::legacy(Some(&session), "prompts/get", params(ask));
    let mut client = server.stream(&call).await;
    // Info and above.
    assert_eq!(client.pushed().await["method"], "notifications/message");
    (session, call, client)
}

#[tokio::test]
async fn a_legacy_client_is_asked_on_the_stream_and_the_handler_runs_once() {
    let (server, handler) = curious().await;
    let (session, call, mut client) = asking(&server, "name town;name").await;
    let names = ["name", "town", "name"];
    for name in names {
        let asked = request(&mut client).await;
        server.answer(&session, &asked, accept(name, "x")).await;
    }
    let expected = names.map(|name| accept(name, "x"));
    assert_eq!(answers(&client.only_result(&call).await), json!(expected));
    assert_eq!((handler.runs.get(), handler.dropped.get()), (1, 0));
}

#[tokio::test]
async fn a_response_from_another_session_is_ignored() {
    let (server, _) = curious().await;
    let other = server.session_that_can_be_asked().await;
    let (session, call, mut client) = asking(&server, "name").await;
    let asked = request(&mut client).await;
    for (session, value) in [(&other, "Eve"), (&session, "Ann")] {
        server.answer(session, &asked, accept("name", value)).await;
    }
    assert_eq!(
        answers(&client.only_result(&call).await),
        json!([accept("name", "Ann")])
    );
}

#[tokio::test]
async fn a_cancelled_legacy_request_drops_its_handler() {
    let (server, handler) = curious().await;
    let (session, call, mut client) = asking(&server, "name").await;
    request(&mut client).await;
    let cancel = Post::legacy(Some(&session), "notifications/cancelled", json!({"requestId": 1}));
    server.accepted(&cancel.without_id()).await;
    assert_eq!(client.messages(&call).await, [json!(null); 0], "no response is owed");
    handler.dropped.reaches(1).await;
}

#[tokio::test]
async fn no_two_questions_of_a_round_have_the_same_name() {
    let (server, _) = curious().await;
    let round = server.result(&prompt("name name-2 name in-4 nameless")).await;
    assert_eq!(names(&round), ["in-4", "in-5", "name", "name-2", "name-3"]);
}

#[tokio::test]
async fn a_state_that_grows_too_large_is_a_clear_error() {
    let (server, _) = curious().await;
    let first = prompt("name;town");
    let round = server.result(&first).await;
    let long = "x".repeat(MAX_BODY / 2);
    let reply = server.exchange(&first.retry(&round, answer("name", &long))).await;
    assert_eq!(reply.error(), (200, -32602));
    assert!(reply.body.contains("too large"), "{}", reply.body);
    let post = first.retry(&round, answer("name", "Ann"));
    assert_eq!(names(&server.result(&post).await), ["town"], "and its round stays open");
}

/// Panics, or asks what it does not wait for.
struct Fickle;

impl PromptHandler for Fickle {
    fn get(self: Arc<Self>, arguments: BTreeMap<String, String>, cx: RequestContext) -> HandlerFuture<Json> {
        let act = arguments["act"].clone();
        assert_ne!(act, "panic", "as asked");
        Box::pin(async move {
            assert_ne!(act, "panic later", "as asked");
            tokio::select! {
                biased;
                _ = cx.ask(form("dropped")) => {}
                () = std::future::ready(()) => {}
            }
            if act == "ask on" {
                cx.ask(form("kept")).await?;
            }
            Ok(Json::from(json!({"messages": []})))
        })
    }
}

async fn fickle(act: &str) -> (Server, Post) {
    let server = Server::start().await;
    server.engine.catalog().put_prompt(Prompt {
        name: "fickle".into(),
        shown: Json::from(json!({"name": "fickle"})),
        required: Vec::new(),
        handler: Arc::new(Fickle),
        completer: None,
    });
    let params = json!({"name": "fickle", "arguments": {"act": act}});
    (server, Post::modern_with("prompts/get", params, everything()))
}

#[tokio::test]
async fn a_question_that_its_handler_drops_is_not_asked() {
    let (server, post) = fickle("go on").await;
    assert_eq!(server.result(&post).await["resultType"], "complete");
    let (server, post) = fickle("ask on").await;
    assert_eq!(names(&server.result(&post).await), ["kept"]);
}

#[tokio::test]
async fn a_handler_that_panics_is_an_error_of_its_request_only() {
    for act in ["panic", "panic later"] {
        let (server, post) = fickle(act).await;
        let mut client = server.connect().await;
        for _ in 0..2 {
            assert_eq!(client.error(&post).await, (200, -32603));
        }
    }
}
