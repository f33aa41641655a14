//! What a server offers, and servers that cannot say it.

use crate::{
    scripted::{Reply, scripted_with},
    support::*,
};
use serde_json::json;
use std::{
    io::{BufRead, BufReader},
    net::TcpListener,
};

#[test]
fn a_resource_of_bytes_is_written_as_it_is() {
    let served = served();
    let read = served.run(&["resources", "--uri", "docs://bytes"]);
    assert_eq!((read.status.code(), &*read.stdout), (Some(0), &[0u8, 255, 10][..]));
    assert_eq!(served.done(&["resources", "-u", "docs://readme"]), "Read me.");
    let whole = served.shown(&["resources", "-u", "docs://bytes", "--json"]);
    assert_eq!(whole["contents"][0]["blob"], "AP8K");
}

#[test]
fn a_server_that_is_silent_is_waited_for_with_a_notice() {
    let home = tempfile::tempdir().unwrap();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", silent.local_addr().unwrap());
    let child = ["--", "sh", "-c", "cat > /dev/null"];
    for words in [
        &["tools", &url][..],
        &["task", &url, "some-task"],
        &["task", &url, "some-task", "--wait"],
        &["watch", &url, "some-task"],
        &["prompts", &url],
        &["call", &url, "x"],
        &["login", &url],
        &["tools", child[0], child[1], child[2], child[3]],
    ] {
        let mut waiting = longhaul(words, &home).spawn().unwrap();
        let mut said = BufReader::new(waiting.stderr.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        waiting.kill().unwrap();
        waiting.wait().unwrap();
        let server = match words {
            ["watch", ..] => "the servers",
            [_, "--", ..] => "sh -c cat > /dev/null",
            _ => &url,
        };
        assert_eq!(line, format!("waiting for {server} to answer\n"), "{words:?}");
    }
}

/// The child prints the first message that it is sent.
#[test]
fn the_era_can_be_chosen_for_any_server() {
    let home = tempfile::tempdir().unwrap();
    let first_message = |era: &[&str]| {
        let child = ["--", "sh", "-c", "read -r line; echo \"$line\" >&2"];
        let failed = longhaul(&[&["tools"], era, &child].concat(), &home).output().unwrap();
        exit(&failed, 3);
        stderr(&failed)
    };
    let legacy = first_message(&["--era", "legacy"]);
    legacy.has("\"initialize\"").lacks("server/discover");
    // The end of a longer message.
    let modern = first_message(&["--era=modern"]);
    modern
        .has("io.modelcontextprotocol/protocolVersion")
        .lacks("\"initialize\"");

    let served = served();
    let called = served.run(&["call", "wait", "--era=legacy", "--timeout", "1s"]);
    exit(&called, 124);
    let is_way_back = |line: &str| line.trim().starts_with("longhaul task --era=legacy ");
    assert!(stderr(&called).lines().any(is_way_back), "{called:?}");
    // So does the wait for it.
    let waited = served.run(&["task", "--wait", "--timeout", "100ms", "--json"]);
    exit(&waited, 124);
    assert_eq!(json(&waited)["interrupted"], true, "{waited:?}");
    served.run(&["tools", "--era", "new"]).ends(2);
}

/// MCP wants a client to leave it out. Who looks for it is told why it is not there.
#[test]
fn a_tool_that_cannot_be_called_is_named_with_the_reason() {
    let tool = json!({"name": "odd", "inputSchema": {"type": "object", "properties": {
        "region": {"type": "object", "x-mcp-header": "Region"},
    }}});
    let served = scripted_with(&json!({}), tool, |_| Reply::empty(404));
    const WHY: &str = "the tool `odd` cannot be called: x-mcp-header at `region` is on an argument whose type is not";
    for words in [&["tools"][..], &["call"]] {
        let listed = served.run(words);
        assert_eq!(exit(&listed, 0), "");
        assert!(stderr(&listed).contains(WHY), "{listed:?}");
        let as_json = served.run(&[words, &["--json"]].concat());
        exit(&as_json, 0);
        let shown = json(&as_json);
        assert_eq!(shown["tools"], json!([]), "{shown}");
        let unusable = &shown["unusableTools"][0];
        assert_eq!(unusable["name"], "odd", "{shown}");
        unusable["reason"].as_str().unwrap().has("x-mcp-header at `region`");
    }
    served.run(&["call", "odd"]).ends(2).says(WHY);
    assert!(served.calls_of("tools/call").is_empty());
}

#[test]
fn an_argument_that_is_an_object_shows_its_members() {
    let tool = json!({"name": "t", "inputSchema": {
        "type": "object",
        "required": ["address"],
        "properties": {"address": {"$ref": "#/$defs/Address"}},
        "$defs": {"Address": {"type": "object", "required": ["street"], "properties": {"street": {"type": "string"}}}},
    }});
    let served = scripted_with(
        &json!({}),
        tool,
        |seen| match seen.body["params"]["arguments"]["address"]["street"].is_string() {
            true => seen.result(json!({"resultType": "complete", "content": []})),
            false => seen.error(200, -32602),
        },
    );
    let listed = served.done(&["tools"]);
    assert!(listed.contains(r#"address:='{"street":string}'"#), "{listed}");
    served.done(&["call", "t", r#"address:={"street":"x"}"#]);
}

/// Upstreams name their tools as they like.
#[test]
fn a_name_forges_no_line() {
    const FORGED: &str = "access anyone";
    let tool = json!({"name": format!("t\n{FORGED}\u{202e}"), "inputSchema": {"type": "object"}});
    let upstream = scripted_with(&json!({}), tool, |seen| seen.error(404, -32601));
    let file = upstream.home.path().join("gateway.toml");
    let config = format!(
        "[server]\nname = \"gateway\"\nlisten = \"127.0.0.1:0\"\ndata_dir = \"data\"\n[upstream.one]\nurl = \"{}\"\n",
        upstream.url
    );
    std::fs::write(&file, config).unwrap();
    let file = file.to_str().unwrap();
    let is_in_line_of = |text: &str, begin: &str| {
        let line = text.lines().find(|line| line.contains(FORGED)).unwrap();
        assert!(line.starts_with(begin) && !line.contains('\u{202e}'), "{text}");
    };
    let checked = longhaul(&["check", file], &upstream.home).output().unwrap();
    is_in_line_of(&exit(&checked, 0), "  t ");
    let mut server = longhaul(&["serve", file], &upstream.home).spawn().unwrap();
    let lines = BufReader::new(server.stderr.take().unwrap()).lines();
    let named = lines.map(Result::unwrap).find(|line| line.contains(FORGED));
    server.kill().unwrap();
    server.wait().unwrap();
    is_in_line_of(&named.unwrap(), "  tools  t ");
}
