//! The end of a connection.

use super::{Client, ping};
use crate::{
    request::Post,
    server::{Server, get},
};
use serde_json::json;
use std::collections::BTreeSet;

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

#[tokio::test]
async fn answers_still_come_after_the_last_request_and_tasks_live_on() {
    let server = Server::start().await;
    let mut client = Client::initialized(&server).await;
    let task = client.task(&Post::legacy_task(None, "optional", "wait")).await;
    let watching = Post::legacy(None, "tasks/result", json!({"taskId": task})).id(json!("w"));
    let call = Post::plain_call("optional", "report 1").progress_token(json!(1));
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
    let task = client.task(&Post::legacy_task(None, "optional", "wait")).await;
    let legacy = Post::legacy_call(None, "optional", "wait");
    let plain = Post::plain_call("optional", "wait");
    for (id, call) in [(2, plain), (3, legacy.clone()), (4, legacy.keyed("k"))] {
        client.send_post(&call.id(json!(id))).await;
    }
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
    let task = client.task(&Post::legacy_task(None, "optional", "wait")).await;
    let wait = Post::legacy(None, "tasks/result", json!({"taskId": task}));
    client.send_post(&wait).await;
    client.result(&ping()).await;
    server.stop().await;
    assert_eq!(client.line().await, None);
    client.ended.await.unwrap().unwrap();
}
