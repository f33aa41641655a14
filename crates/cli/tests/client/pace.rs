//! No server is asked faster than it wants.

use crate::{
    scripted::{Received, Reply, Scripted, created, scripted, task},
    support::*,
};
use serde_json::json;
use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

/// As a Longhaul server makes them.
const ID: &str = "01m88gtgp72gaqpeab8ssq9j96yn3aqk1xqt";
const ASKED_FOR: Duration = Duration::from_secs(3);

/// A server with a task that is read three times. `second` answers the second time.
fn server(second: impl Fn(&Received) -> Reply + Send + Sync + 'static) -> Scripted {
    let looks = AtomicUsize::new(0);
    scripted(move |seen| match seen.method() {
        "tools/call" => seen.result(created(ID)),
        "tasks/get" => match looks.fetch_add(1, Ordering::SeqCst) {
            0 => seen.result(task(ID, "working", json!({}))),
            1 => second(seen),
            _ => seen.result(task(ID, "completed", json!({"result": {"content": []}}))),
        },
        "resources/templates/list" => seen.result(json!({
            "resultType": "complete",
            "resourceTemplates": [{"name": "log", "uriTemplate": "longhaul://task/{id}/log{?offset}"}],
        })),
        _ => seen.error(200, -32602),
    })
}

fn busy(seen: &Received) -> Reply {
    seen.error(429, 429).header("retry-after", "3")
}

fn slow(seen: &Received) -> Reply {
    seen.result(task(ID, "working", json!({"pollIntervalMs": 3_000})))
}

#[test]
fn watch_and_follow_wait_as_long_as_the_server_asks() {
    let commands: [&[&str]; 2] = [&["watch", "--json"], &["task", ID, "--log", "--follow"]];
    for second in [busy, slow] {
        for command in commands {
            let served = server(second);
            served.done(&["call", "t", "--detach"]);
            let output = served.run(command);
            let looks = served.calls_of("tasks/get");
            assert!(looks.len() >= 3, "{command:?}: {output:?}");
            let waited = looks[2].at - looks[1].at;
            assert!(waited >= ASKED_FOR, "{command:?}: {waited:?}");
        }
    }
}
