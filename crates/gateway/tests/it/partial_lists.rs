//! An upstream of which one list cannot be read.

use crate::{
    client::Client,
    upstream::Tasks,
    world::{RunningGateway, guarded, until, with_every_call_a_task, without_handoff},
};
use longhaul_client::{ChildOptions, Connection, Options};
use longhaul_gateway::{Target, UpstreamOptions};
use serde_json::{Value, json};
use std::path::Path;

fn upstream(directory: &Path, fails: &str, how: &str) -> UpstreamOptions {
    let mut child = ChildOptions::new("sh", ["-c", include_str!("partial_lists.sh")]);
    let mended = directory.join("mended").to_string_lossy().into_owned();
    for (name, value) in [("FAILS", fails), ("HOW", how), ("MENDED", &mended)] {
        child.env.push((name.to_owned(), value.to_owned()));
    }
    without_handoff(with_every_call_a_task(UpstreamOptions::new(
        "child",
        Target::Command(child),
    )))
}

async fn names(url: &str, method: &str, member: &str) -> Vec<String> {
    let mut options = Options::named("client", "1.0.0");
    options.era = Tasks::Legacy.era();
    let connection = Connection::lazy(url, options).unwrap();
    let Ok(listed) = guarded(method, connection.send(method, Value::Null)).await else {
        return Vec::new();
    };
    let listed: Value = serde_json::from_str(listed.as_str()).unwrap();
    let entries = listed[member].as_array().unwrap().iter();
    entries
        .map(|entry| entry["name"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn each_list_of_an_upstream_stands_alone() {
    let lists = ["resources/list", "resources/templates/list", "prompts/list"];
    for how in ["error", "null", "empty", "wrong", "nothing", "exit"] {
        for fails in lists {
            let directory = tempfile::tempdir().unwrap();
            let gateway = RunningGateway::start(directory.path(), vec![upstream(directory.path(), fails, how)]).await;
            let url = &gateway.url;
            assert_eq!(names(url, "tools/list", "tools").await, ["echo"], "{fails}: {how}");
            let client = Client::connect(url, Tasks::Legacy);
            assert_eq!(client.text("echo", json!({})).await, "called", "{fails}: {how}");
            std::fs::write(directory.path().join("mended"), "").unwrap();
            for (method, member, name) in [("prompts/list", "prompts", "p"), ("resources/list", "resources", "a")] {
                // One that has ended the child is not asked for again.
                if method != fails || how != "exit" {
                    let mut found = Vec::new();
                    while found.is_empty() {
                        found = names(url, method, member).await;
                        tokio::task::yield_now().await;
                    }
                    assert_eq!(found, [name], "{fails}: {how}");
                }
            }
            gateway.stop().await;
        }
    }
}

#[tokio::test]
async fn the_pages_before_an_error_are_kept() {
    let directory = tempfile::tempdir().unwrap();
    let upstreams = vec![upstream(directory.path(), "resources/list", "second")];
    let gateway = RunningGateway::start(directory.path(), upstreams).await;
    assert_eq!(names(&gateway.url, "resources/list", "resources").await, ["a"]);
    gateway.stop().await;
}

/// And its tools can be called.
#[tokio::test]
async fn a_tool_on_a_page_before_an_error_can_be_called() {
    let directory = tempfile::tempdir().unwrap();
    let upstreams = vec![upstream(directory.path(), "tools/list", "second")];
    let gateway = RunningGateway::start(directory.path(), upstreams).await;
    let client = Client::connect(&gateway.url, Tasks::Legacy);
    for _ in 0..2 {
        assert_eq!(client.text("echo", json!({})).await, "called");
    }
    gateway.stop().await;
}

/// Prompts are there although the tools are not.
#[tokio::test]
async fn tools_that_cannot_be_listed_come_later_and_the_rest_is_offered() {
    let directory = tempfile::tempdir().unwrap();
    let upstreams = vec![upstream(directory.path(), "tools/list", "error")];
    let gateway = RunningGateway::start(directory.path(), upstreams).await;
    assert_eq!(names(&gateway.url, "prompts/list", "prompts").await, ["p"]);
    let connection = Connection::lazy(&gateway.url, Options::named("client", "1.0.0")).unwrap();
    let refused = connection.list_tools().await.unwrap_err().to_string();
    assert!(refused.contains("connect ECONNREFUSED"), "{refused}");
    std::fs::write(directory.path().join("mended"), "").unwrap();
    let engine = gateway.server.engine().unwrap();
    until("the tool", || engine.catalog().tool("echo").is_some()).await;
    drop(engine);
    gateway.stop().await;
}
