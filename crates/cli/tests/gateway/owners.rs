//! `wrap` when the process that owns its data directory is killed.

use crate::support::*;
use serde_json::json;

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
