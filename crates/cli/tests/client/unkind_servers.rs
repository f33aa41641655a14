//! Servers that answer as servers may: without room, without the task, with nonsense, or too late.

use crate::{
    peer::{Peer, ReceivedRequest, event_stream, legacy, modern, plain},
    scripted::{Reply, asks, completed, created, form, legacy_form, legacy_task, scripted, task},
    support::*,
};
use axum::{body::Body, http::Response};
use serde_json::{Value, json};
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

/// Those that ask and those that wait are the same task, which the server knows or not.
#[test]
fn the_latest_lost_tasks_are_asked_for_again() {
    const RECORDED: usize = 40;
    const ASKED_AGAIN: usize = 32;
    let is_known = Arc::new(AtomicBool::new(true));
    let knows = Arc::clone(&is_known);
    let peer = modern(move |seen| match seen.method() {
        "tools/call" => seen.result(created("task-00")),
        "tasks/get" if knows.load(Ordering::SeqCst) => {
            seen.result(task(seen.params()["taskId"].as_str().unwrap(), "working", json!({})))
        }
        "tasks/get" => seen.error(200, -32602, Value::Null),
        _ => seen.error(404, -32601, Value::Null),
    });
    let at = At::new(&peer.url());
    at.done(&["call", "optional", "--detach"]);
    let journal = rusqlite::Connection::open(at.home.path().join("longhaul/.client/handles.db")).unwrap();
    for nth in 1..RECORDED {
        let sql = "INSERT INTO calls (server, tool, arguments_digest, state, task_id, generation, begun_at, changed_at)
                   SELECT server, tool, arguments_digest, state, ?1, generation, begun_at, changed_at FROM calls WHERE task_id = 'task-00'";
        journal.execute(sql, [format!("task-{nth:02}")]).unwrap();
    }
    let states = |options: &[&str]| -> Vec<(String, String)> {
        let state = |call: &Value| call["state"].as_str().unwrap().split(':').next().unwrap().to_owned();
        let calls = at.listed(options);
        let calls = calls
            .iter()
            .map(|call| (call["taskId"].as_str().unwrap().to_owned(), state(call)));
        calls.collect()
    };
    is_known.store(false, Ordering::SeqCst);
    let lost = states(&[]);
    assert!(lost.iter().all(|(_, state)| state == "lost"), "{lost:?}");
    assert_eq!(lost.len(), RECORDED);

    is_known.store(true, Ordering::SeqCst);
    let asked = peer.calls_of("tasks/get").len();
    let found = states(&[]);
    assert_eq!(peer.calls_of("tasks/get").len() - asked, ASKED_AGAIN);
    // The latest come first.
    let (again, older) = found.split_at(ASKED_AGAIN);
    assert!(again.iter().all(|(_, state)| state == "working"), "{found:?}");
    assert!(older.iter().all(|(_, state)| state == "lost"), "{found:?}");
    // That is recorded.
    assert_eq!(states(&["--offline"]), found);
}

#[test]
fn a_login_that_ends_while_a_task_is_waited_for_says_that_the_task_goes_on() {
    let (is_out, polls) = (Arc::new(AtomicBool::new(true)), AtomicUsize::new(0));
    let out = Arc::clone(&is_out);
    let peer = modern(move |seen| match seen.method() {
        "tools/call" => seen.result(created("task-1")),
        "tasks/get" if polls.fetch_add(1, Ordering::SeqCst) == 0 => seen.result(task("task-1", "working", json!({}))),
        "tasks/get" if out.load(Ordering::SeqCst) => plain(401, "who are you?"),
        "tasks/get" => seen.result(completed("task-1", "built")),
        _ => seen.error(404, -32601, Value::Null),
    });
    let at = At::new(&peer.url());
    for words in [&["call", "optional"][..], &["task", "task-1", "--wait"]] {
        let waited = at.run(words);
        waited.ends(5).says("wait for it with `longhaul task task-1 --wait`");
        let login = format!("(`longhaul login {}`)", peer.url());
        waited.says(&format!("the task keeps running; after a login {login}"));
    }
    let listed = at.shown(&["tasks", "--json", "--offline"]);
    assert_eq!(listed["calls"][0]["state"], "working", "{listed}");
    is_out.store(false, Ordering::SeqCst);
    assert_eq!(at.done(&["task", "task-1", "--wait"]), "built");
}

/// Whether it says so in JSON-RPC or not.
#[test]
fn a_server_that_is_not_available_has_one_exit_status() {
    for is_plain in [true, false] {
        let refuse = move |seen: &ReceivedRequest| match is_plain {
            true => plain(503, "no room"),
            false => seen.error(503, -32603, Value::Null),
        };
        let peer = modern(move |seen| match seen.method() {
            "tools/call" if seen.params()["name"] == "optional" => seen.result(created("task-1")),
            _ => refuse(seen),
        });
        let home = tempfile::tempdir().unwrap();
        exit(&run_at(&peer.url(), &home, &["call", "optional", "--detach"]), 0);
        for words in [
            &["call", "required"][..],
            &["task", "task-1"],
            &["answer", "task-1", "a=b"],
            &["cancel", "task-1"],
            &["resources"],
            &["resources", "--uri", "docs://readme"],
            &["prompts"],
            &["prompts", "review"],
            &["complete", "review", "language=r"],
            &["inspect", "prompts/list"],
        ] {
            let refused = run_at(&peer.url(), &home, words);
            assert_eq!(refused.status.code(), Some(3), "{words:?}: {refused:?}");
        }
        let nothing = Peer::start(refuse);
        for words in [&["tools"][..], &["call", "optional"], &["inspect"]] {
            let refused = run_at(&nothing.url(), &home, words);
            assert_eq!(refused.status.code(), Some(3), "{words:?}: {refused:?}");
        }
    }
}

/// Nobody knows what has become of the answer, so the task can be answered again.
#[test]
fn an_answer_to_which_the_server_says_nonsense_can_be_given_again() {
    type Nonsense = fn(&ReceivedRequest) -> Response<Body>;
    let other_id = |_: &ReceivedRequest| json_body(json!({"jsonrpc": "2.0", "id": "another", "result": {}}));
    let nonsense: [(Nonsense, i32); 5] = [
        (|_| plain(200, "<html>"), 3),
        (|seen| json_body(json!({"jsonrpc": "2.0", "id": seen.body["id"]})), 3),
        (|_| json_body(json!([1])), 3),
        (other_id, 3),
        (|seen| seen.error(200, -32602, Value::Null), 5),
    ];
    for (nth, (answer, status)) in nonsense.into_iter().enumerate() {
        let updates = AtomicUsize::new(0);
        let peer = modern(move |seen| match seen.method() {
            "tools/call" => seen.result(created("task-1")),
            "tasks/get" if updates.load(Ordering::SeqCst) < 2 => {
                let question = form("Which?", json!({"a": {"type": "string"}}));
                seen.result(asks("task-1", json!({"q": question})))
            }
            "tasks/get" => seen.result(task("task-1", "working", json!({}))),
            "tasks/update" if updates.fetch_add(1, Ordering::SeqCst) == 0 => answer(seen),
            "tasks/update" => seen.result(json!({"resultType": "complete"})),
            _ => seen.error(404, -32601, Value::Null),
        });
        let at = At::new(&peer.url());
        at.done(&["call", "optional", "--detach"]);
        let answered = at.run(&["answer", "task-1", "a=b"]);
        assert_eq!(answered.status.code(), Some(status), "{nth}: {answered:?}");
        at.done(&["answer", "task-1", "a=c"]);
        let sent = peer.calls_of("tasks/update");
        let value = |update: &ReceivedRequest| update.params()["inputResponses"]["q"]["content"]["a"].clone();
        assert_eq!(sent.iter().map(value).collect::<Vec<_>>(), ["b", "c"], "{nth}");
    }
}

fn json_body(body: Value) -> Response<Body> {
    Response::builder()
        .header("content-type", "application/json")
        .body(body.to_string().into())
        .unwrap()
}

/// A proxy has given up, and the tool may have run.
#[test]
fn a_call_after_a_gateway_timeout_is_of_unknown_outcome() {
    for is_plain in [true, false] {
        let peer = modern(move |seen| match is_plain {
            true => plain(504, "gateway timeout"),
            false => seen.error(504, -32600, Value::Null),
        });
        let at = At::new(&peer.url());
        let called = at.run(&["call", "optional"]);
        exit(&called, 3);
        called.says("the call may or may not have run, and was not sent again");
        assert_eq!(peer.calls_of("tools/call").len(), 1);
        let listed = at.done(&["tasks", "--offline"]);
        assert!(listed.contains("optional  outcome unknown"), "{listed}");
    }
}

/// The call was refused at its session.
#[test]
fn a_call_whose_session_has_ended_is_sent_again_in_a_new_one() {
    let peer = legacy(json!({}), |seen| match seen.header("mcp-session-id") {
        Some("session-1") => plain(404, "session not found"),
        _ => seen.result(json!({"content": []})),
    });
    let at = At::new(&peer.url());
    at.done(&["call", "optional", "--era=legacy"]);
    assert_eq!(peer.calls_of("tools/call").len(), 2);
    assert_eq!(peer.calls_of("initialize").len(), 2);
}

/// A legacy server goes on with a task whoever has left. The answer comes after the time of the command, and while it still waits for the task's name.
#[test]
#[expect(clippy::disallowed_methods, reason = "the server is slow")]
fn a_task_that_is_named_after_the_timeout_is_not_lost() {
    let peer = legacy(json!({"requests": {"tools": {"call": {}}}}), |seen| {
        match seen.method() {
            "tools/call" => {
                let (stream, events) = tokio::sync::mpsc::unbounded_channel();
                let task = legacy_task("task-1", "working");
                let answer = json!({"jsonrpc": "2.0", "id": seen.body["id"], "result": {"task": task}});
                tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_millis(1_500)).await;
                    let _ = stream.send(format!("data: {answer}\n\n"));
                });
                event_stream(events)
            }
            _ => plain(405, ""),
        }
    });
    let at = At::new(&peer.url());
    let called = at.run(&["call", "optional", "--timeout=1s", "--era=legacy"]);
    called.ends(124).says("task-1 --wait");
    let listed = at.done(&["tasks", "--offline"]);
    assert!(listed.starts_with("task-1  optional  running"), "{listed}");
}

fn with_tasks() -> Value {
    json!({"requests": {"tools": {"call": {}}}})
}

/// The server puts a question again, under the same key, whose answer it has acknowledged.
#[test]
fn a_question_that_is_asked_again_is_answered_once() {
    let is_cancelled = AtomicBool::new(false);
    let peer = modern(move |seen| match seen.method() {
        "tools/call" => seen.result(created("task-1")),
        "tasks/get" if is_cancelled.load(Ordering::SeqCst) => seen.result(task("task-1", "cancelled", json!({}))),
        "tasks/get" => {
            let question = form("Which?", json!({"a": {"type": "string"}}));
            seen.result(asks("task-1", json!({"q": question})))
        }
        "tasks/cancel" => {
            is_cancelled.store(true, Ordering::SeqCst);
            seen.result(json!({"resultType": "complete"}))
        }
        _ => seen.result(json!({"resultType": "complete"})),
    });
    let at = At::new(&peer.url());
    exit(&at.run(&["call", "optional"]), 7);
    at.done(&["answer", "task-1", "a=b"]);
    let way = "longhaul cancel task-1";
    for words in [
        &["answer", "task-1", "a=c"][..],
        &["answer", "task-1", "--question=q", "--decline"],
    ] {
        let again = at.run(words);
        again
            .ends(5)
            .says("`q` is answered, and the server has acknowledged that");
        again.says(way);
    }
    let shown = at.run(&["task", "task-1"]);
    assert!(!exit(&shown, 0).contains("Which?"), "{shown:?}");
    shown.says(way).says_no("longhaul answer");
    let shown = at.shown(&["task", "task-1", "--json"]);
    assert_eq!(shown["answered"], json!(["q"]), "{shown}");
    assert_eq!(shown["inputRequests"]["q"]["params"]["message"], "Which?", "{shown}");
    let waited = at.run(&["task", "task-1", "--wait", "--json"]);
    let failed: Value = serde_json::from_str(&exit(&waited, 3)).unwrap();
    assert_eq!(failed["error"]["kind"], "invalid_answer");
    waited.says("the task cannot go on; end it with `longhaul cancel task-1`");
    assert_eq!(peer.calls_of("tasks/update").len(), 1);
    at.done(&["cancel", "task-1"]);
}

#[test]
fn a_task_that_the_server_does_not_know_any_more_is_lost_in_every_command() {
    // Of this session and of the next one, or of a server that was restarted.
    for is_known_session in [false, true] {
        let peer = legacy(with_tasks(), move |seen| match seen.method() {
            "tools/call" => seen.result(json!({"task": legacy_task("task-1", "working")})),
            "tasks/get" if is_known_session => seen.error(200, -32602, Value::Null),
            "tasks/get" => plain(404, ""),
            _ if seen.verb == "GET" => plain(405, ""),
            _ => plain(202, ""),
        });
        for words in [
            &["task", "task-1"][..],
            &["task", "task-1", "--wait"],
            &["cancel", "task-1"],
            &["answer", "task-1", "--decline"],
            &["watch", "task-1"],
        ] {
            let at = At::new(&peer.url());
            at.done(&["call", "optional", "--detach"]);
            let read = at.run(&[words, &["--json"]].concat());
            let printed = exit(&read, 5);
            let lines: Vec<Value> = printed
                .lines()
                .map(|line| serde_json::from_str(line).unwrap())
                .collect();
            if words[0] == "watch" {
                assert_eq!(lines[0]["state"], "lost", "{printed}");
            }
            let error = lines.last().unwrap()["error"].clone();
            let explained = match error.get("explanation") {
                Some(explained) => explained.as_str().unwrap(),
                None => error["message"].as_str().unwrap(),
            };
            println!("{words:?}");
            let why = "the server does not know the task any more: its retention is over, it was deleted, or it belongs to another principal";
            for said in [explained, &stderr(&read)] {
                said.has(why).has("call the tool again");
            }
            error.has_members(json!({"kind": "lost", "mayHaveRun": true}));
            let listed = at.shown(&["tasks", "--json"]);
            let state = listed["calls"][0]["state"].as_str().unwrap();
            assert!(state.starts_with("lost"), "{words:?}: {listed}");
        }
    }
}

#[test]
fn the_page_that_a_call_is_refused_without_is_named_where_nobody_can_be_asked() {
    let peer = legacy(Value::Null, |seen| match seen.method() {
        "tools/call" => {
            let page =
                json!({"mode": "url", "elicitationId": "7", "url": "https://acme.example/a?b=1", "message": "Connect"});
            seen.error(200, -32042, json!({"elicitations": [page]}))
        }
        _ if seen.verb == "GET" => plain(405, ""),
        _ => plain(202, ""),
    });
    let at = At::new(&peer.url());
    let called = at.run(&["call", "optional", "--json"]);
    exit(&called, 5);
    called.says("Connect (it asks to open https://acme.example/a?b=1)");
    called.says("has not run").says_no("may");
    let error = &json(&called)["error"];
    error.has_members(json!({"kind": "refused", "mayHaveRun": false}));
    let listed = at.shown(&["tasks", "--json"]);
    assert_eq!(listed["calls"][0]["state"], "refused", "{listed}");
    assert_eq!(peer.calls_of("tools/call").len(), 1);
    let file = at.batch_file("{}\n");
    let batch = at.run(&["call", "optional", "--batch", &file]);
    exit(&batch, 5);
    assert_eq!(json(&batch)["error"]["mayHaveRun"], false, "{batch:?}");
}

/// Some servers send a question once, on the push stream.
#[test]
fn a_detached_call_records_a_question_that_follows_at_once() {
    let streams: Arc<Mutex<Vec<UnboundedSender<String>>>> = Arc::default();
    let opened = Arc::clone(&streams);
    let is_asked = AtomicBool::new(false);
    let peer = legacy(with_tasks(), move |seen| match seen.method() {
        "tools/call" => seen.result(json!({"task": legacy_task("task-1", "working")})),
        "tasks/get" => {
            if !is_asked.swap(true, Ordering::SeqCst) {
                let question = legacy_form(7, "Which one?", json!({"name": {"type": "string"}}));
                let streams = opened.lock().unwrap();
                streams[0].send(format!("data: {question}\n\n")).unwrap();
            }
            seen.result(legacy_task("task-1", "working"))
        }
        _ if seen.verb == "GET" => {
            let (stream, events) = unbounded_channel();
            opened.lock().unwrap().push(stream);
            event_stream(events)
        }
        _ => plain(202, ""),
    });
    let at = At::new(&peer.url());
    let called = at.run(&["call", "optional", "--detach"]);
    exit(&called, 0);
    assert_eq!(stdout(&called), "task-1");
    called.says("the task asks: Which one?");
    let shown = at.shown(&["task", "task-1", "--json"]);
    let asked = &shown["inputRequests"]["q1"]["params"];
    assert_eq!(asked["message"], "Which one?", "{shown}");
    drop(streams);
}

/// It could do something on the user's machine, so it is not shown as a page to open, and can be declined.
#[test]
fn an_address_that_is_no_web_page_is_not_shown_as_one() {
    let answers = Arc::new(Mutex::new(Vec::new()));
    let seen_answers = Arc::clone(&answers);
    let served = scripted(move |seen| match seen.method() {
        "tools/call" => seen.result(created("task-1")),
        "tasks/update" => {
            let answer = seen.body["params"]["inputResponses"]["q"].clone();
            seen_answers.lock().unwrap().push(answer);
            seen.result(json!({"resultType": "complete"}))
        }
        "tasks/get" => {
            let params = json!({"mode": "url", "message": "Connect", "url": "javascript:alert(document.cookie)"});
            seen.result(asks(
                "task-1",
                json!({"q": {"method": "elicitation/create", "params": params}}),
            ))
        }
        _ => Reply::empty(404),
    });
    let called = served.run(&["call", "t"]);
    exit(&called, 7);
    let shown = served.run(&["task", "task-1"]);
    exit(&shown, 0);
    let refused = served.run(&["answer", "task-1"]);
    exit(&refused, 2);
    for said in [&called, &shown, &refused] {
        let said = format!("{}{}", stdout(said), stderr(said));
        said.has("begins with `javascript:`").lacks("alert(document.cookie)");
    }
    assert!(stderr(&called).contains("--question q --decline"), "{called:?}");
    assert!(answers.lock().unwrap().is_empty());
    served.done(&["answer", "task-1", "--decline"]);
    assert_eq!(*answers.lock().unwrap(), [json!({"action": "decline"})]);
}
