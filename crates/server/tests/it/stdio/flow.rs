//! Backpressure and the rate limit.

use super::{Client, discover, ping};
use crate::{
    request::Post,
    server::{Server, task_of},
};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt},
    sync::oneshot,
};

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
    // Not all requests were taken without one answer being read.
    assert!(all_written.try_recv().is_err());
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

/// The only request among notifications; whether it was refused.
async fn is_refused_after_notifications() -> bool {
    let server = Server::one_a_second().await;
    let mut client = Client::connect(&server);
    let notification = Post::modern("notifications/unknown", json!({})).without_id();
    for _ in 0..3 {
        client.send_post(&notification).await;
    }
    let answer = client.answer(&discover()).await;
    let refused = answer.get("error").is_some();
    if refused {
        let error = &answer["error"];
        assert_eq!(error["code"], 429, "{answer}");
        assert!(error["data"]["retryAfterMs"].as_u64().unwrap() > 0, "{answer}");
    }
    refused
}

/// Two at once, one more a second later, and the next is too early, unless this machine was a second late.
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
    let server = Server::one_a_second().await;
    let mut client = Client::connect(&server);
    let initialize = Post::initialize_with("2025-11-25", json!({"elicitation": {}}));
    client.result(&initialize).await;
    let mut create = Post::legacy_task(None, "optional", "ask");
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
    let response = json!({"jsonrpc": "2.0", "id": asked["id"], "result": answer});
    client.send_post(&Post::of(response)).await;
    loop {
        let line = client.line().await.unwrap();
        assert_eq!(line["method"], "notifications/tasks/status", "{line}");
        assert_eq!(line["params"]["taskId"], task.as_str());
        if line["params"]["status"] == "completed" {
            break;
        }
    }
}
