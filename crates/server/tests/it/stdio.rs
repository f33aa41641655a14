//! A stream of bytes with a message a line, in both eras.

use crate::{
    request::{Post, act, act_as_task},
    server::{Options, Server, get, task_of},
};
use longhaul_schemas::MessageChecker;
use longhaul_server::Limits;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::{collections::BTreeSet, io, num::NonZeroU32, sync::Arc};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf},
    sync::oneshot,
};

/// The client's end of a connection.
struct Client {
    input: Option<WriteHalf<DuplexStream>>,
    output: BufReader<ReadHalf<DuplexStream>>,
    ended: oneshot::Receiver<io::Result<()>>,
    checker: MessageChecker,
}

impl Client {
    fn connect(server: &Server) -> Self {
        Self::with_pipe(server, 64 * 1024)
    }

    fn with_pipe(server: &Server, size: usize) -> Self {
        let (ours, theirs) = tokio::io::duplex(size);
        let (reader, writer) = tokio::io::split(theirs);
        let (done, ended) = oneshot::channel();
        let front = Arc::clone(&server.front);
        server.engine.ports().spawner.spawn(Box::pin(async move {
            let _ = done.send(longhaul_server::stdio::serve(front, reader, writer).await);
        }));
        let (output, input) = tokio::io::split(ours);
        Self {
            input: Some(input),
            output: BufReader::new(output),
            ended,
            checker: MessageChecker::default(),
        }
    }

    /// A legacy connection.
    async fn initialized(server: &Server) -> Self {
        Self::that_can(server, json!({})).await
    }

    /// A legacy connection of a client with these capabilities.
    async fn that_can(server: &Server, capabilities: Value) -> Self {
        let mut client = Self::connect(server);
        let mut initialize = Post::initialize("2025-11-25");
        initialize.body["params"]["capabilities"] = capabilities;
        client.result(&initialize).await;
        let initialized = Post::legacy(None, "notifications/initialized", json!({})).without_id();
        client.send_post(&initialized).await;
        client
    }

    async fn send(&mut self, bytes: &[u8]) {
        self.checker.sent_bytes(bytes);
        self.input.as_mut().unwrap().write_all(bytes).await.unwrap();
    }

    async fn send_post(&mut self, post: &Post) {
        self.send(format!("{}\n", post.body).as_bytes()).await;
    }

    /// The next line; `None` at the end.
    async fn line(&mut self) -> Option<Value> {
        let mut line = String::new();
        self.output.read_line(&mut line).await.unwrap();
        if line.is_empty() {
            return None;
        }
        let whole = line
            .strip_suffix('\n')
            .unwrap_or_else(|| panic!("half a line: {line:?}"));
        let message = longhaul_schemas::read(whole).unwrap_or_else(|_| panic!("not a message: {line:?}"));
        self.checker.received(&message).unwrap();
        Some(message)
    }

    async fn answer(&mut self, post: &Post) -> Value {
        self.send_post(post).await;
        self.answer_to(post).await
    }

    async fn answer_to(&mut self, post: &Post) -> Value {
        // Notifications about tasks may come at any time.
        let answer = loop {
            let line = self.line().await.unwrap();
            if line["method"] != "notifications/tasks/status" {
                break line;
            }
        };
        assert_eq!(answer["id"], post.body["id"], "{answer}");
        answer
    }

    async fn result(&mut self, post: &Post) -> Value {
        let answer = self.answer(post).await;
        assert!(answer["result"].is_object(), "{answer}");
        answer["result"].clone()
    }

    /// Closes the input.
    async fn finish(&mut self) {
        self.input.take().unwrap().shutdown().await.unwrap();
    }
}

fn ping() -> Post {
    Post::legacy(None, "ping", json!({})).id(json!("ping"))
}

fn discover() -> Post {
    Post::modern_plain("server/discover", json!({})).id(json!("d"))
}

fn cancelled(id: &Value) -> Post {
    Post::legacy(None, "notifications/cancelled", json!({"requestId": id})).without_id()
}

#[tokio::test]
async fn a_client_may_leave_without_reading_its_answer() {
    let server = Server::start().await;
    let mut client = Client::initialized(&server).await;
    client.send_post(&ping()).await;
    let Client {
        input, output, ended, ..
    } = client;
    drop((input, output));
    ended.await.unwrap().unwrap();
}

/// T-40, T-42, L-14, invariant 7
#[tokio::test]
async fn both_eras_are_served_on_one_connection_message_by_message() {
    let server = Server::start().await;
    let mut client = Client::connect(&server);
    client.result(&discover()).await;
    let before = client.answer(&ping()).await;
    assert_eq!(before["error"]["code"], -32600, "not initialized: {before}");
    let session = client.result(&Post::initialize("2025-06-18")).await;
    assert_eq!(session["protocolVersion"], "2025-06-18");
    client.result(&ping()).await;
    client.result(&discover()).await;

    // Legacy tasks need their revision (L-04). A list here is the whole principal's, whichever era created what (G1-50).
    let create = Post::modern("tools/call", act("optional", "say"));
    let modern = task_of(&client.result(&create).await);
    let listing = Post::legacy(None, "tasks/list", json!({}));
    assert_eq!(client.answer(&listing).await["error"]["code"], -32601);
    client.result(&Post::initialize("2025-11-25")).await;
    let legacy = task_of(
        &client
            .result(&Post::legacy(None, "tools/call", act_as_task("optional", "say")))
            .await,
    );
    let listed = client.result(&listing).await;
    let ids = |tasks: &Value| {
        tasks
            .as_array()
            .unwrap()
            .iter()
            .map(|task| task["taskId"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(ids(&listed["tasks"]), [json!(legacy), json!(modern)]);
    client.result(&get(&modern)).await;
}

#[tokio::test]
async fn no_input_is_fatal() {
    let server = Server::start().await;
    let mut client = Client::connect(&server);
    for (line, code) in [
        (&b"hello"[..], -32700),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"pi\xff\"}", -32700),
        (b"\0\0\0", -32700),
        (b"[]", -32600),
        (b"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]", -32600),
        (b"7", -32600),
        (b"{}", -32600),
        (b"{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}", -32600),
    ] {
        client.send(line).await;
        client.send(b"\n").await;
        let answer = client.line().await.unwrap();
        assert_eq!(answer["error"]["code"], json!(code), "{answer}");
    }
    // These have no response.
    client.send(b"\n  \n\r\n").await;
    client
        .send(b"{\"jsonrpc\":\"2.0\",\"id\":\"q\",\"result\":{}}\n{\"jsonrpc\":\"2.0\",\"method\":\"x\"}\n")
        .await;
    client
        .send(b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":[]}}\n")
        .await;
    client.send(format!("{}\r\n", discover().body).as_bytes()).await;
    client.answer_to(&discover()).await;
}

#[tokio::test]
async fn a_line_without_an_end_is_skipped() {
    let server = Server::start().await;
    let mut client = Client::connect(&server);
    let chunk = vec![b'x'; 1 << 20];
    for _ in 0..17 {
        client.send(&chunk).await;
    }
    client.send(b"\n").await;
    assert_eq!(client.line().await.unwrap()["error"]["code"], -32600);
    // A line of 16 MiB is allowed.
    let long = "x".repeat((16 << 20) - 300);
    let post = Post::modern("tools/call", act("optional", &format!("say {long}")));
    client.result(&post).await;
}

#[tokio::test]
async fn answers_do_not_wait_for_each_other_and_ids_are_not_used_twice_at_once() {
    let server = Server::start().await;
    let mut client = Client::initialized(&server).await;
    let call = Post::legacy(None, "tools/call", act("optional", "wait")).id(json!("slow"));
    client.send_post(&call).await;
    client.result(&ping()).await;
    assert_eq!(client.answer(&call).await["error"]["code"], -32600);
    server.stage.released.count();
    assert_eq!(client.answer_to(&call).await["result"]["content"][0]["text"], "done");
    client.result(&call).await;
}

/// T-43, U-04: also when the cancellation follows at once.
#[tokio::test]
async fn a_request_is_cancelled_by_message_in_either_era() {
    for modern in [true, false] {
        let server = Server::start().await;
        let mut client = Client::initialized(&server).await;
        let call = if modern {
            Post::modern_plain("tools/call", act("optional", "wait"))
        } else {
            Post::legacy(None, "tools/call", act("optional", "wait"))
        };
        let call = call.id(json!("a\u{e9}"));
        client
            .send(format!("{}\n{}\n", call.body, cancelled(&json!("a\u{e9}")).body).as_bytes())
            .await;
        client.result(&ping()).await;
        while server.engine.running() > 0 {
            tokio::task::yield_now().await;
        }
        // It may not even have begun; and its id is free again.
        let (begun, stopped) = (server.stage.begun.get(), server.stage.stopped.get());
        client.send_post(&call).await;
        server.stage.begun.reaches(begun + 1).await;
        client.send_post(&cancelled(&json!("a\u{e9}"))).await;
        server.stage.stopped.reaches(stopped + 1).await;
        client.finish().await;
        assert_eq!(client.line().await, None, "no answer: modern {modern}");
    }
}

/// T-44
#[tokio::test]
async fn answers_still_come_after_the_last_request_and_tasks_live_on() {
    let server = Server::start().await;
    let mut client = Client::initialized(&server).await;
    let create = Post::legacy(None, "tools/call", act_as_task("optional", "wait"));
    let task = task_of(&client.result(&create).await);
    let watching = Post::legacy(None, "tasks/result", json!({"taskId": task})).id(json!("w"));
    let call = Post::modern_plain("tools/call", act("optional", "report 1")).progress_token(json!(1));
    client.send_post(&watching).await;
    client.send_post(&call).await;
    assert_eq!(client.line().await.unwrap()["method"], "notifications/progress");
    client.finish().await;
    server.stage.released.count();
    // The task ends, too, and its wait may have been answered or not.
    let mut answered = BTreeSet::new();
    while let Some(answer) = client.line().await {
        answered.insert(answer["id"].to_string());
    }
    assert!(answered.contains("1"), "{answered:?}");
    client.ended.await.unwrap().unwrap();
    server.poll(&task, "completed").await;
}

#[tokio::test]
async fn a_wait_that_is_longer_than_the_shutdown_is_dropped() {
    let server = Server::start().await;
    let mut client = Client::initialized(&server).await;
    let create = Post::legacy(None, "tools/call", act_as_task("optional", "wait"));
    let task = task_of(&client.result(&create).await);
    client
        .send_post(&Post::modern_plain("tools/call", act("optional", "wait")).id(json!(2)))
        .await;
    client
        .send_post(&Post::legacy(None, "tools/call", act("optional", "wait")).id(json!(3)))
        .await;
    let mut named = Post::legacy(None, "tools/call", act("optional", "wait")).id(json!(4));
    named.body["params"]["_meta"] = json!({"dev.longhaul/idempotency-key": "k"});
    client.send_post(&named).await;
    server.stage.begun.reaches(4).await;
    tokio::time::pause();
    client.finish().await;
    assert_eq!(client.line().await, None);
    client.ended.await.unwrap().unwrap();
    tokio::time::resume();
    // The session was the connection, so neither plain call can be resumed, but the one with a key can be repeated, and the task can be read.
    server.stage.stopped.reaches(2).await;
    assert_eq!(server.result(&get(&task)).await["status"], "working");
    server.stage.released.count();
    server.stage.finished.reaches(2).await;
    server.poll(&task, "completed").await;
    assert_eq!(server.stage.stopped.get(), 2);
}

#[tokio::test]
async fn the_connection_ends_when_the_server_does() {
    let server = Server::start().await;
    let mut client = Client::initialized(&server).await;
    let create = Post::legacy(None, "tools/call", act_as_task("optional", "wait"));
    let task = task_of(&client.result(&create).await);
    client
        .send_post(&Post::legacy(None, "tasks/result", json!({"taskId": task})))
        .await;
    client.result(&ping()).await;
    server.stop().await;
    assert_eq!(client.line().await, None);
    client.ended.await.unwrap().unwrap();
}

/// A client that writes and does not read holds up itself; nothing is lost, and nothing is answered twice.
#[tokio::test]
async fn a_client_that_does_not_read_gets_backpressure() {
    const REQUESTS: u64 = 3_000;
    let server = Server::start().await;
    let Client {
        input,
        output,
        mut checker,
        ..
    } = Client::with_pipe(&server, 1024);
    let mut input = input.unwrap();
    let (done, mut all_written) = oneshot::channel();
    server.engine.ports().spawner.spawn(Box::pin(async move {
        for id in 0..REQUESTS {
            let post = Post::modern_plain("server/discover", json!({})).id(json!(id));
            input.write_all(format!("{}\n", post.body).as_bytes()).await.unwrap();
        }
        let _ = done.send(input);
    }));
    // Another connection is served meanwhile, until the first one is blocked.
    let mut other = Client::connect(&server);
    for _ in 0..2_000 {
        other.result(&discover()).await;
    }
    assert!(
        all_written.try_recv().is_err(),
        "{REQUESTS} requests were taken without one answer being read"
    );
    let mut lines = output.lines();
    let mut answered = BTreeSet::new();
    for _ in 0..REQUESTS {
        let answer: Value = serde_json::from_str(&lines.next_line().await.unwrap().unwrap()).unwrap();
        checker.sent(&discover().id(answer["id"].clone()).body);
        checker.received(&answer).unwrap();
        assert!(answered.insert(answer["id"].as_u64().unwrap()), "twice: {answer}");
    }
    assert_eq!(answered.len() as u64, REQUESTS);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever was sent before, a valid request is answered.
    #[test]
    fn junk_leaves_the_connection_usable(junk in prop::collection::vec(any::<u8>(), 0..2_000), seed in any::<u64>()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let server = Server::start().await;
            let mut client = Client::connect(&server);
            let sound = discover().body.to_string();
            let (mut input, cut) = (client.input.take().unwrap(), seed as usize % sound.len());
            server.engine.ports().spawner.spawn(Box::pin(async move {
                // Half a message, junk, and a whole one.
                input.write_all(&sound.as_bytes()[..cut]).await.unwrap();
                input.write_all(&junk).await.unwrap();
                input.write_all(format!("\n{sound}\n").as_bytes()).await.unwrap();
            }));
            loop {
                let answer = client.line().await.expect("an answer");
                if answer["id"] == "d" && answer["result"].is_object() {
                    break;
                }
                assert!(answer["error"].is_object(), "{answer}");
            }
        });
    }
}

/// The connection is the push stream: a question comes once, whatever the client asks meanwhile (G1-38, G1-40).
#[tokio::test]
async fn a_question_comes_once_on_the_connection() {
    let server = Server::start().await;
    let mut client = Client::that_can(&server, json!({"elicitation": {}})).await;
    let create = Post::legacy(None, "tools/call", act_as_task("optional", "ask"));
    let task = task_of(&client.result(&create).await);
    let mut asked = Vec::new();
    let mut pings = 0;
    let end = loop {
        let message = client.line().await.unwrap();
        match (&message["id"], message["method"].as_str()) {
            (id, None) if id == "wait" => break message,
            // Time enough for a second delivery to come, if there is one.
            (_, None) if pings < 20 => {
                pings += 1;
                client.send_post(&ping()).await;
            }
            (_, None) => {
                let mut answer = Post::legacy(None, "", json!({}));
                let accept = json!({"action": "accept", "content": {"sure": true}});
                answer.body = json!({"jsonrpc": "2.0", "id": asked[0], "result": accept});
                client.send_post(&answer).await;
            }
            (id, Some("elicitation/create")) => {
                asked.push(id.clone());
                let wait = Post::legacy(None, "tasks/result", json!({"taskId": task})).id(json!("wait"));
                client.send_post(&wait).await;
                client.send_post(&ping()).await;
            }
            (_, Some(method)) => assert_eq!(method, "notifications/tasks/status", "no other delivery to take back"),
        }
    };
    assert_eq!(asked.len(), 1);
    assert!(end["result"]["content"][0]["text"].as_str().unwrap().contains("accept"));
}

/// G1-50: there is only one user, so a client finds the tasks of an earlier one; over HTTP it is the session's alone (C-24).
#[tokio::test]
async fn the_only_user_can_list_all_tasks() {
    let server = Server::start().await;
    let create = Post::legacy(None, "tools/call", act_as_task("optional", "wait"));
    let task = task_of(&Client::initialized(&server).await.result(&create).await);
    let list = Post::legacy(None, "tasks/list", json!({}));
    let listed = Client::initialized(&server).await.result(&list).await;
    assert_eq!(listed["tasks"][0]["taskId"], task.as_str());
    let session = server.session().await;
    let over_http = server
        .result(&Post::legacy(Some(&session), "tasks/list", json!({})))
        .await;
    assert_eq!(over_http["tasks"], json!([]));
}

/// 2025-03-26 has batches: the responses come as one array, when the last of them is there.
#[tokio::test]
async fn a_batch_is_answered_by_one_line() {
    let server = Server::start().await;
    let mut client = Client::connect(&server);
    let ping = |id: u32| ping().id(json!(id)).body;
    let early = json!([ping(1)]);
    client.send(format!("{early}\n").as_bytes()).await;
    assert_eq!(
        client.line().await.unwrap()["error"]["code"],
        -32600,
        "nothing is agreed on yet"
    );
    client.result(&Post::initialize("2025-03-26")).await;
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let call = Post::legacy(None, "tools/call", act("optional", "wait"))
        .id(json!("slow"))
        .body;
    let batch = json!([
        initialized,
        ping(1),
        call,
        5,
        ping(2),
        Post::initialize("2025-03-26").id(json!(3)).body
    ]);
    for line in [json!([initialized]), batch, json!([]), ping(4)] {
        client.send(format!("{line}\n").as_bytes()).await;
    }
    let empty = client.line().await.unwrap();
    assert_eq!(empty["error"]["code"], -32600, "{empty}");
    assert_eq!(client.line().await.unwrap()["id"], 4, "who comes later does not wait");
    server.stage.released.count();
    let answers = client.line().await.unwrap();
    let mut ids: Vec<_> = answers
        .as_array()
        .unwrap()
        .iter()
        .map(|answer| answer["id"].to_string())
        .collect();
    ids.sort();
    assert_eq!(ids, ["\"slow\"", "1", "2", "3", "null"]);
    // The end of the input does not cut a batch short.
    client.send(format!("{}\n", json!([ping(5), ping(6)])).as_bytes()).await;
    client.finish().await;
    assert_eq!(client.line().await.unwrap().as_array().unwrap().len(), 2);
    assert_eq!(client.line().await, None);
}

async fn one_a_second() -> Server {
    Server::with(Options {
        limits: Limits {
            requests_per_second: NonZeroU32::new(1),
            ..Limits::default()
        },
        ..Options::default()
    })
    .await
}

/// The only request among notifications; whether it was refused.
async fn is_refused_after_notifications() -> bool {
    let server = one_a_second().await;
    let mut client = Client::connect(&server);
    let notification = Post::modern("notifications/unknown", json!({})).without_id();
    for _ in 0..3 {
        client.send_post(&notification).await;
    }
    let answer = client.answer(&discover()).await;
    let refused = answer.get("error").is_some();
    if refused {
        assert_eq!(answer["error"]["code"], 429, "{answer}");
        assert!(
            answer["error"]["data"]["retryAfterMs"].as_u64().unwrap() > 0,
            "{answer}"
        );
    }
    refused
}

/// S-06: two at once, one more a second later, and the next is too early, unless this machine was a second late.
#[tokio::test]
async fn s_06_every_line_counts() {
    for _ in 0..5 {
        if is_refused_after_notifications().await {
            return;
        }
    }
    panic!("notifications take nothing from the rate");
}

/// A response cannot be refused, since a refusal has no id to be sent under.
#[tokio::test]
async fn messages_without_a_response_wait_for_the_rate_limit_and_are_not_lost() {
    let server = one_a_second().await;
    let mut client = Client::connect(&server);
    let mut initialize = Post::initialize("2025-11-25");
    initialize.body["params"]["capabilities"] = json!({"elicitation": {}});
    client.result(&initialize).await;
    let mut create = Post::legacy(None, "tools/call", act_as_task("optional", "ask"));
    let task = loop {
        let answer = client.answer(&create).await;
        if answer.get("error").is_none() {
            break task_of(&answer["result"]);
        }
        create = create.id(json!(format!("after {}", answer["id"])));
    };
    let asked = loop {
        let line = client.line().await.unwrap();
        if line["method"] == "elicitation/create" {
            break line;
        }
    };
    while client.answer(&ping()).await.get("error").is_none() {}
    let answer = json!({"action": "accept", "content": {"sure": true}});
    client
        .send_post(&Post::of(
            json!({"jsonrpc": "2.0", "id": asked["id"], "result": answer}),
        ))
        .await;
    loop {
        let line = client.line().await.unwrap();
        assert_eq!(line["method"], "notifications/tasks/status", "{line}");
        assert_eq!(line["params"]["taskId"], task.as_str());
        if line["params"]["status"] == "completed" {
            break;
        }
    }
}

/// T-43, C-17
#[tokio::test]
async fn a_subscription_ends_by_message_from_either_side() {
    let server = Server::start().await;
    let mut client = Client::connect(&server);
    let listen = |id: &str| {
        let wanted = json!({"notifications": {"toolsListChanged": true}});
        Post::modern("subscriptions/listen", wanted).id(json!(id))
    };
    for id in ["one", "two"] {
        client.send_post(&listen(id)).await;
        let acknowledged = client.line().await.unwrap();
        let of = &acknowledged["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"];
        assert_eq!(*of, json!(id), "{acknowledged}");
    }
    client.send_post(&cancelled(&json!("one"))).await;
    client.result(&discover()).await;
    server.stop().await;
    let cancelled = client.line().await.unwrap();
    assert_eq!(cancelled["method"], "notifications/cancelled");
    assert_eq!(
        cancelled["params"]["requestId"], "two",
        "the other one had ended: {cancelled}"
    );
    client.answer_to(&listen("two")).await;
    assert_eq!(client.line().await, None);
}
