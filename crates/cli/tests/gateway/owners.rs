//! `wrap` and the processes that own its data directory.

use crate::support::*;
use serde_json::json;
use std::{
    collections::BTreeSet,
    ffi::OsStr,
    fs,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

const WRAP: [&str; 9] = [
    "wrap",
    "--data-dir",
    "own",
    "--env",
    "T_ACCOUNT",
    "--",
    LONGHAUL,
    "stdio",
    "upstream.toml",
];

/// The command in an environment with the account.
fn with_account(folder: &Path, account: &str) -> Command {
    let mut command = longhaul(folder);
    command.env("T_ACCOUNT", account);
    command
}

/// Runs `wrap` for a host that leaves at once; what it says.
fn said(mut longhaul: Command, wrap: &[&str]) -> (Output, String) {
    let output = longhaul.args(wrap).stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output, said)
}

#[track_caller]
fn assert_refused((output, said): &(Output, String), difference: &str) {
    assert_eq!(output.status.code(), Some(1), "{said}");
    said.has("is in use for another server").has(difference);
    assert!(!said.contains("account-"), "the value of a variable is shown: {said}");
}

/// Calls would run under another account, or at another server.
#[test]
fn a_data_directory_in_use_is_not_shared_with_another_environment_or_command() {
    let folder = folder();
    let path = folder.path();
    let mut host = Host::of(with_account(path, "account-a"), &WRAP);
    let definition = || ["wrap.toml", "wrap.json"].map(|name| fs::read_to_string(path.join("own").join(name)).unwrap());
    let before = definition();
    let other = || said(with_account(path, "account-b"), &WRAP);
    assert_refused(&other(), "other values of these variables: T_ACCOUNT.");
    let command = [
        "wrap",
        "--data-dir",
        "own",
        "--env",
        "T_ACCOUNT",
        "--",
        "sh",
        "-c",
        "exit 1",
    ];
    assert_refused(&said(with_account(path, "account-a"), &command), "another command.");
    assert_eq!(definition(), before);
    // Its server is gone, and the host is not: it gets another server for the same account.
    kill_owners(&path.join("own"));
    assert_refused(&other(), "T_ACCOUNT");
    // A call that the dying server has still taken is an error, as its outcome is unknown.
    until("another server for the same account", || {
        let called = host.exchange("tools/call", json!({"name": "greet", "arguments": {}}));
        called["result"].to_string().contains("Hello")
    });
    // The host is gone, and its server is not.
    host.leave();
    assert_refused(&other(), "T_ACCOUNT");
    kill_owners(&path.join("own"));
    let mut said = String::new();
    until("the server to be gone", || {
        let (output, last) = other();
        said = last;
        output.status.success()
    });
    said.has("was used before with other values of these variables: T_ACCOUNT.");
}

/// As one of an earlier `longhaul serve`, which has nothing to do with the command.
#[test]
fn a_server_that_wrap_has_not_started_is_not_taken_for_its_own() {
    let folder = folder();
    let path = folder.path();
    let _server = serve(path, &["upstream.toml"]);
    let wrap = [
        "wrap",
        "--data-dir",
        "upstream-data",
        "--",
        LONGHAUL,
        "stdio",
        "upstream.toml",
    ];
    let (output, said) = said(longhaul(path), &wrap);
    assert_eq!(output.status.code(), Some(1), "{said}");
    said.has("is in use by a server that `longhaul wrap` has not started");
    assert!(!path.join("upstream-data/wrap.toml").exists());
}

#[test]
fn a_state_folder_that_cannot_be_used_is_named() {
    let folder = folder();
    fs::write(folder.path().join("file"), "").unwrap();
    let wrap = ["wrap", "--data-dir", "file/own", "--", "true"];
    let (output, said) = said(longhaul(folder.path()), &wrap);
    assert_eq!(output.status.code(), Some(1), "{said}");
    said.has("cannot prepare the data directory /").has("file/own: ");
}

#[test]
fn a_folder_that_cannot_be_used_is_refused_as_such() {
    let folder = folder();
    let odd = folder.path().join(OsStr::from_bytes(b"odd \xff"));
    fs::create_dir(&odd).unwrap();
    let mut wrap = longhaul(folder.path());
    wrap.current_dir(&odd);
    let (output, told) = said(wrap, &["wrap", "--", "true"]);
    assert!(output.status.code() == Some(1) && told.contains("not UTF-8"), "{told}");

    fs::create_dir(folder.path().join("gone")).unwrap();
    let script = r#"rmdir "$PWD"; exec "$0" wrap -- true"#;
    let mut wrap = Command::new("sh");
    wrap.current_dir(folder.path().join("gone"));
    let (output, told) = said(wrap, &["-c", script, LONGHAUL]);
    output.ends(1);
    told.has("not there any more");
}

/// The host need not do anything: its session goes on, and what was not answered is answered with an error.
#[test]
fn a_wrap_whose_server_is_killed_starts_another_one_for_the_same_session() {
    let folder = folder();
    let path = folder.path();
    let wrap = ["wrap", "--", LONGHAUL, "stdio", "upstream.toml"];
    let mut hosts = [Host::start(path, &wrap), Host::start(path, &wrap)];
    let open = hosts[0].send("tools/call", json!({"name": "gate", "arguments": {}}));
    until("the command to start", || starts(path) == 1);
    kill_owners(&path.join("state"));
    let failed = hosts[0].answer(open);
    let why = failed["error"]["message"].as_str().unwrap_or_default();
    assert!(
        why.contains("it is not known whether the request was carried out"),
        "{failed}"
    );
    for host in &mut hosts {
        let called = host.exchange("tools/call", json!({"name": "greet", "arguments": {}}));
        assert!(called["result"].to_string().contains("Hello"), "{called}");
    }
    for host in hosts {
        host.leave();
    }
}

/// As by a supervisor that restarts what is above its limit, or by `pkill` in a loop.
#[test]
fn a_wrap_whose_server_is_killed_again_while_it_starts_goes_on() {
    let folder = folder();
    let path = folder.path();
    let mut host = Host::start(
        path,
        &["wrap", "--data-dir", "own", "--", LONGHAUL, "stdio", "upstream.toml"],
    );
    let lock = path.join("own/lock");
    let mut killed = BTreeSet::new();
    until("six servers in a row to be killed", || {
        let owner = fs::read_to_string(&lock).unwrap_or_default();
        if owner.starts_with("pid ") && killed.insert(owner) {
            kill_owners(&path.join("own"));
        }
        killed.len() == 6
    });
    // What a dying server has still taken is an error.
    until("the next server", || {
        let called = host.exchange("tools/call", json!({"name": "greet", "arguments": {}}));
        called["result"].to_string().contains("Hello")
    });
    host.leave();
}

/// A host that gives up early must get its hand-off, whichever host came first, and from the next server, too.
#[test]
fn hosts_with_different_hand_offs_share_a_server_and_have_each_its_own() {
    let folder = folder();
    let path = folder.path();
    let command = ["--", LONGHAUL, "stdio", "upstream.toml"];
    let wrap = |options: &[&'static str]| [&["wrap"], options, &command].concat();
    let mut plain = Host::start(path, &wrap(&["--handoff", "0s"]));
    let mut hurried = Host::start(path, &wrap(&["--handoff", "10ms"]));
    let mut unset = Host::start(path, &wrap(&[]));
    for is_first in [true, false] {
        // What a dying server has still taken is an error.
        let tools = |host: &mut Host| {
            let mut listed = json!(null);
            until("the tools", || {
                listed = host.exchange("tools/list", json!({}))["result"].take();
                listed.is_object()
            });
            listed.to_string()
        };
        assert!(!tools(&mut plain).contains("task_wait") && tools(&mut hurried).contains("task_wait"));
        assert!(tools(&mut unset).contains("task_wait"));
        let handed_off = hurried.exchange("tools/call", json!({"name": "gate", "arguments": {}}))["result"].to_string();
        assert!(handed_off.contains("task_wait"), "{handed_off}");
        assert_eq!(wrap_directories(path).len(), 1);
        if is_first {
            kill_owners(&path.join("state"));
        }
    }
    fs::write(path.join("gate"), "").unwrap();
    for host in [plain, hurried, unset] {
        host.leave();
    }
}

fn wrap_directories(folder: &Path) -> Vec<PathBuf> {
    let found = fs::read_dir(folder.join("state/longhaul/wrap")).unwrap();
    found.map(|entry| entry.unwrap().path()).collect()
}

/// Hosts, terminals and shells set other variables in each session. An account is what `--env` or `--name` says.
#[test]
fn the_next_conversation_finds_its_tasks_and_another_account_does_not() {
    let folder = folder();
    let path = folder.path();
    let host = |session: &str, account: &str, options: &[&'static str]| {
        let mut command = with_account(path, account);
        command.env("CLAUDE_CODE_SESSION_ID", session);
        let start: &[&str] = &["wrap", "--env", "T_ACCOUNT"];
        Host::of(
            command,
            &[start, options, &["--", LONGHAUL, "stdio", "upstream.toml"]].concat(),
        )
    };
    let mut first = host("1", "a", &["--handoff", "10ms"]);
    let handed_off = first.exchange("tools/call", json!({"name": "gate", "arguments": {}}));
    let text = handed_off["result"]["content"][0]["text"].as_str().unwrap().to_owned();
    let task = text
        .split("as task ")
        .nth(1)
        .unwrap()
        .split('.')
        .next()
        .unwrap()
        .to_owned();
    first.leave();
    fs::write(path.join("gate"), "").unwrap();
    let wait = |session: &str, account: &str, options: &[&'static str]| {
        let mut host = host(session, account, &[&["--handoff", "40s"], options].concat());
        let waited = host.exchange("tools/call", json!({"name": "task_wait", "arguments": {"task": task}}));
        host.leave();
        waited["result"]["content"][0]["text"].as_str().unwrap().to_owned()
    };
    assert!(wait("2", "a", &[]).contains("through"));
    assert!(!wait("3", "b", &[]).contains("through"));
    assert!(!wait("4", "a", &["--name", "work"]).contains("through"));
    let directories = wrap_directories(path);
    assert_eq!(directories.len(), 3);
    assert!(directories.iter().all(|directory| !directory.join("reserve").exists()));
}

/// Paths of sockets are limited to 107 bytes, and an ordinary home has more than half of them.
#[test]
fn wrap_serve_and_admin_work_in_folders_with_long_paths() {
    let folder = folder();
    let path = folder.path();
    let state = path.join("d".repeat(120)).join("e".repeat(120));
    let mut command = longhaul(path);
    command.env("XDG_STATE_HOME", &state);
    let mut host = Host::of(command, &["wrap", "--", LONGHAUL, "stdio", "upstream.toml"]);
    let called = host.exchange("tools/call", json!({"name": "greet", "arguments": {}}));
    assert!(called["result"].to_string().contains("Hello"), "{called}");
    host.leave();
    let data_dir = state.join("data");
    let data_dir = data_dir.to_str().unwrap();
    let _server = serve(path, &["upstream.toml", "--data-dir", data_dir]);
    let tasks = run(path, &["admin", "tasks", data_dir]);
    assert!(tasks.status.success(), "{tasks:?}");
    run(path, &["admin", "doctor", data_dir]).prints_no("SIGKILL");
}

/// `wrap` is in front of one server, so hosts and people see that one.
#[test]
fn a_host_is_shown_the_wrapped_server_itself() {
    let folder = folder();
    let path = folder.path();
    let wrap = ["wrap", "--", LONGHAUL, "stdio", "upstream.toml"];
    let host = Host::start(path, &wrap);
    assert_eq!(host.hello["serverInfo"]["name"], "upstream", "{}", host.hello);
    host.leave();
}
