//! What a wait says while it waits.

use crate::{
    peer::{Peer, event_stream, modern},
    scripted::{completed, created, task},
    support::*,
};
use serde_json::{Value, json};
use std::{
    io::{BufRead, BufReader},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};
use tokio::sync::mpsc::unbounded_channel;

/// Everywhere in the server's own word, without what a terminal would do with it.
#[test]
fn a_status_that_mcp_does_not_know_is_shown_as_the_server_says_it() {
    const STATUS: &str = "paused\u{1b}[31m";
    let polls = Arc::new(AtomicUsize::new(usize::MAX));
    let left = Arc::clone(&polls);
    let peer = modern(move |seen| match seen.method() {
        "tools/call" => seen.result(created("task-1")),
        "tasks/get" if left.fetch_sub(1, Ordering::SeqCst) > 0 => seen.result(task("task-1", STATUS, json!({}))),
        "tasks/get" => {
            left.store(0, Ordering::SeqCst);
            seen.result(completed("task-1", "built"))
        }
        _ => seen.error(404, -32601, Value::Null),
    });
    let at = At::new(&peer.url());
    at.done(&["call", "optional", "--detach"]);
    let shown = at.done(&["task", "task-1"]);
    assert!(shown.contains("status    paused [31m"), "{shown}");
    let listed = at.done(&["tasks"]);
    assert!(listed.starts_with("task-1  optional  paused [31m  "), "{listed}");
    let shown = at.shown(&["task", "task-1", "--json"]);
    assert_eq!(shown["status"], STATUS);
    let listed = at.shown(&["tasks", "--json"]);
    assert_eq!(listed["calls"][0]["state"], STATUS);
    let answered = at.run(&["answer", "task-1", "--decline"]);
    answered.ends(5).says("(paused [31m)");
    for words in [&["task", "task-1", "--wait"][..], &["watch", "task-1"]] {
        polls.store(3, Ordering::SeqCst);
        let waited = at.run(words);
        exit(&waited, 0);
        let said = format!("{}{}", stderr(&waited), stdout(&waited));
        assert!(said.contains("paused [31m") && !said.contains('\u{1b}'), "{said}");
    }
}

/// At once, and once; not of a task that has ended.
#[test]
fn a_wait_says_that_it_waits() {
    let is_over = Arc::new(AtomicBool::new(false));
    let over = Arc::clone(&is_over);
    let peer = modern(move |seen| match seen.method() {
        "tools/call" => seen.result(created("task-1")),
        "tasks/get" => match over.swap(true, Ordering::SeqCst) {
            true => seen.result(completed("task-1", "built")),
            false => seen.result(task("task-1", "working", json!({}))),
        },
        _ => seen.error(404, -32601, Value::Null),
    });
    let at = At::new(&peer.url());
    let notice = format!(
        "task task-1 on {} is waited for; Ctrl-C stops the wait, not the task; `longhaul task task-1 --wait` waits again",
        peer.url()
    );
    for words in [&["call", "optional"][..], &["task", "task-1", "--wait"]] {
        is_over.store(false, Ordering::SeqCst);
        let waited = at.run(words);
        assert_eq!(exit(&waited, 0), "built");
        let said = stderr(&waited);
        said.begins_with(&notice);
        assert_eq!(said.matches("is waited for").count(), 1, "{said}");
    }
    let waited = at.run(&["task", "task-1", "--wait"]);
    assert_eq!((exit(&waited, 0).as_str(), stderr(&waited).as_str()), ("built", ""));
}

/// The connection breaks before there is an answer, twice.
#[test]
fn a_call_that_is_sent_again_under_its_key_says_so_once() {
    for has_keys in [true, false] {
        let calls = AtomicUsize::new(0);
        let peer = Peer::start(move |seen| match seen.method() {
            "server/discover" => {
                let extensions = match has_keys {
                    true => json!({"dev.longhaul/idempotency": {}}),
                    false => json!({}),
                };
                seen.result(json!({
                    "resultType": "complete", "supportedVersions": ["2026-07-28"],
                    "capabilities": {"tools": {}, "extensions": extensions},
                }))
            }
            "tools/list" => seen.result(json!({"tools": [{"name": "t", "inputSchema": {"type": "object"}}]})),
            _ if calls.fetch_add(1, Ordering::SeqCst) < 2 => event_stream(unbounded_channel().1),
            _ => seen.result(json!({"content": [{"type": "text", "text": "built"}]})),
        });
        let at = At::new(&peer.url());
        let called = at.run(&["call", "t"]);
        let said = stderr(&called);
        let note = "it is sent again under its idempotency key, so it runs once";
        let notes = said.matches(note).count();
        match has_keys {
            true => assert_eq!((exit(&called, 0).as_str(), notes), ("built", 1), "{said}"),
            false => {
                exit(&called, 3);
                assert!(notes == 0 && said.contains("was not sent again"), "{said}");
                assert_eq!(peer.calls_of("tools/call").len(), 1);
            }
        }
    }
}

#[test]
fn an_error_of_a_poll_says_that_the_task_may_go_on() {
    let peer = modern(|seen| match seen.method() {
        "tools/call" => seen.result(created("task-1")),
        _ => seen.error(200, -32603, Value::Null),
    });
    let at = At::new(&peer.url());
    for words in [&["call", "optional"][..], &["task", "task-1", "--wait"]] {
        let waited = at.run(words);
        exit(&waited, 5);
        let said = stderr(&waited);
        let way = "the task may go on; wait for it again with `longhaul task task-1 --wait`";
        assert!(said.contains(way), "{said}");
    }
    let listed = at.shown(&["tasks", "--json", "--offline"]);
    assert_eq!(listed["calls"][0]["state"], "working");
}

/// The server is killed while a task is waited for, and comes back after several tries.
#[test]
fn a_stream_that_is_lost_is_told_once_and_that_it_is_open_again() {
    let (is_over, opened) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let (over, opens, streams) = (Arc::clone(&is_over), Arc::clone(&opened), Mutex::new(Vec::new()));
    let mut peer = modern(move |seen| match seen.method() {
        "tools/call" => seen.result(created("task-1")),
        "tasks/get" if over.load(Ordering::SeqCst) => seen.result(completed("task-1", "built")),
        "tasks/get" => seen.result(task("task-1", "working", json!({}))),
        "subscriptions/listen" => {
            let (stream, events) = unbounded_channel();
            let accepted = json!({
                "jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
                "params": {"notifications": {"taskIds": ["task-1"]}},
            });
            stream.send(format!("data: {accepted}\n\n")).unwrap();
            streams.lock().unwrap().push(stream);
            opens.fetch_add(1, Ordering::SeqCst);
            event_stream(events)
        }
        _ => seen.error(404, -32601, Value::Null),
    });
    let at = At::new(&peer.url());
    at.done(&["call", "optional", "--detach"]);
    let mut waiting = longhaul(&["task", "task-1", "--wait"], &at.home);
    let mut waiting = waiting.env("LONGHAUL_SERVER", peer.url()).spawn().unwrap();
    let mut said = BufReader::new(waiting.stderr.take().unwrap()).lines();
    let mut lines = Vec::new();
    let mut until = |text: &str| {
        while !lines.last().is_some_and(|line: &String| line.contains(text)) {
            lines.push(said.next().unwrap().unwrap());
        }
    };
    while opened.load(Ordering::SeqCst) == 0 {
        std::thread::yield_now();
    }
    peer.kill();
    until("the stream of the server was lost, and is opened again: ");
    peer.restart();
    until("the stream of the server is open again");
    is_over.store(true, Ordering::SeqCst);
    assert_eq!(waiting.wait_with_output().unwrap().stdout, b"built\n");
    lines.extend(said.map(Result::unwrap));
    let told = |text: &str| lines.iter().filter(|line| line.contains(text)).count();
    assert_eq!((told("was lost"), told("is open again")), (1, 1), "{lines:?}");
}
