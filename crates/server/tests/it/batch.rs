//! Batches: only sessions of 2025-03-26 send them over HTTP. (For a stream of bytes see `stdio`.)

use crate::{
    questions::request,
    request::{Post, act, everything},
    rounds::accept,
    server::Server,
};
use serde_json::{Value, json};

const REVISION: &str = "2025-03-26";

fn batch(session: &str, members: Value) -> Post {
    let mut post = Post::legacy(Some(session), "", json!({})).without("MCP-Protocol-Version");
    post.body = members;
    post
}

fn member(id: Value, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

fn call(id: Value, acting: &str) -> Value {
    member(id, "tools/call", act("optional", acting))
}

/// The status, and the answer: the array, or the messages on the stream.
async fn answered(server: &Server, post: &Post) -> (u16, Vec<Value>) {
    let mut client = server.send(post).await;
    let reply = client.reply().await;
    let answers = match reply.body.as_str() {
        "" => Vec::new(),
        _ => match reply.json() {
            Value::Array(answers) => answers,
            answer => vec![answer],
        },
    };
    (reply.status(), answers)
}

/// Code, or 0 for a result, by id.
fn codes(answers: &[Value]) -> Vec<(Value, i64)> {
    let code = |answer: &Value| answer["error"]["code"].as_i64().unwrap_or_default();
    answers
        .iter()
        .map(|answer| (answer["id"].clone(), code(answer)))
        .collect()
}

#[tokio::test]
async fn each_message_of_a_batch_is_answered_by_itself() {
    let server = Server::start().await;
    let session = server.session_of(REVISION).await;
    let notification = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 77}});
    let members = json!([
        member(json!(1), "ping", json!({})),
        notification,
        member(json!("two"), "tools/list", json!({})),
        member(json!(3), "no/such", json!({})),
        [member(json!(4), "ping", json!({}))],
        7,
        Post::initialize(REVISION).id(json!(5)).body,
        Post::modern("ping", json!({})).id(json!(6)).body,
    ]);
    let (status, answers) = answered(&server, &batch(&session, members)).await;
    assert_eq!(status, 200);
    let expected = [
        (json!(1), 0),
        (json!("two"), 0),
        (json!(3), -32601),
        (json!(null), -32600),
        (json!(null), -32600),
        (json!(5), -32600),
        (json!(6), -32600),
    ];
    assert_eq!(codes(&answers), expected);
    assert!(!answers[1]["result"]["tools"].as_array().unwrap().is_empty());
}

/// Without requests there are no responses.
#[tokio::test]
async fn a_batch_of_notifications_is_accepted() {
    let server = Server::start().await;
    let session = server.session_of(REVISION).await;
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let unawaited = json!({"jsonrpc": "2.0", "id": "nobodys", "result": {}});
    for members in [
        json!([initialized, initialized]),
        json!([unawaited]),
        json!([initialized, unawaited]),
    ] {
        assert_eq!(answered(&server, &batch(&session, members)).await, (202, vec![]));
    }
    let wrong = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {}});
    let (status, answers) = answered(&server, &batch(&session, json!([wrong, initialized]))).await;
    assert_eq!((status, codes(&answers)), (400, vec![(json!(null), -32602)]));
}

#[tokio::test]
async fn an_invalid_batch_is_refused_as_a_whole() {
    let server = Server::start().await;
    let session = server.session_of(REVISION).await;
    let many: Vec<Value> = (0..=100).map(|nth| call(json!(nth), "say")).collect();
    for (text, code) in [
        ("[]".to_owned(), -32600),
        (" [ ] ".to_owned(), -32600),
        (json!(many).to_string(), -32600),
        (format!("[{}", call(json!(1), "say")), -32700),
        (format!("[{}] 1", call(json!(1), "say")), -32700),
        ("[,]".to_owned(), -32700),
    ] {
        let mut client = server.connect().await;
        let post = batch(&session, json!(null));
        client.send(&post.to_bytes_with(text.as_bytes())).await;
        assert_eq!(client.reply().await.error(), (400, code), "{text}");
    }
    assert_eq!(server.stage.begun.get(), 0);
    let most: Vec<Value> = (0..100).map(|nth| member(json!(nth), "ping", json!({}))).collect();
    let (_, answers) = answered(&server, &batch(&session, json!(most))).await;
    assert_eq!(answers.len(), 100, "as many as may be");
}

#[tokio::test]
async fn no_other_revision_has_batches() {
    let server = Server::start().await;
    let members = json!([member(json!(1), "ping", json!({}))]);
    for version in ["2024-11-05", "2025-06-18", "2025-11-25"] {
        let session = server.session_of(version).await;
        let refused = server.error(&batch(&session, members.clone())).await;
        assert_eq!(refused, (400, -32600), "{version}");
    }
    // A client without a session has negotiated nothing, and a handshake is never part of a batch.
    for members in [members, json!([Post::initialize(REVISION).body])] {
        let mut post = Post::ping(None);
        post.body = members;
        assert_eq!(server.error(&post).await, (400, -32600));
    }
    let mut modern = Post::modern("ping", json!({}));
    modern.body = json!([modern.body]);
    assert_eq!(server.error(&modern).await, (400, -32600));
}

/// Responses that take time come on one stream, each as soon as it is ready; or as one array, for a client that accepts no stream.
#[tokio::test]
async fn the_responses_of_a_batch_come_on_one_stream_or_as_one_array() {
    let server = Server::start().await;
    let session = server.session_with(REVISION, everything()).await;
    let members = json!([
        call(json!(1), "wait"),
        member(json!(2), "ping", json!({})),
        call(json!(3), "ask_all name")
    ]);
    let post = batch(&session, members);
    let mut client = server.stream(&post).await;
    assert_eq!(client.message().await.unwrap()["id"], 2, "it waits for no other");
    let asked = request(&mut client).await;
    // Cut, and resumed.
    let last = client.last_event_id.take().unwrap();
    drop(client);
    let answer = Post::response(&session, &asked["id"], ("result", accept("name", "Ann")));
    server.accepted(&answer.without("MCP-Protocol-Version")).await;
    server.stage.released.count();
    let mut client = server.resume(&session, &last).await;
    let mut rest = Vec::new();
    while let Some(message) = client.message().await {
        rest.push(message);
    }
    let mut ids: Vec<_> = rest.iter().map(|message| message["id"].as_i64().unwrap()).collect();
    ids.sort_unstable();
    assert_eq!(ids, [1, 3], "{rest:?}");

    let plain = json!([call(json!(1), "wait"), member(json!(2), "ping", json!({}))]);
    let (status, answers) = answered(&server, &batch(&session, plain).json_only()).await;
    assert_eq!((status, codes(&answers)), (200, vec![(json!(1), 0), (json!(2), 0)]));
}

/// A batch does not bypass the rate limits.
#[tokio::test]
async fn every_message_of_a_batch_counts() {
    let server = Server::one_a_second().await;
    let mut initialize = server.connect().await;
    let reply = initialize.exchange(&Post::initialize(REVISION)).await;
    let session = reply.head.header("mcp-session-id").unwrap().to_owned();
    let pings: Vec<Value> = (0..20).map(|nth| member(json!(nth), "ping", json!({}))).collect();
    let (status, answers) = answered(&server, &batch(&session, json!(pings))).await;
    let codes = codes(&answers);
    assert_eq!((status, codes.len()), (200, 20));
    assert_eq!(codes[0].1, 0, "it was counted with the request");
    assert!(codes.iter().filter(|(_, code)| *code == 429).count() > 10, "{codes:?}");
}
