//! Which file a server has read, and what its clients are told of it, and of its end.

use super::{Place, wait_until};
use crate::assertions::*;
use rustix::process::{Signal, kill_process};
use serde_json::json;
use std::{
    fs,
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

/// After a change of the file; and if another file has the same data directory.
#[test]
fn a_file_is_served_as_it_is_now_and_no_other_one() {
    let place = Place::new("10m");
    let run = |words: &[&str], variables: &[(&str, &str)]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
        let command = command.args(words).current_dir(place.path());
        let command = command.env("HOME", place.path()).envs(variables.iter().copied());
        let ran = command.output().unwrap();
        let text = [ran.stdout, ran.stderr].concat();
        (ran.status.success(), String::from_utf8_lossy(&text).into_owned())
    };
    let listed = |file: &str, variables: &[(&str, &str)]| run(&["tools", file], variables);
    let (_, first) = listed("jobs.toml", &[]);
    assert!(first.contains("gate"), "{first}");
    let file = place.path().join("jobs.toml");
    let changed = fs::read_to_string(&file)
        .unwrap()
        .replace("name = \"gate\"", "name = \"door\"");
    fs::write(&file, &changed).unwrap();
    let owner = place.owner();
    let (_, second) = listed("jobs.toml", &[]);
    assert!(second.contains("door") && !second.contains("gate "), "{second}");
    assert_eq!(place.owner(), owner);

    // The server was started without the variable.
    let more = "\n[upstream.up]\ncommand = [\"sh\"]\nenv = { A = \"${ADDED}\" }\n";
    fs::write(&file, changed.clone() + more).unwrap();
    let (has_listed, refused) = listed("jobs.toml", &[("ADDED", "1")]);
    assert!(!has_listed && refused.contains("cannot serve it now"), "{refused}");
    assert!(refused.contains("ADDED"), "{refused}");
    fs::write(&file, &changed).unwrap();
    let (has_listed, again) = listed("jobs.toml", &[]);
    assert!(has_listed && !again.contains("longhaul: "), "{again}");

    fs::write(&file, changed.replacen("[server]", "[server]\nmax_running = 3", 1)).unwrap();
    let (_, told) = listed("jobs.toml", &[]);
    told.has("door").has("read at the next start");

    fs::write(place.path().join("other.toml"), &changed).unwrap();
    let of_other: [&[&str]; 6] = [
        &["tools", "other.toml"],
        &["keys", "add", "other.toml", "eve"],
        &["backup", "other.toml", "copy.backup"],
        &["admin", "tasks", "other.toml"],
        &["doctor", "other.toml"],
        &["admin", "drain", "other.toml"],
    ];
    for words in of_other {
        let (has_done, refused) = run(words, &[]);
        assert!(
            !has_done && refused.contains("is that of the server of"),
            "{words:?}: {refused}"
        );
    }
    fs::write(&file, changed + "# a comment\n").unwrap();
    let (_, quiet) = listed("jobs.toml", &[]);
    assert!(!quiet.contains("longhaul: "), "{quiet}");
    // It was renamed, and what is not there can be no other one.
    fs::rename(&file, place.path().join("renamed.toml")).unwrap();
    let (has_stopped, said) = run(&["admin", "drain", "renamed.toml"], &[]);
    assert!(has_stopped, "{said}");
    // What is left of it says nothing once it has ended.
    let (_, said) = run(&["admin", "tasks", "other.toml"], &[]);
    said.has("no server runs").lacks("is that of the server of");
}

/// Under its key the call is made again where its server is started again, and runs once.
#[test]
fn a_call_by_a_file_survives_the_end_of_its_server() {
    let place = Place::new("10m");
    let file = place.path().join("jobs.toml");
    let tool = r#"
[[tool]]
name = "count"
description = "counts its starts"
command = ["sh", "-c", "echo x >> starts; while [ -e jobs.toml ] && [ ! -e gate ]; do sleep 0.02; done; echo through"]
task = "never"
"#;
    fs::write(&file, fs::read_to_string(&file).unwrap() + tool).unwrap();
    let call = Command::new(env!("CARGO_BIN_EXE_longhaul"))
        .args(["call", "jobs.toml", "count"])
        .current_dir(place.path())
        .env("HOME", place.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let starts = || {
        fs::read_to_string(place.path().join("starts"))
            .unwrap_or_default()
            .lines()
            .count()
    };
    wait_until("the command has begun", || starts() > 0);
    kill_process(place.owner(), Signal::KILL).unwrap();
    place.open_gate();
    let called = call.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&called.stdout).trim(), "through", "{called:?}");
    assert_eq!(starts(), 1);
}

#[test]
fn who_makes_a_call_again_is_told_how_to_end_the_earlier_one() {
    let place = Place::new("10m");
    let call = || {
        let mut call = Command::new(env!("CARGO_BIN_EXE_longhaul"));
        let call = call.args(["call", "jobs.toml", "gate", "--timeout", "1s"]);
        let called = call
            .current_dir(place.path())
            .env("HOME", place.path())
            .output()
            .unwrap();
        assert_eq!(called.status.code(), Some(124), "{called:?}");
        String::from_utf8_lossy(&called.stderr).into_owned()
    };
    let first = call();
    assert!(!first.contains("the earlier one"), "{first}");
    let again = call();
    let line = again
        .lines()
        .find(|line| line.contains("longhaul cancel"))
        .unwrap_or_else(|| panic!("{again}"));
    let words = line.split_whitespace().skip(1).map(|word| word.trim_matches('\''));
    let cancelled = Command::new(env!("CARGO_BIN_EXE_longhaul"))
        .args(words)
        .current_dir(place.path())
        .env("HOME", place.path())
        .output()
        .unwrap();
    assert!(cancelled.status.success(), "{line}: {cancelled:?}");
}

/// What is wrong is said to the client, which keeps its session until it is mended.
#[test]
fn a_relay_outlives_a_file_that_cannot_be_served() {
    let place = Place::new("10m");
    let file = place.path().join("jobs.toml");
    let text = fs::read_to_string(&file).unwrap();
    let mut relay = place.relay();
    relay.modern("tools/list", json!({}));
    fs::write(&file, text.clone() + "x = [").unwrap();
    kill_process(place.owner(), Signal::KILL).unwrap();
    // What is sent before the relay knows that the server is gone is answered with that.
    let why = ["a", "b"].map(|id| {
        relay.tell(
            &json!({"jsonrpc": "2.0", "id": id, "method": "tools/list", "params": {"_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {},
            }}}),
        );
        let refused = relay.message().unwrap();
        assert_eq!(refused["id"], id);
        refused["error"]["message"].as_str().unwrap_or_default().to_owned()
    });
    assert!(why[1].contains("cannot be started again"), "{why:?}");
    fs::write(&file, text).unwrap();
    relay.modern("tools/list", json!({}));
}

/// Only its owner decides when a server that somebody has started reads its file.
#[test]
fn who_lists_tools_is_told_of_changes_that_a_server_has_not_read() {
    let place = Place::new("10m");
    let mut server = Command::new(env!("CARGO_BIN_EXE_longhaul"))
        .args(["serve", "jobs.toml", "--listen", "127.0.0.1:0", "--json"])
        .current_dir(place.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let file = place.path().join("jobs.toml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text + "# changed\n").unwrap();
    let listed = Command::new(env!("CARGO_BIN_EXE_longhaul"))
        .args(["tools", "jobs.toml"])
        .current_dir(place.path())
        .env("HOME", place.path())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&listed.stderr);
    let hangup = format!("`kill -HUP {}` has it read again", server.id());
    assert!(listed.status.success() && told.contains(&hangup), "{told}");
    server.kill().unwrap();
    server.wait().unwrap();
}
