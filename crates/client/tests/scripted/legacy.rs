//! Against a legacy server.

use crate::{
    peer::{Peer, event_stream, legacy, plain},
    task::legacy_task,
};
use longhaul_client::{CallOptions, CallResponse, InputResponse, Inputs, Outcome, RequestError, TaskStatus};
use longhaul_core::Verdict;
use serde_json::{Map, Value, json};
use std::sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering},
};
use tokio::sync::mpsc::unbounded_channel;

fn all_tasks() -> Value {
    json!({"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}})
}

fn task(status: &str) -> Value {
    legacy_task(status, json!({"ttl": 60000, "pollInterval": 100}))
}

fn content(is_error: bool) -> Value {
    json!({"content": [{"type": "text", "text": "x"}], "isError": is_error})
}

#[tokio::test]
async fn a_session_is_initialized_used_and_deleted() {
    let peer = legacy(all_tasks(), |seen| match seen.method() {
        "tasks/cancel" => seen.result(task("cancelled")),
        _ => plain(200, ""),
    });
    let (connection, _) = peer.connection();
    let cancelled = connection.task("t-1").cancel().await.unwrap();
    assert_eq!(cancelled.unwrap().status, TaskStatus::Cancelled);
    connection.close().await;

    let seen = peer.seen();
    let methods: Vec<&str> = seen.iter().map(|seen| seen.method()).collect();
    assert_eq!(
        methods,
        [
            "server/discover",
            "initialize",
            "notifications/initialized",
            "tasks/cancel",
            ""
        ]
    );
    assert_eq!(seen[1].params()["protocolVersion"], "2025-11-25");
    assert_eq!(seen[1].header("mcp-session-id"), None);
    assert_eq!(seen[2].body.get("id"), None);
    for seen in &seen[2..] {
        assert_eq!(seen.header("mcp-session-id"), Some("session-1"));
        assert_eq!(seen.header("mcp-protocol-version"), Some("2025-11-25"));
    }
    assert_eq!(
        seen[3].params()["_meta"],
        Value::Null,
        "the legacy era knows no such metadata"
    );
    assert_eq!(seen[4].verb, "DELETE");
}

#[tokio::test]
async fn a_call_asks_for_a_task_only_if_server_and_tool_allow_it() {
    for (declared, tasks) in [(true, all_tasks()), (false, json!({"list": {}})), (false, Value::Null)] {
        let peer = legacy(tasks, |seen| match seen.params()["task"].is_object() {
            true => seen.result(json!({"task": task("working")})),
            false => seen.result(content(false)),
        });
        let (connection, _) = peer.connection();
        for tool in connection.list_tools().await.unwrap() {
            let called = connection.call_tool(&tool, &Map::new(), &mut |_| {}).await.unwrap();
            let allowed = declared && ["optional", "required"].contains(&tool.name.as_str());
            assert_eq!(
                matches!(called, CallResponse::Task(_)),
                allowed,
                "{} {declared}",
                tool.name
            );
            let sent = peer.calls_of("tools/call").pop().unwrap();
            assert_eq!(
                sent.params().get("task").is_some(),
                allowed,
                "{}: what is sent",
                tool.name
            );
        }
    }
}

/// The handle of such a task could not be trusted: the server does not serve `tasks/get`, or runs the tool at once.
#[tokio::test]
async fn a_task_that_was_not_asked_for_is_refused() {
    for tasks in [all_tasks(), json!({"list": {}}), Value::Null] {
        let peer = legacy(tasks.clone(), |seen| seen.result(json!({"task": task("working")})));
        let (connection, _) = peer.connection();
        let tools = connection.list_tools().await.unwrap();
        let forbidden = tools.iter().find(|tool| tool.name == "forbidden").unwrap();
        let refused = connection
            .call_tool(forbidden, &Map::new(), &mut |_| {})
            .await
            .unwrap_err();
        assert!(matches!(&refused, RequestError::UnexpectedTask { .. }), "{refused}");
        assert!(
            refused
                .to_string()
                .contains("the call of \"forbidden\" with the task \"t-1\", but the call did not ask for one"),
            "{refused}"
        );
        assert!(!refused.is_refusal(), "the tool may have run");
        let optional = tools.iter().find(|tool| tool.name == "optional").unwrap();
        let called = connection.call_tool(optional, &Map::new(), &mut |_| {}).await;
        assert_eq!(called.is_ok(), tasks == all_tasks(), "{tasks}");
        let mut plain = CallOptions::default();
        plain.without_task = true;
        let refused = connection
            .call_tool_with(optional, &Map::new(), &plain, &mut |_| {})
            .await;
        assert!(
            matches!(&refused, Err(RequestError::UnexpectedTask { .. })),
            "{refused:?}"
        );
    }
    // A member of a result that has its content.
    let peer = legacy(Value::Null, |seen| {
        seen.result(json!({"content": [], "task": {"taskId": "of the tool's own"}}))
    });
    let (connection, _) = peer.connection();
    let tool = connection.list_tools().await.unwrap().remove(0);
    let called = connection.call_tool(&tool, &Map::new(), &mut |_| {}).await.unwrap();
    assert!(matches!(called, CallResponse::Done(_)));
}

#[tokio::test]
async fn every_final_status_has_its_outcome() {
    type Answer = fn(&crate::peer::ReceivedRequest) -> axum::http::Response<axum::body::Body>;
    let ends: [(&str, Answer, Verdict); 7] = [
        ("completed", |seen| seen.result(content(false)), Verdict::Succeeded),
        ("failed", |seen| seen.result(content(true)), Verdict::ToolError),
        // The status counts.
        ("failed", |seen| seen.result(content(false)), Verdict::ToolError),
        (
            "failed",
            |seen| seen.result(json!({"_meta": {"io.modelcontextprotocol/related-task": {"taskId": "t-1"}}})),
            Verdict::RpcError,
        ),
        (
            "failed",
            |seen| seen.error(200, -32603, json!({"exit": 137})),
            Verdict::RpcError,
        ),
        ("completed", |seen| seen.stream(&[], content(false)), Verdict::Succeeded),
        (
            "cancelled",
            |_| panic!("a cancelled task has no result"),
            Verdict::Cancelled,
        ),
    ];
    for (status, answer, verdict) in ends {
        let polls = AtomicUsize::new(0);
        let peer = legacy(all_tasks(), move |seen| match seen.method() {
            "tasks/get" if polls.fetch_add(1, Ordering::Relaxed) == 0 => seen.result(task("working")),
            "tasks/get" => {
                let mut task = task(status);
                task["statusMessage"] = "the disk is full".into();
                seen.result(task)
            }
            "tasks/result" => answer(seen),
            other => panic!("{other}"),
        });
        let (connection, clock) = peer.connection();
        let outcome = connection.task("t-1").wait(&mut |_| {}).await.unwrap();
        assert_eq!(outcome.verdict(), verdict, "{status}");
        if let Outcome::RpcError(failure) = &outcome {
            assert!(
                failure.data.is_some() || &*failure.message == "the disk is full",
                "{failure:?}"
            );
        }
        assert_eq!(clock.sleeps().len(), 1);
    }
}

#[tokio::test]
async fn a_lost_session_is_replaced_and_the_request_retried() {
    let requests = AtomicUsize::new(0);
    let peer = legacy(all_tasks(), move |seen| {
        match requests.fetch_add(1, Ordering::Relaxed) {
            1 => plain(404, "session not found"),
            _ => seen.result(task("working")),
        }
    });
    let (connection, _) = peer.connection();
    let task = connection.task("t-1");
    task.get().await.unwrap();
    task.get().await.unwrap();
    assert_eq!(peer.calls_of("initialize").len(), 2);
    assert_eq!(peer.calls_of("tasks/get").len(), 3);
}

#[tokio::test]
async fn a_request_is_retried_only_once_after_a_lost_session() {
    let peer = legacy(all_tasks(), |_| plain(404, "session not found"));
    let (connection, _) = peer.connection();
    let error = connection.task("t-1").get().await.unwrap_err();
    assert!(matches!(error, RequestError::LostWithSession), "{error}");
    assert_eq!(peer.calls_of("tasks/get").len(), 2);
}

/// The responses of the client, once there are so many: those with texts as ids first.
async fn answers(peer: &Peer, count: usize) -> Vec<Value> {
    loop {
        let seen = peer.seen().into_iter().filter(|seen| seen.verb == "POST");
        let mut answers: Vec<Value> = (seen.map(|seen| seen.body))
            .filter(|body| body["method"].is_null())
            .collect();
        if answers.len() == count {
            // They are answered beside each other.
            answers.sort_by_key(|answer| answer["id"].is_number());
            return answers;
        }
        tokio::task::yield_now().await;
    }
}

/// JSON-RPC has params by position, and MCP has not.
#[tokio::test]
async fn malformed_requests_of_the_server_get_an_error_and_the_call_goes_on() {
    let (pushes, events) = unbounded_channel();
    let events = Mutex::new(Some(events));
    let malformed = |id: Value| json!({"jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": []});
    pushes.send(format!("data: {}\n\n", malformed(json!(8)))).unwrap();
    let peer = legacy(Value::Null, move |seen| match seen.method() {
        "tools/call" => {
            let notification = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": []});
            seen.stream(&[notification, malformed(json!("srv-1"))], content(false))
        }
        _ if seen.verb == "GET" => match events.lock().unwrap().take() {
            Some(events) => event_stream(events),
            None => plain(405, ""),
        },
        _ => plain(202, ""),
    });
    let asked = Inputs::new().elicit(|_| async { Ok(InputResponse::cancel()) });
    let (connection, _) = peer.connection_with(|options| options.inputs = Some(asked.into()));
    let tools = connection.list_tools().await.unwrap();
    let called = connection.call_tool(&tools[0], &Map::new(), &mut |_| {}).await.unwrap();
    assert!(
        matches!(called, CallResponse::Done(Outcome::Result { .. })),
        "{called:?}"
    );
    let answers = answers(&peer, 2).await;
    for (answer, id) in answers.iter().zip([json!("srv-1"), json!(8)]) {
        assert_eq!(
            (&answer["id"], &answer["error"]["code"]),
            (&id, &json!(-32602)),
            "{answer}"
        );
    }
}

#[tokio::test]
async fn requests_on_the_stream_are_answered_or_declined() {
    let peer = legacy(Value::Null, |seen| match seen.method() {
        "tools/call" => {
            let ping = json!({"jsonrpc": "2.0", "id": "srv-1", "method": "ping"});
            let elicit = json!({"jsonrpc": "2.0", "id": 2, "method": "elicitation/create", "params": {"message": "?"}});
            seen.stream(&[ping, elicit], content(false))
        }
        _ => axum::http::Response::builder()
            .status(202)
            .body(axum::body::Body::empty())
            .unwrap(),
    });
    let (connection, _) = peer.connection();
    let tools = connection.list_tools().await.unwrap();
    let called = connection.call_tool(&tools[0], &Map::new(), &mut |_| {}).await.unwrap();
    assert!(matches!(called, CallResponse::Done(Outcome::Result { .. })));
    let answers = answers(&peer, 2).await;
    assert_eq!(answers[0], json!({"jsonrpc": "2.0", "id": "srv-1", "result": {}}));
    assert_eq!(
        (&answers[1]["id"], &answers[1]["error"]["code"]),
        (&json!(2), &json!(-32601))
    );
}
