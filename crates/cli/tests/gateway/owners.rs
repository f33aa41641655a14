//! `wrap` and the processes that own its data directory.

use crate::support::*;
use serde_json::json;
use std::{
    fs,
    path::Path,
    process::{Command, Output, Stdio},
};

const WRAP: [&str; 7] = ["wrap", "--data-dir", "own", "--", LONGHAUL, "stdio", "upstream.toml"];

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
    assert!(
        said.contains("is in use for another server") && said.contains(difference),
        "{said}"
    );
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
    let command = ["wrap", "--data-dir", "own", "--", "sh", "-c", "exit 1"];
    assert_refused(&said(with_account(path, "account-a"), &command), "another command.");
    assert_eq!(definition(), before);
    // Its server is gone, and the host is not: it gets another server for the same account.
    kill_owners(&path.join("own"));
    assert_refused(&other(), "T_ACCOUNT");
    let called = host.exchange("tools/call", json!({"name": "greet", "arguments": {}}));
    assert!(called["result"].to_string().contains("Hello"), "{called}");
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
    assert!(
        said.contains("was used before with other values of these variables: T_ACCOUNT."),
        "{said}"
    );
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
    assert!(
        said.contains("is in use by a server that `longhaul wrap` has not started"),
        "{said}"
    );
    assert!(!path.join("upstream-data/wrap.toml").exists());
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

/// A host that gives up early must get its hand-off, whichever host came first.
#[test]
fn hosts_with_different_hand_offs_do_not_share_a_server() {
    let folder = folder();
    let path = folder.path();
    let command = ["--", LONGHAUL, "stdio", "upstream.toml"];
    let wrap = |options: &[&'static str]| [&["wrap"], options, &command].concat();
    let mut plain = Host::start(path, &wrap(&["--handoff", "0s"]));
    let mut hurried = Host::start(path, &wrap(&["--handoff", "10ms"]));
    let tools = |host: &mut Host| host.exchange("tools/list", json!({}))["result"].to_string();
    assert!(!tools(&mut plain).contains("task_wait") && tools(&mut hurried).contains("task_wait"));
    let handed_off = hurried.exchange("tools/call", json!({"name": "gate", "arguments": {}}))["result"].to_string();
    assert!(handed_off.contains("task_wait"), "{handed_off}");
    let mut unset = Host::start(path, &wrap(&[]));
    assert!(!tools(&mut unset).contains("task_wait"));
    let owners = fs::read_dir(path.join("state/longhaul/wrap")).unwrap().count();
    assert_eq!(owners, 2, "no hand-off and 0s are the same");
    fs::write(path.join("gate"), "").unwrap();
    for host in [plain, hurried, unset] {
        host.leave();
    }
    let own = Host::start(path, &WRAP);
    let other = [&WRAP[..3], &["--handoff", "10ms"], &command].concat();
    assert_refused(&said(longhaul(path), &other), "another --handoff.");
    own.leave();
}
