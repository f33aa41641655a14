//! Results of kinds that their methods do not have.

use crate::{
    peer::{Peer, legacy, modern, plain},
    task::{legacy_task, modern_task},
};
use longhaul_client::{InputResponse, RequestError, TaskStatus};
use serde_json::{Map, Value, json};

/// Answers each method but `tasks/get` with this.
fn answering(result: Value) -> Peer {
    modern(move |seen| match seen.method() {
        "tasks/get" => {
            let asked = json!({"q": {"method": "elicitation/create", "params": {"message": "?"}}});
            seen.result(modern_task("input_required", json!({"inputRequests": asked})))
        }
        "subscriptions/listen" => plain(404, ""),
        _ => seen.result(result.clone()),
    })
}

fn is_invalid<T: std::fmt::Debug>(answered: Result<T, RequestError>, method: &str) {
    match answered {
        Err(RequestError::Invalid(reason)) => assert!(reason.contains(method), "{method}: {reason}"),
        other => panic!("{method}: {other:?}"),
    }
}

#[tokio::test]
async fn nothing_succeeds_with_a_result_of_another_kind() {
    for nonsense in [
        json!({"resultType": "surprise"}),
        json!({"resultType": "task", "taskId": "t-9", "status": "working"}),
        json!({"resultType": "input_required", "requestState": "s"}),
        json!([]),
        json!(7),
    ] {
        let peer = answering(nonsense.clone());
        let (connection, _) = peer.connection();
        let handle = connection.task("t-1");
        is_invalid(handle.cancel().await, "tasks/cancel");
        is_invalid(handle.answer("q", InputResponse::decline()).await, "tasks/update");
        let prompt = json!({"type": "ref/prompt", "name": "p"});
        is_invalid(connection.complete(prompt, "a", "", &[]).await, "completion/complete");
        is_invalid(connection.list_prompts().await, "prompts/list");
        if nonsense["resultType"] != "input_required" {
            is_invalid(connection.read_resource("a://b").await, "resources/read");
            is_invalid(connection.get_prompt("p", &Map::new()).await, "prompts/get");
        }
    }
    let peer = answering(json!({"resultType": "complete"}));
    let (connection, _) = peer.connection();
    let handle = connection.task("t-1");
    assert!(handle.cancel().await.unwrap().is_none());
    handle.answer("q", InputResponse::decline()).await.unwrap();
    let prompt = json!({"type": "ref/prompt", "name": "p"});
    let nothing = connection.complete(prompt, "a", "", &[]).await;
    assert!(matches!(&nothing, Err(RequestError::Invalid(_))), "{nothing:?}");
}

/// A server whose answer to the modern probe is no description is no modern server.
#[tokio::test]
async fn a_description_of_another_kind_is_none() {
    let peer = Peer::start(|seen| match seen.method() {
        "server/discover" => {
            seen.result(json!({"resultType": "task", "supportedVersions": ["2026-07-28"], "capabilities": {}}))
        }
        _ => seen.error(400, -32601, json!(null)),
    });
    let (connection, _) = peer.connection();
    let refused = connection.server().await.unwrap_err().to_string();
    assert!(refused.contains("resultType \"task\""), "{refused}");
}

#[tokio::test]
async fn a_task_that_is_over_without_a_result_is_not_waited_for() {
    let peer = modern(|seen| match seen.method() {
        "tasks/get" => seen.result(modern_task("completed", json!({}))),
        _ => plain(404, ""),
    });
    let (connection, _) = peer.connection();
    let over = connection.task("t-1").wait(&mut |_| {}).await.unwrap_err();
    assert!(
        matches!(&over, RequestError::NoResult { task, status: TaskStatus::Completed, .. } if task == "t-1"),
        "{over:?}"
    );
    assert!(!over.is_unknown_task() && !over.is_transient());
}

/// A result that has expired does not come back; a server that fails may have it.
#[tokio::test]
async fn an_internal_error_does_not_say_that_the_result_is_gone() {
    for (code, is_gone) in [(-32602, true), (-32603, false)] {
        let peer = legacy(json!({}), move |seen| match seen.method() {
            "tasks/get" => seen.result(legacy_task("completed", json!({}))),
            _ => seen.error(200, code, Value::Null),
        });
        let (connection, _) = peer.connection();
        let failed = connection.task("t-1").wait(&mut |_| {}).await.unwrap_err();
        let is_said_gone = matches!(failed, RequestError::NoResult { .. });
        assert_eq!(is_said_gone, is_gone, "{failed:?}");
    }
}
