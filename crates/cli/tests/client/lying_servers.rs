//! Servers whose answers about a task are wrong, or that could deceive who reads them.

use crate::{
    peer::{Peer, legacy, modern, plain},
    scripted::{asks, created, form, task},
    support::*,
    terminal::Terminal,
};
use serde_json::{Value, json};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

fn question(text: &str) -> Value {
    form(text, json!({"a": {"type": "string"}}))
}

/// A server that makes the task `id`, and answers `tasks/get` with `told`.
fn telling(id: &'static str, told: impl Fn() -> Value + Send + Sync + 'static) -> Peer {
    modern(move |seen| match seen.method() {
        "tools/call" => seen.result(created(id)),
        "tasks/get" => seen.result(told()),
        "tasks/cancel" | "tasks/update" => seen.result(json!({"resultType": "complete"})),
        _ => seen.error(404, -32601, Value::Null),
    })
}

#[test]
fn an_answer_without_an_id_says_which_tasks_ask_and_which_may() {
    let (may_ask, lies) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicBool::new(true)));
    let (asking, lying) = (Arc::clone(&may_ask), Arc::clone(&lies));
    let one = telling("task-one", move || match asking.load(Ordering::SeqCst) {
        true => asks("task-one", json!({"q": question("Which?")})),
        false => task("task-one", "working", json!({})),
    });
    let other = telling("task-two", move || {
        let is_lying = lying.load(Ordering::SeqCst);
        task(if is_lying { "another" } else { "task-two" }, "working", json!({}))
    });
    let home = tempfile::tempdir().unwrap();
    for peer in [&one, &other] {
        exit(&run_at(&peer.url(), &home, &["call", "optional", "--detach"]), 0);
    }
    let answer = || longhaul(&["answer", "a=b"], &home).output().unwrap();
    let refused = answer();
    refused.ends(2).says("task-one  optional  asking  ");
    refused.says("task-two  optional  running (invalid answer)  ");
    may_ask.store(false, Ordering::SeqCst);
    let refused = answer();
    exit(&refused, 2);
    let said = stderr(&refused);
    said.has("no task is known to ask").has("task-two").lacks("task-one");
    lies.store(false, Ordering::SeqCst);
    exit(&answer(), 5);
    may_ask.store(true, Ordering::SeqCst);
    exit(&answer(), 0);
}

/// Only one task is open, so it is meant. Then the error names it.
#[test]
fn an_answer_without_an_id_names_the_task_that_cannot_be_read() {
    let peer = telling("task-one", || task("another", "working", json!({})));
    let at = At::new(&peer.url());
    at.done(&["call", "optional", "--detach"]);
    let refused = longhaul(&["answer", "a=b"], &at.home).output().unwrap();
    refused.ends(3).says(&format!("task task-one on {}", peer.url()));
}

#[test]
fn a_task_whose_state_cannot_be_read_is_cancelled() {
    let peer = telling("task-one", || task("another", "working", json!({})));
    let at = At::new(&peer.url());
    at.done(&["call", "optional", "--detach"]);
    at.done(&["cancel", "task-one"]);
    assert_eq!(peer.calls_of("tasks/cancel").len(), 1);
}

#[test]
fn a_task_where_none_may_be_is_of_unknown_outcome() {
    let peer = legacy(Value::Null, |seen| match seen.method() {
        "tools/call" => seen.result(json!({"task": {"taskId": "t-x", "status": "working"}})),
        _ => plain(405, ""),
    });
    let at = At::new(&peer.url());
    exit(&at.run(&["call", "optional"]), 3);
    let listed = at.shown(&["tasks", "--json", "--offline"]);
    assert_eq!(listed["calls"][0]["state"], "outcome unknown", "{listed}");
}

/// MCP has no status for it.
#[test]
fn a_task_that_is_queued_is_not_shown_as_running() {
    let told = json!({"statusMessage": "queued behind 2 of your tasks"});
    let peer = telling("task-one", move || task("task-one", "working", told.clone()));
    let at = At::new(&peer.url());
    at.done(&["call", "optional", "--detach"]);
    let listed = at.done(&["tasks"]);
    assert!(listed.contains("  queued: behind 2 of your tasks  "), "{listed}");
    let shown = at.done(&["task", "task-one"]);
    assert!(shown.contains("status    queued"), "{shown}");
    assert_eq!(at.shown(&["tasks", "--json"])["calls"][0]["state"], "working");
}

#[test]
fn of_very_many_questions_some_are_shown() {
    let questions: Value = (0..500)
        .map(|nth| (format!("q-{nth:03}"), question("Which?")))
        .collect();
    let peer = telling("task-one", move || asks("task-one", questions.clone()));
    let at = At::new(&peer.url());
    for words in [&["call", "optional"][..], &["task", "task-one"]] {
        let asked = at.run(words);
        let said = stderr(&asked);
        assert_eq!(said.matches("longhaul answer").count(), 10, "{said}");
        said.has("and 490 more questions; all of them:\n  longhaul task task-one --json");
    }
}

/// What a server has written begins no line, and the command that is printed names the task.
#[test]
fn an_id_with_control_characters_forges_no_line() {
    const ID: &str = "task\u{1b}[31m\nlonghaul: forged";
    let peer = telling(ID, || task(ID, "working", json!({})));
    let at = At::new(&peer.url());
    let quoted = r"$'task\x1b[31m\x0alonghaul: forged'";
    assert_eq!(at.done(&["call", "optional", "--detach"]), quoted);
    exit(&at.run(&["call", "optional", "--detach", "--idempotency-key=x"]), 2);
    let shown = at.run(&["call", "optional", "--timeout=1s"]);
    exit(&shown, 124);
    let said = stderr(&shown);
    assert!(said.lines().all(|line| !line.starts_with("longhaul: forged")), "{said}");
    said.has(&format!("longhaul task {quoted} --wait"));
}

/// It may have run: what `call` says, and what is recorded.
#[test]
fn a_result_of_an_unknown_type_is_of_unknown_outcome() {
    let peer = modern(|seen| match seen.method() {
        "tools/call" => seen.result(json!({"resultType": "surprise", "content": []})),
        _ => seen.error(404, -32601, Value::Null),
    });
    let at = At::new(&peer.url());
    let called = at.run(&["call", "optional", "--json"]);
    exit(&called, 3);
    assert_eq!(json(&called)["error"]["mayHaveRun"], true, "{called:?}");
    let listed = at.shown(&["tasks", "--json", "--offline"]);
    assert_eq!(listed["calls"][0]["state"], "outcome unknown", "{listed}");
}

/// Who has waited for it is told what becomes of the task, and which it is.
#[test]
fn a_task_that_asks_what_nobody_can_answer_is_named() {
    let asked = json!({"q": {"method": "foo/bar", "params": {}}});
    let peer = telling("task-one", move || asks("task-one", asked.clone()));
    let home = tempfile::tempdir().unwrap();
    let served = served();
    let mut terminal = Terminal::new(&served, "unknown-method");
    let url = peer.url();
    let mut called = terminal.begin(&["call", &url, "optional", "--json"]);
    called.until("the task stays open");
    called.until("task-one --wait`, or end it with `longhaul cancel");
    called.until(r#""taskId":"task-one""#);
    called.ends(5);
    let asked = run_at(&url, &home, &["call", "optional"]);
    asked.says("task-one --wait`, or end it with `longhaul cancel");
}

/// No value fits it, so only a refusal is offered.
#[test]
fn a_form_that_is_no_object_can_only_be_declined() {
    let asked = json!({"q": {"method": "elicitation/create", "params": {"message": "Which?", "requestedSchema": {"type": "string"}}}});
    let peer = telling("task-one", move || asks("task-one", asked.clone()));
    let at = At::new(&peer.url());
    let asked = at.run(&["call", "optional"]);
    exit(&asked, 7);
    let said = stderr(&asked);
    said.has("the form is invalid")
        .has("longhaul answer task-one --question q --decline");
    let refused = at.run(&["answer", "task-one", "a=b"]);
    refused.ends(2).says("the form is invalid");
    assert!(peer.calls_of("tasks/update").is_empty());
    at.done(&["answer", "task-one", "--decline"]);
}
