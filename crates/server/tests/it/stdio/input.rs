//! What a line may hold: batches, junk, and lines without an end.

use super::{Client, cancelled, discover, ping};
use crate::{request::Post, server::Server};
use proptest::prelude::*;
use serde_json::json;
use tokio::io::AsyncWriteExt;

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
    for silent in [
        json!({"jsonrpc": "2.0", "id": "q", "result": {}}),
        json!({"jsonrpc": "2.0", "method": "x"}),
        cancelled(&json!([])).body,
    ] {
        client.send(format!("{silent}\n").as_bytes()).await;
    }
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
    let post = Post::call("optional", &format!("say {long}"));
    client.result(&post).await;
}

/// 2025-03-26 has batches: the responses come as one array, when the last of them is there.
#[tokio::test]
async fn a_batch_is_answered_by_one_line() {
    let server = Server::start().await;
    let mut client = Client::connect(&server);
    let ping = |id: u32| ping().id(json!(id)).body;
    let early = json!([ping(1)]);
    client.send(format!("{early}\n").as_bytes()).await;
    // Nothing is agreed on yet.
    assert_eq!(client.line().await.unwrap()["error"]["code"], -32600);
    client.result(&Post::initialize("2025-03-26")).await;
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let call = Post::legacy_call(None, "optional", "wait").id(json!("slow")).body;
    let handshake = Post::initialize("2025-03-26").id(json!(3)).body;
    let batch = json!([initialized, ping(1), call, 5, ping(2), handshake]);
    for line in [json!([initialized]), batch, json!([]), ping(4)] {
        client.send(format!("{line}\n").as_bytes()).await;
    }
    let empty = client.line().await.unwrap();
    assert_eq!(empty["error"]["code"], -32600, "{empty}");
    assert_eq!(client.line().await.unwrap()["id"], 4, "who comes later does not wait");
    server.stage.released.count();
    let answers = client.line().await.unwrap();
    let answers = answers.as_array().unwrap().iter();
    let mut ids: Vec<_> = answers.map(|answer| answer["id"].to_string()).collect();
    ids.sort();
    assert_eq!(ids, ["\"slow\"", "1", "2", "3", "null"]);
    // The end of the input does not cut a batch short.
    client.send(format!("{}\n", json!([ping(5), ping(6)])).as_bytes()).await;
    client.finish().await;
    assert_eq!(client.line().await.unwrap().as_array().unwrap().len(), 2);
    assert_eq!(client.line().await, None);
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
