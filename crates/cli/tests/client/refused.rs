//! What a server refuses, and what the client itself cannot use.

use crate::{
    peer::{Peer, plain},
    scripted::{Reply, created, legacy_form, legacy_task, scripted, scripted_legacy, task},
    support::*,
};
use longhaul_client::SystemClock;
use longhaul_core::Clock;
use serde_json::{Value, json};
use std::{fs, time::Duration};

/// A request that something in front of the server refuses has not run.
#[test]
fn a_call_that_is_forbidden_or_too_large_is_refused() {
    for status in [403, 413] {
        let served = scripted(move |_| Reply::json(status, json!({"error": "no"})));
        served.run(&["call", "t"]).ends(5).says_no("may or may not");
        let listed = served.shown(&["tasks", "--json", "--offline"]);
        assert_eq!(listed["calls"][0]["state"], "refused", "{listed}");
    }
}

/// The same cause has the same status, whichever request the server refuses for it.
#[test]
fn a_handshake_that_is_forbidden_or_too_large_is_refused() {
    for status in [403, 413] {
        for refuses_all in [true, false] {
            let peer = Peer::start(move |seen| match seen.method() {
                "server/discover" if !refuses_all => seen.error(400, -32000, Value::Null),
                _ => plain(status, "no"),
            });
            let at = At::new(&peer.url());
            let called = at.run(&["call", "t", "--json"]);
            let error = serde_json::from_str::<Value>(&exit(&called, 5)).unwrap()["error"].clone();
            assert_eq!(error["kind"], "refused", "{error}");
        }
    }
}

/// One cause has one status in all commands, and no other server is asked instead.
#[test]
fn a_damaged_journal_has_one_status() {
    let served = scripted(|seen| seen.error(200, -32602));
    let folder = served.home.path().join("longhaul/.client");
    fs::create_dir_all(&folder).unwrap();
    served.done(&["tasks", "--offline"]);
    let journal = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    for file in journal.filter(|path| path.is_file()) {
        fs::write(file, "no database").unwrap();
    }
    let batch = format!("--batch={}", served.batch_file("{}\n"));
    let commands: [&[&str]; 8] = [
        &["call", "t"],
        &["call", "t", "--detach"],
        &["call", "t", &batch],
        &["tasks"],
        &["task"],
        &["task", "task-1"],
        &["watch"],
        &["answer", "task-1", "a=b"],
    ];
    for command in commands {
        println!("{command:?}");
        served.run(command).ends(2).says("the client journal cannot be used");
    }
    assert_eq!(served.calls_of("tasks/get").len(), 0);
    assert_eq!(served.calls_of("tools/call").len(), 0);
    let refused = served.run(&["call", "t", "--detach"]);
    refused.says("handles.db is damaged");
    refused.says("without a record of it: --unrecorded");
    exit(&served.run(&["call", "t", "--unrecorded"]), 5);
    assert_eq!(served.calls_of("tools/call").len(), 1);
    exit(&served.run(&["call", "t", "--unrecorded", "--detach"]), 2);
    // Its server is said.
    served.run(&["task", &served.url, "task-1"]).ends(5);
}

/// As on a full disk. The id of a task that only this command knows would be of no use.
#[test]
fn a_call_that_cannot_be_recorded_is_not_sent() {
    let served = scripted(|seen| seen.error(200, -32602));
    served.done(&["tasks", "--offline"]);
    let file = served.home.path().join("longhaul/.client/handles.db");
    let journal = rusqlite::Connection::open(file).unwrap();
    let trigger = "CREATE TRIGGER full BEFORE INSERT ON calls BEGIN SELECT RAISE(ABORT, 'no room'); END";
    journal.execute_batch(trigger).unwrap();
    let batch = format!("--batch={}", served.batch_file("{}\n"));
    for words in [&["call", "t"][..], &["call", "t", "--detach"], &["call", "t", "--json"]] {
        let refused = served.run(words);
        let is_named = exit(&refused, 2).contains("\"kind\":\"journal\"");
        assert_eq!(is_named, words.contains(&"--json"), "{refused:?}");
        refused.says("nothing was sent").says("--unrecorded");
    }
    let refused = served.run(&["call", "t", &batch]);
    assert!(exit(&refused, 2).contains("--unrecorded"), "{refused:?}");
    assert_eq!(served.calls_of("tools/call").len(), 0);
    exit(&served.run(&["call", "t", "--unrecorded"]), 5);
    assert_eq!(served.calls_of("tools/call").len(), 1);
}

/// The default server is of no use to a task that is recorded.
#[test]
fn a_recorded_task_needs_no_valid_default_server() {
    let served = scripted(|seen| match seen.method() {
        "tools/call" => seen.result(created("task-1")),
        _ => seen.result(task("task-1", "working", json!({}))),
    });
    served.done(&["call", "t", "--detach"]);
    let run = |words: &[&str]| served.command(words).env("LONGHAUL_SERVER", "nobody").output().unwrap();
    assert!(exit(&run(&["task", "task-1"]), 0).contains("running"));
    assert!(exit(&run(&["task"]), 0).contains("running"));
    for other in [&["task", "task-2"][..], &["call", "t"], &["tasks"]] {
        run(other).ends(2).says("there is no server `nobody`");
    }
}

/// Without the file the name is that of another server, or of none.
#[test]
fn hints_name_the_file_of_another_client() {
    let served = scripted(|seen| match seen.headers.get("x-key").map(String::as_str) {
        Some("secret") if seen.method() == "tools/call" => seen.result(created("task-1")),
        Some("secret") => seen.result(task("task-1", "working", json!({}))),
        _ => seen.error(200, -32602),
    });
    let file = served.home.path().join("mcp.json");
    let servers = json!({"mcpServers": {"other": {"url": served.url, "headers": {"X-Key": "secret"}}}});
    fs::write(&file, servers.to_string()).unwrap();
    let option = format!("--mcp-config={}", file.display());
    let called = served.run(&["call", "other", "t", "--detach", &option]);
    exit(&called, 0);
    called.says(&format!("longhaul task {option} other task-1 --wait"));
    // The name is found in the file also if only the task is named.
    let shown = longhaul(&["task", "task-1", &option], &served.home).output();
    shown.unwrap().ends(0);
}

/// The task is on its way when it asks before the answer that names it.
#[test]
fn a_legacy_task_that_asks_long_before_its_answer_is_not_given_up() {
    let state = legacy_task("task-1", "working");
    let (asks, asked) = std::sync::mpsc::channel();
    let asked = std::sync::Mutex::new(asked);
    let served = scripted_legacy(move |seen| match (seen.method(), seen.verb.as_str()) {
        ("tools/call", _) => {
            asks.send(()).unwrap();
            // Longer than a question is kept for the answer that names its task.
            let begun = SystemClock.monotonic();
            while SystemClock.monotonic() - begun < Duration::from_secs(3) {
                std::thread::yield_now();
            }
            seen.result(json!({"task": state}))
        }
        ("tasks/get", _) => seen.result(state.clone()),
        ("", "GET") => {
            let _ = asked.lock().unwrap().recv();
            Reply::stream(&legacy_form(7, "Who?", json!({})))
        }
        _ => Reply::empty(202),
    });
    served.run(&["call", "t"]).ends(7).says("the task asks: Who?");
}
