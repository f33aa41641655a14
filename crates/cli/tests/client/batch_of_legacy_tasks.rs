//! Batches whose tasks ask, of legacy servers.

use crate::{
    batch::lines,
    scripted::{Reply, Scripted, legacy_form, legacy_task, scripted_legacy},
    support::*,
};
use serde_json::{Value, json};
use std::{
    io::{BufRead, BufReader},
    sync::{Arc, Condvar, Mutex},
};

fn state(status: &str) -> Value {
    legacy_task("task-1", status)
}

/// What the task asks, on a stream.
fn question() -> Reply {
    Reply::stream(&legacy_form(7, "Who?", json!({"name": {"type": "string"}})))
}

/// As the Python SDK 1.30 does: the status says that the task asks, and the question comes on the stream of `tasks/result`.
#[test]
fn a_legacy_task_that_asks_on_another_stream_names_its_question() {
    let served = scripted_legacy(move |seen| match seen.method() {
        "tools/call" => seen.result(json!({"task": state("working")})),
        "tasks/get" => seen.result(state("input_required")),
        "tasks/result" => question(),
        _ => Reply::empty(202),
    });
    its_line_names_the_question(&served);
}

#[track_caller]
fn its_line_names_the_question(served: &Scripted) {
    let file = served.batch_file("{}\n");
    let run = served.run(&["call", "t", "--batch", &file]);
    exit(&run, 7);
    let line = &lines(&run)[0];
    assert_eq!(line["asks"], true, "{run:?}");
    assert_eq!(line["inputRequests"]["q1"]["method"], "elicitation/create", "{run:?}");
}

/// As FastMCP 3 does: the task is `working` while it asks, on the stream of its session.
#[test]
fn a_legacy_task_that_asks_while_it_works_ends_its_line() {
    let polled = Arc::new((Mutex::new(false), Condvar::new()));
    let is_polled = Arc::clone(&polled);
    let served = scripted_legacy(move |seen| match (seen.method(), seen.verb.as_str()) {
        ("tools/call", _) => seen.result(json!({"task": state("working")})),
        ("tasks/get", _) => {
            *is_polled.0.lock().unwrap() = true;
            is_polled.1.notify_all();
            seen.result(state("working"))
        }
        ("", "GET") => {
            let polled = is_polled.0.lock().unwrap();
            drop(is_polled.1.wait_while(polled, |polled| !*polled).unwrap());
            question()
        }
        _ => Reply::empty(202),
    });
    its_line_names_the_question(&served);
    served.listed(&[])[0].has_members(json!({"status": "working", "asks": true}));
    // The other commands say the same.
    let told = served.done(&["task", "task-1"]);
    assert!(told.contains("status    asking\n"), "{told}");
    let told = served.shown(&["task", "task-1", "--json"]);
    told.has_members(json!({"state": "working", "status": "working", "asks": true}));
    let first_line = |words: &[&str]| {
        let mut watching = served.command(words).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(watching.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        watching.kill().unwrap();
        watching.wait().unwrap();
        line
    };
    assert_eq!(first_line(&["watch", "task-1"]), "task-1  t  asking\n");
    let watched: Value = serde_json::from_str(&first_line(&["watch", "task-1", "--json"])).unwrap();
    watched.has_members(json!({"state": "working", "asks": true}));
}
