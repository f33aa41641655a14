//! The commands that are printed for what to do next.

use crate::{
    scripted::{Scripted, scripted, scripted_legacy, task},
    support::*,
};
use serde_json::{Value, json};
use std::process::{Command, Output, Stdio};

/// The ids of FastMCP 4 are base64url: one of 64 begins with a dash.
const ID: &str = "-UnsR-w=";

/// The commands that the output names, behind two blanks or in backticks.
fn hints(output: &Output) -> Vec<String> {
    let said = stderr(output);
    let lines = said.lines().filter_map(|line| line.strip_prefix("  "));
    let quoted = said.split('`').skip(1).step_by(2);
    let commands = lines.chain(quoted).filter(|hint| hint.starts_with("longhaul "));
    commands.map(str::to_owned).collect()
}

/// Runs each command that the output names in a shell, as a user does who copies it. None may be refused as a wrong command line.
fn follow(server: &Scripted, output: &Output, count: usize) {
    let hints = hints(output);
    assert_eq!(hints.len(), count, "{output:?}");
    for hint in hints {
        let line = hint.replacen("longhaul", env!("CARGO_BIN_EXE_longhaul"), 1);
        let mut command = Command::new("sh");
        command.args(["-c", &line]).stdin(Stdio::null());
        let command = command.env("XDG_CONFIG_HOME", server.home.path());
        let run = command
            .env("XDG_STATE_HOME", server.home.path())
            .env("LONGHAUL_SERVER", &server.url);
        let run = run.output().unwrap();
        assert_ne!(run.status.code(), Some(2), "{hint}: {run:?}");
        assert!(!stderr(&run).contains("lost"), "{hint}: {run:?}");
    }
}

fn question() -> Value {
    let schema =
        json!({"type": "object", "properties": {"day": {"type": "string", "enum": ["mo"]}}, "required": ["day"]});
    json!({"-q": {"method": "elicitation/create", "params": {"message": "When?", "requestedSchema": schema}}})
}

#[test]
fn ids_that_begin_with_a_dash_are_written_as_options() {
    let server = scripted(|seen| match seen.method() {
        "tools/call" => seen.result(task(ID, "working", json!({"resultType": "task"}))),
        "tasks/get" => seen.result(task(ID, "input_required", json!({"inputRequests": question()}))),
        _ => seen.result(json!({"resultType": "complete"})),
    });
    let called = server.run(&["call", "t", "--detach"]);
    assert_eq!(exit(&called, 0), ID);
    let id = format!("--id={ID}");
    // The same call again names the task of the first one, and waits until that asks.
    let again = server.run(&["call", "t"]);
    exit(&again, 7);
    let shown = server.run(&["task", &id]);
    exit(&shown, 0);
    for (output, count) in [(&called, 1), (&again, 2), (&shown, 1)] {
        follow(&server, output, count);
    }
    let watched = server.command(&["watch", &id, "--json"]).stdout(Stdio::piped()).spawn();
    let mut watched = watched.unwrap();
    let mut lines = std::io::BufReader::new(watched.stdout.take().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut lines, &mut line).unwrap();
    assert!(line.contains(ID), "{line}");
    watched.kill().unwrap();
    watched.wait().unwrap();
    // What is typed without it says how.
    for command in ["task", "cancel", "watch", "answer"] {
        let wrong = server.run(&[command, ID]);
        exit(&wrong, 2);
        assert!(stderr(&wrong).contains("'--id=ID'"), "{wrong:?}");
    }
}

#[test]
fn hints_for_legacy_tasks_take_ids_that_begin_with_a_dash() {
    let server = scripted_legacy(|seen| match (seen.verb.as_str(), seen.method()) {
        (_, "tools/call") => seen.result(json!({"task": task(ID, "working", json!({}))})),
        (_, "tasks/get") => seen.result(task(ID, "input_required", json!({}))),
        ("POST", _) => seen.error(200, -32602),
        _ => crate::scripted::Reply::empty(405),
    });
    let called = server.run(&["call", "t", "--detach"]);
    assert_eq!(exit(&called, 0), ID);
    let shown = server.run(&["task", &format!("--id={ID}")]);
    exit(&shown, 0);
    let hint = hints(&shown);
    assert_eq!(hint, [format!("longhaul answer --id={ID}")]);
}
