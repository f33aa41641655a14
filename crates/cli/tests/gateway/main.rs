//! The gateway as a user starts it, in front of a real server that is killed with it or without it: `longhaul` itself.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

#[path = "../assertions/mod.rs"]
#[allow(dead_code)]
mod assertions;
#[path = "../../../client/tests/scripted/authorization_server.rs"]
#[allow(dead_code)]
mod authorization_server;
mod children;
mod content;
mod http_jobs;
mod jobs;
mod logins;
mod names;
mod owners;
mod principals;
mod restarts;
mod support;
mod switched_off;
mod talking_upstream;

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, Signal, kill_process},
};
use serde_json::{Value, json};
use std::{
    fs,
    io::{BufRead, BufReader, Read as _, Write},
    os::unix::net::UnixStream,
    path::Path,
    process::Stdio,
};
use support::*;

/// Reads its file again, and waits until it says so.
pub(crate) fn hang_up(folder: &Path, server: &Server, expected: &str) -> String {
    let log = || fs::read_to_string(folder.join("log")).unwrap_or_default();
    let before = log().matches(expected).count();
    kill_process(Pid::from_child(&server.child), Signal::HUP).unwrap();
    until(expected, || log().matches(expected).count() > before);
    log()
}

/// An operator sees an upstream that has gone away, and pauses one with all its tools.
#[test]
fn upstreams_are_seen_and_paused_from_a_shell() {
    let folder = folder();
    let path = folder.path();
    let mut upstream = serve(path, &["upstream.toml"]);
    gateway_config(path, &upstream.url);
    let gateway = serve(path, &["gateway.toml"]);
    let seen =
        || -> Value { serde_json::from_str(&done(path, &["admin", "upstreams", "gateway.toml", "--json"])).unwrap() };
    let up = seen();
    assert_eq!((&up[0]["name"], &up[0]["state"]), (&json!("up"), &json!("up")));
    let paused = done(path, &["admin", "pause", "gateway.toml", "--upstream", "up"]);
    assert!(paused.starts_with("paused: ") && paused.contains("greet"), "{paused}");
    done(path, &["admin", "upstreams", "gateway.toml"]).has("2 (2 paused)");
    done(path, &["admin", "resume", "gateway.toml", "--upstream", "up"]);
    assert_eq!(done(path, &["call", &gateway.url, "greet"]), "Hello");

    upstream.child.kill().unwrap();
    upstream.child.wait().unwrap();
    until("the upstream to be down", || seen()[0]["state"] == "down");
    let unknown = run(path, &["admin", "pause", "gateway.toml", "--upstream", "pu"]);
    unknown.ends(2).says("there is no upstream `pu`; the upstreams are up");
}

/// Tools and upstreams come and go, the running task stays, and a broken file changes nothing.
#[test]
fn a_hangup_reads_the_configuration_again() {
    let folder = folder();
    let folder = folder.path();
    let upstream = serve(folder, &["upstream.toml"]);
    gateway_config(folder, &upstream.url);
    let first = fs::read_to_string(folder.join("gateway.toml")).unwrap();
    let gateway = serve_with_log(folder, &["gateway.toml"]);
    let id = done(folder, &["call", &gateway.url, "gate", "--detach"]);
    until("the command to start", || starts(folder) == 1);

    // The pause of an upstream that is removed can be ended.
    done(folder, &["admin", "pause", "gateway.toml", "--upstream", "up"]);

    let second = first.replace("[upstream.up]", "[upstream.other]")
        + "[[tool]]\nname = \"date\"\ndescription = \"tells it\"\ncommand = [\"echo\", \"today\"]\ntask = \"never\"\n";
    fs::write(folder.join("gateway.toml"), &second).unwrap();
    let log = hang_up(folder, &gateway, "was read again: ");
    let told = "new tools: date; new upstreams: other; removed upstreams: up\n";
    assert!(log.contains(told), "{log}");
    let resume = ["admin", "resume", "gateway.toml", "--upstream", "up"];
    let resumed = done(folder, &resume);
    assert!(resumed.starts_with("resumed: up"), "{resumed}");
    assert_eq!(run(folder, &resume).status.code(), Some(2), "it is not paused any more");
    assert_eq!(done(folder, &["call", &gateway.url, "date"]), "today");
    until("the tools of the new upstream", || {
        done(folder, &["tools", &gateway.url, "--json"]).contains("\"greet\"")
    });

    let wrong = second.replace("task = \"never\"", "tsk = \"never\"");
    fs::write(folder.join("gateway.toml"), wrong).unwrap();
    let log = hang_up(folder, &gateway, "nothing has changed");
    assert!(log.contains("unknown key `tsk` in [[tool]] `date`"), "{log}");
    assert_eq!(done(folder, &["call", &gateway.url, "date"]), "today");

    fs::write(folder.join("gateway.toml"), first).unwrap();
    let log = hang_up(folder, &gateway, "removed tools: date");
    assert!(log.contains("new upstreams: up; removed upstreams: other"), "{log}");
    fs::write(folder.join("gate"), "").unwrap();
    assert_eq!(done(folder, &["task", &gateway.url, &id, "--wait"]), "waiting\nthrough");
    assert_eq!(starts(folder), 1, "nothing runs twice");
}

#[test]
fn check_reads_the_file_of_another_client() {
    let folder = tempfile::tempdir().unwrap();
    let servers = r#"{"mcpServers": {"down": {"url": "http://127.0.0.1:1/mcp"}}} // as it is"#;
    fs::write(folder.path().join("mcp.json"), servers).unwrap();
    let checked = done(folder.path(), &["check", "--mcp-config", "mcp.json"]);
    assert!(checked.contains("upstream down: cannot be used now"), "{checked}");
    fs::write(folder.path().join("mcp.json"), r#"{"mcpServers": {"a": {}}}"#).unwrap();
    let refused = run(folder.path(), &["check", "--mcp-config", "mcp.json", "--json"]);
    let why: Value = serde_json::from_slice(&refused.ends(2).stdout).unwrap();
    let problem = &why["problems"][0]["message"];
    assert_eq!(*problem, "the server `a`: it needs a `command` or a `url`");
}

#[test]
fn check_connects_to_the_upstreams() {
    let folder = folder();
    let folder = folder.path();
    let upstream = serve(folder, &["upstream.toml"]);
    gateway_config(folder, &upstream.url);
    let config = fs::read_to_string(folder.join("gateway.toml")).unwrap();
    let config =
        config + "tools = { rename = { no_such = \"other\" } }\n[upstream.down]\nurl = \"http://127.0.0.1:1/mcp\"\n";
    fs::write(folder.join("gateway.toml"), config).unwrap();

    let checked = run(folder, &["check", "gateway.toml"]);
    let (told, warned) = (text(&checked), String::from_utf8_lossy(&checked.stderr).into_owned());
    for line in [
        "upstream up: up, upstream ",
        "  up_gate   a task at once, handoff 45s\n",
        "upstream down: cannot be used now: http://127.0.0.1:1/mcp cannot be reached",
    ] {
        assert!(told.contains(line), "{told}");
    }
    warned.has("gateway.toml: upstream `up`: `tools.rename`: it has no tool `no_such`");
    let checked: Value = serde_json::from_str(&done(folder, &["check", "gateway.toml", "--json"])).unwrap();
    let upstreams = checked["upstreams"].as_array().unwrap();
    let states: Vec<&Value> = upstreams.iter().map(|up| &up["state"]).collect();
    assert_eq!(states, ["up", "down"]);
    assert_eq!(checked["upstreams"][0]["tools"][0]["name"], "up_gate");
    checked["warnings"][0]["message"].as_str().unwrap().has("no_such");
    let offline = done(folder, &["check", "gateway.toml", "--offline"]);
    assert!(!offline.contains("upstream up"), "{offline}");
}

/// Without prefixes two upstreams cannot have tools of one name; with them they can, and resources are still those of the first.
#[test]
fn check_tells_of_names_and_uris_that_collide() {
    let folder = folder();
    let folder = folder.path();
    let upstream = serve(folder, &["upstream.toml"]);
    let config = |prefix: bool| {
        let upstreams = ["one", "two"].map(|name| format!("[upstream.{name}]\nurl = {:?}\n", upstream.url));
        let server = format!("prefix = {prefix}\n[server]\nname = \"gateway\"\n");
        fs::write(folder.join("two.toml"), server + &upstreams.concat()).unwrap();
        run(folder, &["check", "two.toml"])
    };
    let told = config(false);
    told.ends(2);
    told.says("two.toml: upstream `two`: its tool `greet` is not offered: upstream `one` has one of the name `greet`");
    let told = config(true);
    told.ends(0).says("is hidden: upstream `one` has one with this URI");
    told.says_no("greet");
}

/// What `wrap` is in front of survives its client: the next one finds the task.
#[test]
fn a_wrapped_server_keeps_the_task_of_a_client_that_has_left() {
    let folder = folder();
    let folder = folder.path();
    let wrapped = ["--", LONGHAUL, "wrap", "--", LONGHAUL, "stdio", "upstream.toml"];
    let with_server = |arguments: &[&'static str]| -> Vec<&str> { arguments.iter().copied().chain(wrapped).collect() };
    assert_eq!(done(folder, &with_server(&["call", "greet"])), "Hello");
    let id = done(folder, &with_server(&["call", "gate", "--detach"]));
    until("the command to start", || starts(folder) == 1);
    fs::write(folder.join("gate"), "").unwrap();
    let mut waiting = vec!["task", &id, "--wait"];
    waiting.extend(wrapped);
    assert_eq!(done(folder, &waiting), "waiting\nthrough");
    assert_eq!(starts(folder), 1);
}

/// A host without tasks is told how to follow a long call before it gives up.
#[test]
fn a_wrapped_server_hands_long_calls_off() {
    let folder = folder();
    let folder = folder.path();
    let wrap = ["wrap", "--handoff", "10ms", "--", LONGHAUL, "stdio", "upstream.toml"];
    let mut host = Host::start(folder, &wrap);
    let tools = host.exchange("tools/list", json!({}))["result"].to_string();
    assert!(tools.contains("\"task_wait\""), "{tools}");
    let handed_off = host.exchange("tools/call", json!({"name": "gate", "arguments": {}}))["result"].to_string();
    assert!(handed_off.contains("task_wait"), "{handed_off}");
    fs::write(folder.join("gate"), "").unwrap();
    host.leave();
}

/// The first start of a server may download it. A host that asks once must not see an empty list.
#[test]
fn a_list_of_tools_waits_for_a_wrapped_server_that_starts_slowly() {
    let folder = folder();
    let folder = folder.path();
    let script =
        format!("while [ -e upstream.toml ] && [ ! -e go ]; do sleep 0.05; done; exec {LONGHAUL} stdio upstream.toml");
    // It is answered while the server has said nothing.
    let mut host = Host::start(folder, &["wrap", "--", "sh", "-c", &script]);
    let sent = host.send("tools/list", json!({}));
    fs::write(folder.join("go"), "").unwrap();
    let listed = host.answer(sent);
    assert!(listed["result"].to_string().contains("\"greet\""), "{listed}");
    host.leave();
}

/// One that never answers keeps nobody waiting who calls a tool of another.
#[test]
fn a_silent_upstream_does_not_delay_the_calls_of_others() {
    let folder = folder();
    let path = folder.path();
    let upstream = serve(path, &["upstream.toml"]);
    gateway_config(path, &upstream.url);
    // Its tools are known from now on.
    drop(serve(path, &["gateway.toml"]));
    let config = fs::read_to_string(path.join("gateway.toml")).unwrap();
    let silent =
        "\n[upstream.silent]\ncommand = [\"sh\", \"-c\", \"while [ -e upstream.toml ]; do sleep 0.05; done\"]\n";
    let socket = path.join("mcp.sock");
    let config = config.replace("127.0.0.1:0", &format!("unix:{}", socket.display()));
    fs::write(path.join("gateway.toml"), [&config, silent].concat()).unwrap();
    let mut gateway = longhaul(path)
        .args(["serve", "gateway.toml", "--json"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut connection = None;
    until("the socket", || {
        connection = UnixStream::connect(&socket).ok();
        connection.is_some()
    });
    let mut connection = connection.unwrap();
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "up_greet", "arguments": {}, "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}}});
    let body = body.to_string();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
         MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: up_greet\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    connection.write_all([head, body].concat().as_bytes()).unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("Hello"), "{answer}");
    // The gateway says that it has started when it does not wait any more.
    let report = gateway.stdout.take().unwrap();
    let is_quiet = {
        let fd = PollFd::new(&report, PollFlags::IN);
        poll(&mut [fd], Some(&Timespec::default())).unwrap() == 0
    };
    assert!(is_quiet, "it was answered after the start");
    gateway.kill().unwrap();
    gateway.wait().unwrap();
}

#[test]
fn a_wrapped_command_that_does_not_exist_is_an_error() {
    let folder = folder();
    let output = run(folder.path(), &["wrap", "--", "no-such-server"]);
    output.ends(2);
    output.says("there is no program `no-such-server` in PATH, so there is nothing to wrap");
    let output = run(folder.path(), &["wrap", "--", "sh -c exit"]);
    output.ends(2);
    output.says(
        "`sh -c exit` in PATH. If the rest are its arguments, give each as a word: `longhaul wrap -- sh -c exit`",
    );
    assert!(!folder.path().join("state").exists(), "a data directory is left");
}

/// A host shows the error of a list, and nothing of an empty one.
#[test]
fn a_wrapped_server_that_ends_at_once_says_so_in_place_of_its_tools() {
    let folder = folder();
    let script = "echo 'the variable API_KEY is missing' >&2; exit 3";
    let mut child = longhaul(folder.path())
        .args(["wrap", "--", "sh", "-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut requests = child.stdin.take().unwrap();
    let client =
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "host", "version": "1"}});
    for (id, method, params) in [
        (1, "initialize", client),
        (2, "tools/list", json!({})),
        (3, "tools/call", json!({"name": "any", "arguments": {}})),
    ] {
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        writeln!(requests, "{request}").unwrap();
    }
    let responses = BufReader::new(child.stdout.take().unwrap()).lines();
    let messages = responses.map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
    let refused: Vec<Value> = messages
        .filter(|message| message["id"] != 1 && message["id"].is_u64())
        .take(2)
        .collect();
    for response in refused {
        let error = response["error"]["message"]
            .as_str()
            .unwrap_or_else(|| panic!("{response}"));
        assert!(error.starts_with("There are no tools: upstream `wrapped`: "), "{error}");
        error.has("exit status: 3").has("API_KEY is missing");
    }
    drop(requests);
    child.wait().unwrap();
}

#[test]
fn wrap_is_in_front_of_a_url() {
    let folder = folder();
    let folder = folder.path();
    let upstream = serve(folder, &["upstream.toml"]);
    let wrapped = json!({"mcpServers": {"w": {"command": LONGHAUL, "args": ["wrap", "--", upstream.url]}}});
    fs::write(folder.join("wrapped.json"), wrapped.to_string()).unwrap();
    let called = run(folder, &["call", "--mcp-config", "wrapped.json", "w", "greet"]);
    assert_eq!(text(&called), "Hello", "{called:?}");
    let more = run(folder, &["wrap", "--", &upstream.url, "--key"]);
    more.ends(2).says("nothing may stand behind the URL");
}

#[test]
fn another_clients_file_is_served_and_its_mistakes_are_named() {
    let folder = folder();
    let folder = folder.path();
    let file = format!(
        r#"{{
            // as VS Code writes it
            "servers": {{
                "one": {{"command": "{LONGHAUL}", "args": ["stdio", "upstream.toml"], "cwd": "{path}"}},
                "two": {{"command": "{LONGHAUL}", "args": ["stdio", "upstream.toml", "--data-dir", "second"], "cwd": "{path}"}},
                "three": {{
                    "serverUrl": "https://example.com/mcp",
                    "headers": {{"Authorization": "Bearer ${{NO_SUCH_VARIABLE}}"}},
                }},
            }},
        }}"#,
        path = folder.display()
    );
    fs::write(folder.join("mcp.json"), file).unwrap();
    let gateway = serve_with_log(folder, &["--mcp-config", "mcp.json", "--listen", "127.0.0.1:0"]);
    let log = fs::read_to_string(folder.join("log")).unwrap();
    let left_out = "mcp.json:8: the server `three` is left out: its `headers.Authorization`: the variable NO_SUCH_VARIABLE is not set";
    assert!(log.contains(left_out), "{log}");
    let tools = done(folder, &["tools", &gateway.url, "--json"]);
    for name in ["one_greet", "one_gate", "two_greet", "two_gate"] {
        assert!(tools.contains(&format!("\"{name}\"")), "{tools}");
    }
    assert_eq!(done(folder, &["call", &gateway.url, "two_greet"]), "Hello");

    fs::write(folder.join("wrong.json"), r#"{"mcpServers": {"a": {"url": 1}}}"#).unwrap();
    let refused = run(folder, &["serve", "--mcp-config", "wrong.json"]);
    let said = String::from_utf8_lossy(&refused.ends(2).stderr);
    let expected = "wrong.json:1: the server `a`: its `url` must be a string";
    assert_eq!(said.trim_end(), expected);
}
