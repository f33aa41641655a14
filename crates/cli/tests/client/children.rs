//! Servers whose tasks end with the command: child processes, and those that speak over a pair of streams.

use crate::{
    peer::{Peer, event_stream, plain},
    support::*,
    terminal::Terminal,
};
use serde_json::{Value, json};
use std::{
    io::{BufRead, BufReader},
    process::{Child, ChildStderr, Command, Output},
    sync::{Arc, Mutex},
};
use tempfile::TempDir;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

/// A server of 2025-11-25 on its standard input and output, with one tool and one task. `CASES` are those of a request, by its line.
const SERVER: &str = r#"
task() { printf '{"taskId":"t-1","status":"%s","createdAt":"2026-11-20T09:00:00Z","lastUpdatedAt":"2026-11-20T09:00:00Z","ttl":null,"pollInterval":50}' "$1"; }
answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
result() { answer "{\"content\":[{\"type\":\"text\",\"text\":\"$said\"}]}"; }
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"initialize"'*) answer '{"protocolVersion":"2025-11-25","serverInfo":{"name":"s","version":"0"},"capabilities":{"tools":{},"tasks":{"requests":{"tools":{"call":{}}},"cancel":{}}}}' ;;
    *'"tools/list"'*) answer '{"tools":[{"name":"t","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}}]}' ;;
    CASES
    *) [ -n "$id" ] && printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}\n' "$id" ;;
  esac
done"#;

/// Its task has the status `STATUS` until it is cancelled.
const PLAIN: &str = r#"*'"tools/call"'*) made=1; answer "{\"task\":$(task working)}" ;;
    *'"tasks/get"'*) case "$made" in
      1) answer "$(task STATUS)" ;;
      2) answer "$(task cancelled)" ;;
      *) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"Task not found"}}\n' "$id" ;;
    esac ;;
    *'"tasks/cancel"'*) made=2; answer "$(task cancelled)" ;;"#;

/// Its task asks a name and ends with it.
const ASKING: &str = r#"*'"id":"ask-1"'*)
      said=$(printf '%s' "$line" | sed -n 's/.*"name":"\([a-z]*\)".*/\1/p')
      id=$held; result ;;
    *'"tools/call"'*) answer "{\"task\":$(task input_required)}" ;;
    *'"tasks/get"'*) case "$said" in
      '') answer "$(task input_required)" ;;
      *) answer "$(task completed)" ;;
    esac ;;
    *'"tasks/result"'*) [ -n "$said" ] && result && continue
      held=$id
      printf '{"jsonrpc":"2.0","id":"ask-1","method":"elicitation/create","params":{"message":"Who?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]},"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t-1"}}}}\n' ;;"#;

fn with(cases: &str) -> String {
    SERVER.replace("CASES", cases)
}

fn call(home: &TempDir, status: &str, options: &[&str]) -> Command {
    command(home, options, &with(&PLAIN.replace("STATUS", status)))
}

fn command(home: &TempDir, options: &[&str], server: &str) -> Command {
    let words = [&["call", "t"], options, &["--", "sh", "-c", server]].concat();
    longhaul(&words, home)
}

/// Calls the tool of this server.
fn call_of(home: &TempDir, options: &[&str], server: &str) -> Output {
    command(home, options, server).output().unwrap()
}

/// Makes a call, and waits until its task is working.
fn begin_call(home: &TempDir) -> (Child, BufReader<ChildStderr>) {
    let mut running = call(home, "working", &[]).spawn().unwrap();
    let mut said = BufReader::new(running.stderr.take().unwrap());
    let mut line = String::new();
    while line.trim() != "running" {
        line.clear();
        assert!(said.read_line(&mut line).unwrap() > 0);
    }
    (running, said)
}

fn states(home: &TempDir) -> Vec<Value> {
    let listed = json(&longhaul(&["tasks", "--json"], home).output().unwrap());
    listed["calls"].as_array().unwrap().clone()
}

#[test]
fn a_task_of_a_child_that_asks_without_a_terminal_is_cancelled() {
    let home = tempfile::tempdir().unwrap();
    let called = call(&home, "input_required", &["--json"]).output().unwrap();
    let shown = json(&called);
    shown.has_members(json!({"taskId": "t-1", "cancelled": true}));
    shown["error"].has_members(json!({"kind": "unanswered", "taskId": "t-1", "mayHaveRun": true}));
    // The question has no text.
    called.ends(5).says("(tool t, task t-1)").says_no("longhaul answer");
    called.says("the task would end with this command, so it is cancelled");
    assert_eq!(states(&home)[0]["state"], "cancelled");
}

/// It is cancelled, and not called again by the next run of its batch.
#[test]
fn a_task_of_a_child_that_asks_in_a_batch_is_unanswered_in_each_run() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("calls.jsonl");
    std::fs::write(&file, "{}\n").unwrap();
    for _ in 0..3 {
        let called = call_of(&home, &["--batch", file.to_str().unwrap()], &with(ASKING));
        let line = json(&called);
        assert_eq!(line["error"]["kind"], "unanswered", "{line}");
        exit(&called, 5);
        assert_eq!(states(&home).len(), 1, "one call in all runs");
    }
}

/// The question is shown, although nobody can answer it.
#[test]
fn what_a_task_of_a_child_has_asked_without_a_terminal_is_shown() {
    let home = tempfile::tempdir().unwrap();
    let called = call_of(&home, &["--json"], &with(ASKING));
    let shown = json(&called);
    assert_eq!(shown["asks"], true, "{shown}");
    assert_eq!(shown["question"]["params"]["message"], "Who?", "{shown}");
    called.ends(5).says("the task asks: Who?");
    assert_eq!(states(&home)[0]["state"], "cancelled");
}

/// The command that made the call shows a form; another terminal shows the question, too, and answers it.
#[test]
fn a_task_of_a_child_is_answered_from_another_terminal() {
    let served = served();
    let mut terminal = Terminal::new(&served, "child");
    let mut call = terminal.begin(&["call", "t", "--", "sh", "-c", &with(ASKING)]);
    call.until("Who?");
    call.until("? name");
    let shown = served.shown(&["task", "t-1", "--json"]);
    let asked = shown["inputRequests"].as_object().unwrap();
    assert_eq!(asked.values().next().unwrap()["params"]["message"], "Who?", "{shown}");
    let answered = served.run(&["answer", "t-1", "name=ann"]);
    exit(&answered, 0);
    call.until("the form is closed: the question was answered elsewhere");
    call.until("ann");
    call.ends(0);
    assert_eq!(states(&served.home)[0]["state"], "completed");
}

/// The command that made the call cancels it.
#[test]
fn a_task_of_a_child_is_cancelled_from_another_terminal() {
    let home = tempfile::tempdir().unwrap();
    let (mut running, _said) = begin_call(&home);
    let cancelled = longhaul(&["cancel", "t-1"], &home).output().unwrap();
    exit(&cancelled, 0);
    assert_eq!(stderr(&cancelled), "t-1 is cancelled");
    assert_eq!(running.wait().unwrap().code(), Some(4));
}

/// Another terminal cannot reach its server, and shows what is recorded.
#[test]
fn a_task_of_a_child_is_lost_only_when_its_command_was_killed() {
    let home = tempfile::tempdir().unwrap();
    let (mut running, _said) = begin_call(&home);
    let shown = longhaul(&["task"], &home).output().unwrap();
    assert!(exit(&shown, 0).contains("status    running"), "{shown:?}");
    let refused = longhaul(&["task", "--wait"], &home).output().unwrap();
    refused.ends(2).says("which still runs").says_no("lost");
    assert_eq!(states(&home)[0]["state"], "working");
    running.kill().unwrap();
    running.wait().unwrap();
    // Without `tasks` before it: it is not the task that is meant.
    longhaul(&["task", "--wait"], &home).output().unwrap().ends(2);
    let lost = &states(&home)[0];
    assert_eq!(lost["state"], "lost", "{lost}");
    lost["detail"].as_str().unwrap().has("it has ended with the command");
}

/// A server of 2024-11-05, which answers on the stream that the client has opened.
fn pair() -> Peer {
    let stream: Arc<Mutex<Option<UnboundedSender<String>>>> = Arc::default();
    Peer::start(move |seen| {
        if seen.verb == "GET" {
            let (sender, receiver) = unbounded_channel();
            sender.send("event: endpoint\ndata: /messages\n\n".to_owned()).unwrap();
            *stream.lock().unwrap() = Some(sender);
            return event_stream(receiver);
        }
        if seen.path == "/mcp" {
            return plain(405, "Method Not Allowed");
        }
        let task = json!({"taskId": "t-1", "status": "working", "createdAt": "2026-11-20T09:00:00Z", "ttl": null});
        let result = match seen.method() {
            "initialize" => json!({
                "protocolVersion": "2025-11-25", "serverInfo": {"name": "s", "version": "0"},
                "capabilities": {"tools": {}, "tasks": {"requests": {"tools": {"call": {}}}}},
            }),
            "tools/list" => json!({
                "tools": [{"name": "t", "inputSchema": {"type": "object"}, "execution": {"taskSupport": "optional"}}],
            }),
            _ => json!({"task": task}),
        };
        let message = json!({"jsonrpc": "2.0", "id": seen.body["id"], "result": result});
        if let (Some(stream), true) = (&*stream.lock().unwrap(), seen.body["id"].is_u64()) {
            stream.send(format!("event: message\ndata: {message}\n\n")).unwrap();
        }
        plain(202, "Accepted")
    })
}

#[test]
fn a_task_of_a_pair_of_streams_is_not_detached() {
    let (peer, home) = (pair(), tempfile::tempdir().unwrap());
    let refused = longhaul(&["call", &peer.url(), "t", "--detach"], &home)
        .output()
        .unwrap();
    refused.ends(2).says("--detach would lose the task; nothing was called");
    assert_eq!(peer.calls_of("tools/list").len(), 1);
    assert_eq!(peer.calls_of("tools/call").len(), 0);
}

/// It may have been meant as the answer.
#[test]
fn a_line_that_is_no_message_is_named_while_a_call_is_open() {
    let home = tempfile::tempdir().unwrap();
    let cases = r#"*'"tools/call"'*) echo 'Traceback: 5 is no answer'; echo 'and more'; said=done; result ;;"#;
    let called = call_of(&home, &[], &with(cases));
    assert_eq!(exit(&called, 0), "done");
    called.says("Traceback: 5 is no answer").says_no("and more");
}

/// As servers of that revision may.
#[test]
fn a_call_that_is_answered_in_a_batch_ends() {
    let home = tempfile::tempdir().unwrap();
    let server = with(
        r#"*'"tools/call"'*) printf '[{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}},{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"RESULT"}]}}]\n' "$id" ;;"#,
    );
    let server = server.replace("2025-11-25", "2025-03-26");
    let called = call_of(&home, &[], &server);
    assert_eq!(exit(&called, 0), "RESULT");
}

#[test]
fn the_messages_of_the_progress_of_a_task_are_shown() {
    let home = tempfile::tempdir().unwrap();
    let server = with(
        r#"*'"tools/call"'*) token=$id; answer "{\"task\":$(task working)}" ;;
    *'"tasks/get"'*) case "$seen" in
      '') seen=1
        printf '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1,"message":"packing %s"}}\n' "$token" boxes
        answer "$(task working)" ;;
      *) answer "$(task completed)" ;;
    esac ;;
    *'"tasks/result"'*) said=done; result ;;"#,
    );
    let called = call_of(&home, &[], &server);
    assert_eq!(exit(&called, 0), "done");
    assert!(stderr(&called).contains("packing boxes"), "{called:?}");
}

/// It would be waited for in vain.
#[test]
fn a_task_that_is_over_without_a_result_is_said_to_be_over() {
    let home = tempfile::tempdir().unwrap();
    let server = with(
        r#"*'"tools/call"'*) answer "{\"task\":$(task working)}" ;;
    *'"tasks/get"'*) answer "$(task completed)" ;;
    *'"tasks/result"'*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"expired"}}\n' "$id" ;;"#,
    );
    let called = call_of(&home, &["--json"], &server);
    let shown: Value = serde_json::from_str(&exit(&called, 5)).unwrap();
    let error = &shown["error"];
    error.has_members(json!({"kind": "lost", "mayHaveRun": true}));
    let message = error["message"].as_str().unwrap();
    message.has("is over (completed)").lacks("may go on");
    assert_eq!(states(&home)[0]["state"], "lost");
}

#[test]
fn a_revision_that_nobody_knows_is_an_invalid_answer() {
    let home = tempfile::tempdir().unwrap();
    let server = with("").replace("2025-11-25", "2031-01-01");
    let called = call_of(&home, &["--json"], &server);
    let shown: Value = serde_json::from_str(&exit(&called, 3)).unwrap();
    assert_eq!(shown["error"]["kind"], "invalid_answer", "{shown}");
    shown["error"]["message"].as_str().unwrap().has("2031-01-01");
}
