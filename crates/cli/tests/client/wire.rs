//! Completion, and the messages as they flow.

use crate::support::*;
use serde_json::{Value, json};

#[test]
fn values_are_completed() {
    let served = served();
    let completed = |words: &[&str]| served.done(&[&["complete"], words].concat());
    assert_eq!(completed(&["review", "language=ru"]), "rust\nruby");
    assert_eq!(completed(&["users://{id}", "id=1", "other=x"]), "12\n13");
    assert_eq!(completed(&[&served.url, "review", "language=q"]), "");
    let whole = served.shown(&["complete", "review", "language=z", "--json"]);
    assert_eq!(whole["values"], serde_json::json!(["zig"]));
    exit(&served.run(&["complete", "review"]), 2);
    exit(&served.run(&["complete", "review", "language"]), 2);
    exit(&served.run(&["complete", "nothing", "a=b"]), 2);
}

fn messages(output: &std::process::Output) -> Vec<Value> {
    let lines = stdout(output);
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn the_wire_is_shown_with_its_secrets_hidden() {
    let served = served();
    let around = served.run(&["inspect", "--json"]);
    exit(&around, 0);
    let sent = messages(&around);
    let sent = sent.iter().filter(|line| line["direction"] == "sent");
    let sent: Vec<_> = sent
        .map(|line| (line["message"]["method"].clone(), line["headers"]["mcp-method"].clone()))
        .collect();
    let lists = [
        "tools/list",
        "resources/list",
        "resources/templates/list",
        "prompts/list",
    ];
    let methods = ["server/discover"].into_iter().chain(lists);
    let expected: Vec<(Value, Value)> = methods.map(|method| (method.into(), method.into())).collect();
    assert_eq!(sent, expected);

    let arguments = r#"arguments:={"text":"hi","token":"t0psecret"}"#;
    let called = served.run(&["inspect", "tools/call", "name=echo", arguments, "--json"]);
    called.prints_no("t0psecret");
    let called = messages(&called);
    let received = called.iter().rfind(|line| line["direction"] == "received").unwrap();
    let has = |member: &str| received["message"][member].is_object();
    assert!(has("result") || has("error"), "{called:?}");

    // What a server says of its environment, and what the user has written in a text.
    let arguments =
        json!({"text": "Bearer t0psecret", "nested": {"passwd": "t0psecret"}, "env": "{\"MY_TOKEN\": \"t0psecret\"}"});
    let called = served.run(&["inspect", "tools/call", "name=echo", &format!("arguments:={arguments}")]);
    called.prints("***").prints_no("t0psecret");

    let legacy = served.run(&["inspect", "--era=legacy"]);
    let shown = exit(&legacy, 0);
    shown.has("--> POST ").has("<-- HTTP status 200");
    assert!(shown.contains("--> DELETE "), "the session is closed: {shown}");
    let ids = shown
        .lines()
        .filter_map(|line| line.trim().strip_prefix("mcp-session-id: "));
    let is_cut = |id: &str| id.chars().count() == 9 && id.ends_with('…');
    assert!(ids.clone().count() > 3 && ids.clone().all(is_cut), "{shown}");

    let failed = served.run(&["inspect", "--era=legacy", "tools/call", "name=fail"]);
    exit(&failed, 1);

    served.run(&["inspect", "no/such/method"]).ends(5).prints("-32601");
    let refused = served.run(&["inspect", "no/such/method", "--json"]);
    exit(&refused, 5);
    let last = messages(&refused).pop().unwrap();
    last["error"].has_members(json!({"kind": "refused", "code": -32601}));
    assert!(stderr(&refused).contains("-32601"), "{refused:?}");
    let home = tempfile::tempdir().unwrap();
    let gone = longhaul(&["inspect", "http://127.0.0.1:1/mcp"], &home)
        .output()
        .unwrap();
    exit(&gone, 3);
}

/// A pipe has no headers and no status.
#[test]
fn a_child_is_inspected() {
    let home = tempfile::tempdir().unwrap();
    let script = "read -r line; echo nonsense; sleep 1";
    let child = ["sh", "-c", script, "sh", "--api-key=t0psecret", "--token", "t0psecret"];
    let words = [&["inspect", "--era=legacy", "--"], &child[..]].concat();
    let inspected = longhaul(&words, &home).output().unwrap();
    inspected.ends(3).prints("--token ***").prints_no("t0psecret");
    inspected.prints("--> sh -c").prints_no("HTTP");
}
