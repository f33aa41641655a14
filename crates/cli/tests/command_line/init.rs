//! `longhaul init` without a terminal. The questions are in the tests of the client.

use super::support::*;
use std::{fs, os::unix::fs::symlink, path::Path};

fn init(folder: &Path, words: &[&str]) -> std::process::Output {
    let words = [&["init"], words].concat();
    longhaul(&words).current_dir(folder).output().unwrap()
}

#[test]
fn the_example_is_valid_and_its_call_is_a_task() {
    let folder = tempfile::tempdir().unwrap();
    let made = init(folder.path(), &["--yes"]);
    assert_eq!(exit(&made), 0, "{made:?}");
    let said = stdout(&made);
    said.has("longhaul check jobs.toml").has("longhaul serve jobs.toml");
    said.has("longhaul call jobs.toml count steps=8");
    let file = folder.path().join("jobs.toml");
    let checked = run(&["check", "--json", file.to_str().unwrap()]);
    assert_eq!(json(&checked)["ok"], true);
    assert_eq!(json(&checked)["warnings"], serde_json::json!([]));

    // As it stands, on another port.
    let (mut child, address) = serve(folder.path(), "127.0.0.1:0");
    let url = format!("http://{address}/mcp");
    let called = run(&["call", &url, "count", "steps=2"]);
    called.ends(0).prints("counted to 2").says("task ");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_program_reads_what_was_written_and_what_comes_next() {
    let folder = tempfile::tempdir().unwrap();
    let made = json(&init(folder.path(), &["--yes", "--json", "my jobs.toml"]));
    let next = [
        "check 'my jobs.toml'",
        "serve 'my jobs.toml'",
        "call 'my jobs.toml' count steps=8",
    ];
    let next = next.map(|command| format!("longhaul {command}"));
    let expected = serde_json::json!({"file": "my jobs.toml", "server": "my_jobs", "tool": "count", "next": next});
    assert_eq!(made, expected);
    let mut check = longhaul(&["check", "my jobs.toml"]);
    check.current_dir(folder.path()).output().unwrap().ends(0);
}

#[test]
fn nothing_is_ever_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("jobs.toml");
    fs::write(&file, "mine").unwrap();
    init(folder.path(), &["--yes"]).ends(2).says("longhaul check jobs.toml");
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
    // Nor what a link leads to, or would lead to.
    symlink("nowhere", folder.path().join("link.toml")).unwrap();
    let refused = init(folder.path(), &["--yes", "--json", "link.toml"]);
    assert_eq!(json(refused.ends(2))["error"]["kind"], "usage");
    assert!(!folder.path().join("nowhere").exists());
    assert_eq!(exit(&init(folder.path(), &["--yes", "no/such/folder.toml"])), 2);
    assert_eq!(exit(&init(folder.path(), &["--yes", "."])), 2);
}

#[test]
fn without_a_terminal_nobody_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    init(folder.path(), &[]).ends(2).says("use --yes");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}
