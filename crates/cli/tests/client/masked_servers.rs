//! Secrets in the URL of a server: never shown, and recorded only if nothing else says how to connect again.

use crate::{
    scripted::{Scripted, created, scripted, task},
    support::*,
};
use serde_json::json;
use std::fs;

const SECRETS: [&str; 2] = ["t0ken-of-mine", "k3y-of-mine"];

fn served() -> Scripted {
    scripted(|seen| match seen.method() {
        "tools/call" => seen.result(created("task-1")),
        _ => seen.result(task("task-1", "working", json!({}))),
    })
}

fn url(served: &Scripted) -> String {
    format!("{}?access_token={}&key={}", served.url, SECRETS[0], SECRETS[1])
}

/// Everything that commands say of the recorded task.
fn everything_shown(served: &Scripted) -> String {
    let commands: [&[&str]; 5] = [
        &["tasks", "--json"],
        &["tasks", "--offline"],
        &["task", "task-1", "--json"],
        &["task", "task-1"],
        &["cancel", "task-1"],
    ];
    let shown = commands.map(|words| {
        let output = longhaul(words, &served.home).output().unwrap();
        exit(&output, 0) + &stderr(&output)
    });
    shown.concat()
}

fn journal(served: &Scripted) -> String {
    let folder = served.home.path().join("longhaul/.client");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = files.filter(|path| path.is_file());
    files
        .map(|path| String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned())
        .collect()
}

#[test]
fn the_secrets_of_a_url_are_not_shown() {
    let served = served();
    let called = run_at(&url(&served), &served.home, &["call", "t", "--detach"]);
    assert_eq!(exit(&called, 0), "task-1");
    let shown = everything_shown(&served) + &stderr(&called);
    assert!(shown.contains("?access_token=***&key=***"), "{shown}");
    for secret in SECRETS {
        assert!(!shown.contains(secret), "{shown}");
        // Nothing else says how to reach the task.
        assert!(journal(&served).contains(secret));
    }
}

#[test]
fn the_secrets_of_a_configured_url_are_not_recorded() {
    let served = served();
    let folder = served.home.path().join("longhaul");
    fs::create_dir_all(&folder).unwrap();
    let entry = format!("[servers.mine]\nurl = {:?}\n", url(&served));
    fs::write(folder.join("servers.toml"), entry).unwrap();
    let called = longhaul(&["call", "mine", "t", "--detach"], &served.home)
        .output()
        .unwrap();
    assert_eq!(exit(&called, 0), "task-1");
    let shown = everything_shown(&served) + &stderr(&called) + &journal(&served);
    assert!(shown.contains("?access_token=***&key=***"), "{shown}");
    for secret in SECRETS {
        assert!(!shown.contains(secret), "{shown}");
    }
}

#[test]
fn the_error_of_a_server_that_is_away_does_not_show_them() {
    let home = tempfile::tempdir().unwrap();
    let url = format!("http://127.0.0.1:1/mcp?token={}", SECRETS[0]);
    let away = run_at(&url, &home, &["call", "t"]);
    away.ends(3).says("http://127.0.0.1:1/mcp?token=*** cannot be reached");
    away.says_no(SECRETS[0]);
}
