//! The roots of a client, which servers of both eras ask for.

use crate::{
    peer::{legacy, modern, plain},
    task::{created, modern_task},
};
use longhaul_client::{CallResponse, Inputs, Options};
use serde_json::{Map, Value, json};
use std::sync::atomic::{AtomicBool, Ordering};

fn with_roots(options: &mut Options) {
    let roots = Inputs::new().roots([("file:///srv/data", "data"), ("file:///srv/more", "more")]);
    options.inputs = Some(roots.into());
}

fn expected() -> Value {
    json!({"roots": [{"uri": "file:///srv/data", "name": "data"}, {"uri": "file:///srv/more", "name": "more"}]})
}

#[tokio::test]
async fn a_legacy_server_is_told_the_roots() {
    let peer = legacy(Value::Null, |seen| match seen.method() {
        "tools/call" => {
            let asks = json!({"jsonrpc": "2.0", "id": "r-1", "method": "roots/list"});
            seen.stream(&[asks], json!({"content": []}))
        }
        "" if seen.verb == "GET" => plain(405, ""),
        _ => plain(202, ""),
    });
    let (connection, _) = peer.connection_with(with_roots);
    let tools = connection.list_tools().await.unwrap();
    connection.call_tool(&tools[0], &Map::new(), &mut |_| {}).await.unwrap();
    let initialize = &peer.calls_of("initialize")[0];
    assert!(
        initialize.params()["capabilities"]["roots"].is_object(),
        "{initialize:?}"
    );
    let answer = loop {
        if let Some(answer) = peer.seen().into_iter().find(|seen| seen.body["id"] == "r-1") {
            break answer.body;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(answer["result"], expected());
}

#[tokio::test]
async fn a_modern_server_is_told_the_roots_in_a_round_and_by_a_task() {
    let asks = json!({"r": {"method": "roots/list"}});
    let is_told = AtomicBool::new(false);
    let peer = modern(move |seen| match seen.method() {
        "tools/call" if seen.params()["inputResponses"].is_null() => {
            seen.result(json!({"resultType": "input_required", "inputRequests": asks}))
        }
        "tools/call" => seen.result(created()),
        "tasks/update" => {
            is_told.store(true, Ordering::SeqCst);
            seen.result(json!({"resultType": "complete"}))
        }
        "tasks/get" => seen.result(match is_told.load(Ordering::SeqCst) {
            true => modern_task("completed", json!({"result": {"content": []}})),
            false => modern_task("input_required", json!({"inputRequests": asks})),
        }),
        _ => plain(404, ""),
    });
    let (connection, _) = peer.connection_with(with_roots);
    let tools = connection.list_tools().await.unwrap();
    let called = connection.call_tool(&tools[0], &Map::new(), &mut |_| {}).await;
    let CallResponse::Task(task) = called.unwrap() else {
        panic!("no task")
    };
    task.wait(&mut |_| {}).await.unwrap();
    for told in [&peer.calls_of("tools/call")[1], &peer.calls_of("tasks/update")[0]] {
        assert_eq!(told.params()["inputResponses"]["r"], expected());
    }
}
