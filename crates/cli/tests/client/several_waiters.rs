//! Several processes that wait for one task.

use crate::{
    scripted::{Received, Reply, scripted_legacy, task},
    support::*,
};
use serde_json::json;
use std::{
    io::{BufRead, BufReader, Read},
    process::{Child, ExitStatus},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

/// A server that ends a session when it is asked to, as most do. Its task ends for the process that asks first, and for the others when they may know it.
#[derive(Default)]
struct Task {
    has_ended: AtomicBool,
    first: Mutex<Option<u64>>,
    for_all: AtomicBool,
    is_forgotten: AtomicBool,
    session_is_ended: AtomicBool,
}

impl Task {
    fn answer(&self, seen: &Received) -> Reply {
        if self.session_is_ended.load(Ordering::SeqCst) {
            return Reply::empty(404);
        }
        match (seen.verb.as_str(), seen.method()) {
            ("DELETE", _) => {
                self.session_is_ended.store(true, Ordering::SeqCst);
                Reply::empty(200)
            }
            (_, "tools/call") => seen.result(json!({"task": task("t-1", "working", json!({}))})),
            (_, "tasks/get" | "tasks/result") if self.is_forgotten.load(Ordering::SeqCst) => seen.error(200, -32602),
            (_, "tasks/get") => {
                let status = match self.has_ended_for(seen) {
                    true => "completed",
                    false => "working",
                };
                seen.result(task("t-1", status, json!({})))
            }
            (_, "tasks/result") => seen.result(json!({"content": [{"type": "text", "text": "built"}]})),
            (_, "ping") => seen.result(json!({})),
            _ => Reply::empty(405),
        }
    }

    fn has_ended_for(&self, seen: &Received) -> bool {
        if !self.has_ended.load(Ordering::SeqCst) || self.for_all.load(Ordering::SeqCst) {
            return self.has_ended.load(Ordering::SeqCst);
        }
        // Each process counts its requests from a random number.
        let id = seen.body["id"].as_u64().unwrap();
        let mut first = self.first.lock().unwrap();
        first.get_or_insert(id).abs_diff(id) < 10_000
    }
}

/// Waits until the process has said that the task runs.
fn wait_for_word(reader: impl Read + Send + 'static, word: &str) -> BufReader<Box<dyn Read + Send>> {
    let mut lines = BufReader::new(Box::new(reader) as Box<dyn Read + Send>);
    let mut line = String::new();
    while !line.contains(word) {
        line.clear();
        assert!(
            lines.read_line(&mut line).unwrap() > 0,
            "it ended before it said {word:?}"
        );
    }
    lines
}

fn first_to_end(children: &mut [Child]) -> ExitStatus {
    loop {
        for child in children.iter_mut() {
            if let Some(status) = child.try_wait().unwrap() {
                return status;
            }
        }
        std::thread::yield_now();
    }
}

/// The first one to have the result must not end the session of the others.
#[test]
fn each_process_that_waits_gets_the_result() {
    let state = Arc::new(Task::default());
    let answering = Arc::clone(&state);
    let server = scripted_legacy(move |seen| answering.answer(seen));
    let mut call = server.command(&["call", "t"]).spawn().unwrap();
    let mut said = vec![wait_for_word(call.stderr.take().unwrap(), "running")];
    let mut waiting = vec![call];
    for _ in 0..2 {
        let mut child = server.command(&["task", "t-1", "--wait"]).spawn().unwrap();
        said.push(wait_for_word(child.stderr.take().unwrap(), "running"));
        waiting.push(child);
    }
    let mut watch = server.command(&["watch", "t-1"]).spawn().unwrap();
    let mut watched = wait_for_word(watch.stdout.take().unwrap(), "running");

    state.has_ended.store(true, Ordering::SeqCst);
    waiting.push(watch);
    assert!(first_to_end(&mut waiting).success());
    state.for_all.store(true, Ordering::SeqCst);
    let watch = waiting.pop().unwrap();
    for (child, mut said) in waiting.into_iter().zip(said) {
        let ended = child.wait_with_output().unwrap();
        let mut more = String::new();
        said.read_to_string(&mut more).unwrap();
        assert_eq!(stdout(&ended), "built", "{more}");
        assert!(ended.status.success(), "{more}");
    }
    assert!(watch.wait_with_output().unwrap().status.success());
    let mut line = String::new();
    watched.read_to_string(&mut line).unwrap();
    assert!(line.contains("completed"), "{line}");

    // Once fetched it is not lost, whatever the server says.
    state.is_forgotten.store(true, Ordering::SeqCst);
    for words in [&["task", "t-1", "--wait"][..], &["task", "t-1"], &["cancel", "t-1"]] {
        let again = server.run(words);
        exit(&again, 5);
        stderr(&again).begins_with("longhaul: the task has ended: its result was fetched before");
    }
    let watched = server.run(&["watch", "t-1"]);
    exit(&watched, 0).has("t-1  t  fetched: its result was fetched before");
    assert_eq!(server.shown(&["tasks", "--json"])["calls"][0]["state"], "completed");
}
