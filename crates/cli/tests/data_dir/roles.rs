//! `role` in `[server]`: processes that accept requests, and processes that run tasks.

use crate::{
    assertions::*,
    shared_store::Shared,
    support::{JOBS, Place, run, until},
};
use serde_json::json;
use std::fs;

const MORE: &str = r#"
[[tool]]
name = "say"
description = "says something at once"
command = ["sh", "-c", "echo said; exit 3"]
"#;

/// A folder with a server of this role.
fn place(shared: &Shared, role: &str) -> Place {
    let place = shared.place();
    let jobs = fs::read_to_string(place.file("jobs.toml")).unwrap();
    let jobs = jobs.replace("store = ", &format!("role = {role:?}\nstore = "));
    let jobs = jobs.replace("echo run >> runs", "echo begun; echo run >> runs");
    fs::write(place.file("jobs.toml"), format!("{jobs}{MORE}")).unwrap();
    place
}

/// What is accepted at a front runs at a worker; results, logs and cancellations cross between the two, which know each other only by the database.
#[test]
fn a_front_and_a_worker_share_the_work() {
    let shared = Shared::new();
    let (front, worker) = (place(&shared, "front"), place(&shared, "worker"));
    let (accepts, runs) = (front.serve(&[]), worker.serve(&[]));
    runs.report.has_members(json!({"role": "worker", "url": null}));
    assert!(!worker.file("data/owner.sock").exists(), "it accepts no requests");
    let id = accepts.begin();
    // A command runs in the folder of the configuration that it was accepted with.
    until("it runs", || front.runs() == 1);
    let nodes = worker.nodes();
    assert_eq!(nodes.len(), 2, "{nodes:?}");
    for (node, role, attempts) in [(&nodes[0], "front", 0), (&nodes[1], "worker", 1)] {
        node.has_members(json!({"role": role, "attempts": attempts, "boundAttempts": attempts}));
    }
    let table = front.printed(&["nodes", "jobs.toml"]);
    assert!(table.contains("ROLE") && table.contains("worker"), "{table}");

    // The log of a command that runs is on the host of the worker.
    let log = || String::from_utf8(accepts.run(&["task", &id, "--log"]).stdout).unwrap();
    until("its log can be read at the front", || log().contains("begun"));

    // A plain call waits for the result of the worker, whose one slot is taken.
    assert!(accepts.run(&["cancel", &id]).status.success());
    until("it is cancelled", || accepts.look(&id) == "cancelled");
    let said = accepts.run(&["call", "say"]);
    let text = String::from_utf8_lossy(&said.stdout).into_owned() + &String::from_utf8_lossy(&said.stderr);
    assert!(text.contains("said") && text.contains('3'), "{text}");
    assert_eq!(worker.runs(), 0);

    // Without a worker calls wait. The next one takes them.
    drop(runs);
    let doctor = || front.printed(&["admin", "doctor", "jobs.toml"]);
    until("the front knows that it is alone", || {
        doctor().contains("no server lives that runs tasks: calls are accepted, and wait")
    });
    let id = accepts.begin();
    assert_eq!(accepts.look(&id), "working");
    let shown = String::from_utf8(accepts.run(&["task", &id]).stdout).unwrap();
    assert!(shown.contains("it waits for a server that runs tasks"), "{shown}");
    let runs = worker.serve(&[]);
    until("it runs", || front.runs() == 2);
    until("it is not alone", || !doctor().contains("no server lives"));
    fs::write(front.file("gate"), "").unwrap();
    until("it has ended", || accepts.look(&id) == "completed");
    drop(runs);
}

#[test]
fn a_role_needs_a_database() {
    for role in ["front", "worker"] {
        let place = Place::with(&JOBS.replace("[[tool]]", &format!("role = {role:?}\n\n[[tool]]")));
        let (code, found, _) = run(&place, &["check", "jobs.toml", "--json"]);
        assert_eq!(code, Some(2));
        let why = "needs `store`: a front and a worker share their tasks";
        let said = found["problems"][0]["message"].as_str().unwrap();
        said.has(&format!("`role = \"{role}\"` {why}"));
    }
    let place = Place::with(&JOBS.replace("[[tool]]", "role = \"both\"\n\n[[tool]]"));
    assert_eq!(run(&place, &["check", "jobs.toml"]).0, Some(0));
}
