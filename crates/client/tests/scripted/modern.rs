//! Against a modern server.

use crate::{
    peer::{ReceivedRequest, modern, plain},
    task::modern_task,
};
use longhaul_client::{CallResponse, Event, Outcome, Progress, RequestError, TaskStatus};
use longhaul_core::Verdict;
use serde_json::{Map, Value, json};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

const META: &str = "io.modelcontextprotocol/clientCapabilities";

fn arguments() -> Map<String, Value> {
    Map::from_iter([("x".to_owned(), "1".into())])
}

fn task(status: &str, more: Value) -> Value {
    let mut task = modern_task(status, more);
    task["pollIntervalMs"] = 3000.into();
    task
}

fn done(text: &str) -> Value {
    json!({"resultType": "complete", "content": [{"type": "text", "text": text}]})
}

#[tokio::test]
async fn a_call_becomes_a_task_and_ends() {
    let polls = AtomicUsize::new(0);
    let peer = modern(move |seen| match seen.method() {
        "tools/call" => seen.result(task("working", json!({"resultType": "task"}))),
        "tasks/get" => match polls.fetch_add(1, Ordering::Relaxed) {
            0 => seen.result(task("working", json!({}))),
            1 => seen.result(task("working", json!({"statusMessage": "half"}))),
            _ => seen.result(task("completed", json!({"result": done("ready")}))),
        },
        // After any other error it would be sent again, after pauses that the clock records, too.
        "subscriptions/listen" => seen.error(404, -32601, Value::Null),
        other => panic!("{other}"),
    });
    let (connection, clock) = peer.connection();
    let tools = connection.list_tools().await.unwrap();
    let called = connection
        .call_tool(&tools[0], &arguments(), &mut |_| {})
        .await
        .unwrap();
    let CallResponse::Task(handle) = called else {
        panic!("not a task")
    };
    assert_eq!(handle.id(), "t-1");

    let mut statuses = Vec::new();
    let outcome = handle
        .wait(&mut |event| match event {
            Event::Status(task) => statuses.push((task.status, task.message.clone())),
            other => panic!("{other:?}"),
        })
        .await
        .unwrap();
    assert_eq!(outcome.verdict(), Verdict::Succeeded);
    let half = Some("half".to_owned());
    assert_eq!(
        statuses,
        [
            (TaskStatus::Working, None),
            (TaskStatus::Working, half),
            (TaskStatus::Completed, None)
        ]
    );
    let asked = Duration::from_secs(3)..=Duration::from_millis(3600);
    let polls = clock.sleeps().iter().filter(|sleep| asked.contains(*sleep)).count();
    assert_eq!(polls, 3, "{:?}", clock.sleeps());

    for seen in peer.seen() {
        let version = &seen.params()["_meta"]["io.modelcontextprotocol/protocolVersion"];
        assert_eq!(version, "2026-07-28");
        assert_eq!(seen.header("mcp-protocol-version"), version.as_str());
        assert_eq!(seen.header("mcp-method"), Some(seen.method()));
        assert_eq!(seen.header("accept"), Some("application/json, text/event-stream"));
        assert_eq!(
            seen.params()["_meta"][META]["extensions"]["io.modelcontextprotocol/tasks"],
            json!({})
        );
        assert_eq!(seen.header("mcp-session-id"), None);
        assert_eq!(seen.params()["task"], Value::Null);
    }
    let call = &peer.calls_of("tools/call")[0];
    assert_eq!(call.header("mcp-name"), Some("=?base64?Z3LDtsOfZQ==?="));
    assert_eq!(call.params()["arguments"], json!({"x": "1"}));
    assert_eq!(peer.calls_of("tasks/get")[0].header("mcp-name"), Some("t-1"));
    // The stream of changes may be opened meanwhile.
    let seen = peer.seen();
    let ids: std::collections::BTreeSet<_> = seen.iter().map(|seen| seen.body["id"].to_string()).collect();
    assert_eq!(ids.len(), seen.len(), "every request has an id of its own");
}

#[tokio::test]
async fn a_direct_response_is_json_or_a_stream_with_progress() {
    let peer = modern(|seen| match seen.params()["name"].as_str() {
        Some("optional") => {
            let token = &seen.params()["_meta"]["progressToken"];
            let progress =
                |params: Value| json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params});
            let first = progress(json!({"progressToken": token, "progress": 1, "total": 4, "message": "going"}));
            seen.stream(&[first], done("streamed"))
        }
        _ => seen.result(done("plain")),
    });
    let (connection, _) = peer.connection();
    let tools = connection.list_tools().await.unwrap();
    let mut heard = Vec::new();
    for (tool, expected) in [(&tools[1], "plain"), (&tools[2], "streamed")] {
        let mut hear = |event: Event<'_>| {
            if let Event::Progress(progress) = event {
                heard.push(progress);
            }
        };
        let called = connection.call_tool(tool, &arguments(), &mut hear).await.unwrap();
        let CallResponse::Done(Outcome::Result { json, is_error }) = called else {
            panic!("not done")
        };
        assert!(json.as_str().contains(expected) && !is_error);
    }
    assert_eq!(
        heard,
        [Progress {
            progress: 1.0,
            total: Some(4.0),
            message: Some("going".to_owned()),
            params: heard[0].params.clone(),
        }]
    );
}

#[tokio::test]
async fn a_round_with_a_state_only_is_retried_and_others_are_refused() {
    let peer = modern(|seen| {
        let state = &seen.params()["requestState"];
        match (seen.params()["name"].as_str().unwrap(), state.as_str()) {
            ("größe", None) => seen.result(json!({"resultType": "input_required", "requestState": "nonce"})),
            ("größe", Some("nonce")) => seen.result(done("ok")),
            ("forbidden", _) => seen.result(json!({"resultType": "input_required", "requestState": "again"})),
            ("optional", _) => {
                let requests = json!({"who": {"method": "elicitation/create", "params": {}}});
                seen.result(json!({"resultType": "input_required", "requestState": "s", "inputRequests": requests}))
            }
            _ => seen.result(json!({"resultType": "surprise"})),
        }
    });
    let (connection, _) = peer.connection();
    let tools = connection.list_tools().await.unwrap();
    assert!(matches!(
        connection.call_tool(&tools[0], &arguments(), &mut |_| {}).await,
        Ok(CallResponse::Done(_))
    ));
    for tool in &tools[1..] {
        let called = connection.call_tool(tool, &arguments(), &mut |_| {}).await;
        assert!(
            matches!(called, Err(RequestError::Invalid(_))),
            "{}: {called:?}",
            tool.name
        );
    }
}

#[tokio::test]
async fn only_a_call_may_have_a_result_of_another_kind() {
    for kind in ["task", "surprise"] {
        let peer = modern(move |seen| seen.result(task("working", json!({"resultType": kind}))));
        let (connection, _) = peer.connection();
        for refused in [
            connection.get_prompt("p", &Map::new()).await,
            connection.read_resource("test://r").await,
        ] {
            let error = refused.unwrap_err();
            assert!(error.to_string().contains(kind), "{error}");
        }
    }
}

#[tokio::test]
async fn every_final_status_has_its_outcome() {
    let ends = [
        (task("completed", json!({"result": done("x")})), Verdict::Succeeded),
        (
            task("completed", json!({"result": {"content": [], "isError": true}})),
            Verdict::ToolError,
        ),
        (
            task(
                "failed",
                json!({"error": {"code": -32603, "message": "died", "data": {"exit": 137}}}),
            ),
            Verdict::RpcError,
        ),
        (task("cancelled", json!({})), Verdict::Cancelled),
    ];
    for (end, verdict) in ends {
        let peer = modern(move |seen| seen.result(end.clone()));
        let (connection, clock) = peer.connection();
        let outcome = connection.task("t-1").wait(&mut |_| {}).await.unwrap();
        assert_eq!(outcome.verdict(), verdict);
        assert_eq!(clock.sleeps().len(), 0, "a task that has ended is not waited for");
    }
}

#[tokio::test]
async fn a_wait_survives_a_restart_of_the_server() {
    let finished = Arc::new(AtomicUsize::new(0));
    let told = finished.clone();
    let mut peer = modern(move |seen| match told.load(Ordering::Relaxed) {
        0 => seen.result(task("working", json!({}))),
        _ => seen.result(task("completed", json!({"result": done("x")}))),
    });
    let (connection, _) = peer.connection();
    let (mut story, mut pauses) = (Vec::new(), Vec::new());
    let outcome = connection
        .task("t-1")
        .wait(&mut |event| match event {
            Event::Status(task) if task.status == TaskStatus::Working => {
                story.push("working".to_owned());
                peer.kill();
            }
            Event::Retrying {
                error,
                attempt,
                retry_in,
            } => {
                assert!(error.is_transient());
                pauses.push(retry_in);
                story.push(format!("trouble {attempt}"));
                if attempt == 3 {
                    finished.store(1, Ordering::Relaxed);
                    peer.restart();
                }
            }
            Event::Recovered => story.push("recovered".to_owned()),
            Event::Status(task) => story.push(task.status.as_str().to_owned()),
            other => panic!("{other:?}"),
        })
        .await
        .unwrap();
    assert_eq!(outcome.verdict(), Verdict::Succeeded);
    let told: Vec<&str> = story
        .iter()
        .map(String::as_str)
        .filter(|line| *line != "trouble 4")
        .collect();
    assert!(
        told.ends_with(&["trouble 1", "trouble 2", "trouble 3", "recovered", "completed"]),
        "{story:?}"
    );
    assert!(pauses[2] > 900, "it slows down: {pauses:?}");
}

#[tokio::test]
async fn a_wait_may_start_while_the_server_is_down() {
    let mut peer = modern(|seen| seen.result(task("cancelled", json!({}))));
    peer.kill();
    let (connection, _) = peer.connection();
    let mut revived = false;
    let mut revive_once = |event: Event<'_>| {
        if let Event::Retrying { .. } = event
            && !std::mem::replace(&mut revived, true)
        {
            peer.restart();
        }
    };
    let outcome = connection.task("t-1").wait(&mut revive_once).await;
    assert_eq!(outcome.unwrap(), Outcome::Cancelled);
    assert!(revived);
}

#[tokio::test]
async fn a_retry_waits_as_long_as_an_overloaded_server_asks() {
    let asked = AtomicUsize::new(0);
    let peer = modern(move |seen| match asked.fetch_add(1, Ordering::Relaxed) {
        0 => axum::http::Response::builder()
            .status(429)
            .header("retry-after", "40")
            .body(axum::body::Body::empty())
            .unwrap(),
        1 => plain(503, "starting"),
        _ => seen.result(task("cancelled", json!({}))),
    });
    let (connection, clock) = peer.connection();
    connection.task("t-1").wait(&mut |_| {}).await.unwrap();
    let sleeps = clock.sleeps();
    assert_eq!(sleeps[0], Duration::from_secs(40));
    assert!(sleeps[1] <= Duration::from_secs(1));
}

#[tokio::test]
async fn an_unknown_task_ends_the_wait() {
    let peer = modern(|seen| seen.error(200, -32602, Value::Null));
    let (connection, _) = peer.connection();
    let error = connection.task("t-1").wait(&mut |_| {}).await.unwrap_err();
    assert!(error.is_unknown_task());
}

#[tokio::test]
async fn a_cancel_is_acknowledged_and_logs_are_read_as_resources() {
    let id = "018f2f6c7a10AAAAAAAAAAAAAAAAAAAAAA";
    let peer = modern(|seen| match seen.method() {
        "tasks/cancel" => seen.result(json!({"resultType": "complete"})),
        "resources/read" => {
            let uri = &seen.params()["uri"];
            let page = json!({"dev.longhaul/log": {"offset": 0, "next": 8, "total": 8}});
            let contents = json!([{"uri": uri, "text": "one\n"}, {"uri": uri, "blob": "dHdvCg==", "_meta": page}]);
            seen.result(json!({"resultType": "complete", "contents": contents}))
        }
        other => panic!("{other}"),
    });
    let (connection, _) = peer.connection();
    let task = connection.task(id);
    assert_eq!(task.cancel().await.unwrap(), None);
    let log = task.read_log(None, Some(0)).await.unwrap();
    assert_eq!((log.bytes.as_slice(), log.next, log.total), (&b"one\ntwo\n"[..], 8, 8));
    let read = &peer.calls_of("resources/read")[0];
    assert_eq!(
        read.header("mcp-name"),
        Some(format!("longhaul://task/{id}/log?offset=0&limit=1048576").as_str())
    );
    let stranger = connection.task("no task of ours!").read_log(None, None).await;
    assert!(matches!(stranger, Err(RequestError::InvalidTaskId)));
}

#[tokio::test]
async fn responses_have_a_maximum_size() {
    let peer = modern(|seen: &ReceivedRequest| {
        let text = "x".repeat(200_000);
        if seen.params()["name"] == "optional" {
            seen.stream(&[], done(&text))
        } else {
            seen.result(done(&text))
        }
    });
    let (connection, _) = peer.connection();
    let tools = connection.list_tools().await.unwrap();
    for tool in &tools[1..3] {
        let called = connection.call_tool(tool, &arguments(), &mut |_| {}).await;
        assert!(
            matches!(called, Err(RequestError::TooLarge { limit: 100_000 })),
            "{called:?}"
        );
    }
}

#[tokio::test]
async fn a_call_is_never_retried() {
    let peer = modern(|_| plain(503, "no"));
    let (connection, _) = peer.connection();
    let tools = connection.list_tools().await.unwrap();
    let called = connection.call_tool(&tools[0], &arguments(), &mut |_| {}).await;
    assert!(matches!(called, Err(RequestError::Http { status: 503, .. })));
    assert_eq!(peer.calls_of("tools/call").len(), 1);
}

#[tokio::test]
async fn a_long_json_rpc_error_with_a_transient_status_is_read_whole() {
    let peer = modern(|seen| seen.error(503, -32603, json!({"detail": "x".repeat(10_000)})));
    let (connection, _) = peer.connection();
    let tools = connection.list_tools().await.unwrap();
    let called = connection.call_tool(&tools[0], &arguments(), &mut |_| {}).await;
    let Err(RequestError::Unavailable { failure, .. }) = called else {
        panic!("{called:?}")
    };
    assert_eq!(failure.code, -32603);
    assert!(failure.data.unwrap().as_str().len() > 10_000);
}

#[tokio::test]
async fn the_shown_part_of_an_error_body_ends_between_characters() {
    // The 300th byte is the first of the two bytes of an `é`.
    let peer = modern(|_| plain(503, format!("x{}", "é".repeat(100_000))));
    let (connection, _) = peer.connection();
    let tools = connection.list_tools().await.unwrap();
    let called = connection.call_tool(&tools[0], &arguments(), &mut |_| {}).await;
    let Err(RequestError::Http { body, .. }) = called else {
        panic!("{called:?}")
    };
    assert_eq!(body, format!("x{}", "é".repeat(149)));
}

/// A subscription that ends is opened again a few times, and the task is polled at its usual pace.
#[tokio::test]
async fn a_subscription_that_ends_is_opened_a_few_times() {
    let (opened, polls) = (Arc::new(AtomicUsize::new(0)), AtomicUsize::new(0));
    let opening = Arc::clone(&opened);
    let snapshot = |status: &str| modern_task(status, json!({"pollIntervalMs": 100}));
    let peer = modern(move |seen| match seen.method() {
        "tasks/get" if opened.load(Ordering::Relaxed) < 3 => seen.result(snapshot("working")),
        // Time enough to open another one.
        "tasks/get" if polls.fetch_add(1, Ordering::Relaxed) < 50 => seen.result(snapshot("working")),
        "tasks/get" => seen.result(snapshot("cancelled")),
        "subscriptions/listen" => {
            opening.fetch_add(1, Ordering::Relaxed);
            let accepted = json!({
                "jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
                "params": {"notifications": {"taskIds": ["t-1"]}},
            });
            seen.stream(&[accepted], json!({"resultType": "complete"}))
        }
        _ => plain(404, ""),
    });
    let (connection, clock) = peer.connection();
    assert!(matches!(
        connection.task("t-1").wait(&mut |_| {}).await.unwrap(),
        Outcome::Cancelled
    ));
    assert_eq!(peer.calls_of("subscriptions/listen").len(), 3);
    let longest = clock.sleeps().into_iter().max().unwrap();
    assert!(longest <= Duration::from_millis(120), "{longest:?}");
}
