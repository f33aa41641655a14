//! A client of an older revision whose server is killed while it waits for a command: it resumes the stream of its request.

use super::support::*;
use serde_json::{Value, json};
use std::{
    fs,
    io::{BufRead, BufReader, Write as _},
    net::{SocketAddr, TcpStream},
};

/// Reports a step, and waits for the file `gate`.
const STEPS: &str = r#"
[[tool]]
name = "steps"
description = "reports a step, and waits"
command = ["sh", "-c", "echo step 1; echo x >> begun; while [ -e jobs.toml ] && [ ! -e gate ]; do sleep 0.02; done; echo through"]
progress = "step (?<current>[0-9]+)"
"#;

/// The lines of a stream or an answer, of which the head is read first.
struct Reply {
    head: Vec<String>,
    lines: Box<dyn Iterator<Item = String>>,
}

impl Reply {
    fn to(address: SocketAddr, request: &str, session: &str, headers: &str, body: &str) -> Self {
        let mut connection = TcpStream::connect(address).unwrap();
        let head = format!(
            "{request} /mcp HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n{session}{headers}\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        connection.write_all(head.as_bytes()).unwrap();
        let mut lines = BufReader::new(connection).lines().map_while(Result::ok);
        let head = lines.by_ref().take_while(|line| !line.is_empty()).collect();
        Self {
            head,
            lines: Box::new(lines),
        }
    }

    fn header(&self, name: &str) -> Option<&str> {
        let headers = self.head.iter().filter_map(|line| line.split_once(": "));
        headers
            .filter(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
            .next()
    }

    /// The next value of this field of an event.
    fn field(&mut self, name: &str) -> String {
        let mut values = self
            .lines
            .by_ref()
            .filter_map(|line| Some(line.strip_prefix(name)?.strip_prefix(": ")?.to_owned()));
        values.next().unwrap_or_else(|| panic!("no {name}: {:?}", self.head))
    }

    /// The response, after what is said of progress.
    fn answer(&mut self) -> Value {
        loop {
            let data = self.field("data");
            if data.is_empty() {
                continue;
            }
            let message: Value = serde_json::from_str(&data).unwrap();
            if message.get("method").is_none() {
                return message;
            }
            assert_eq!(message["params"]["progressToken"], 7, "{message}");
        }
    }
}

/// A call of a client of this revision that has heard of the first step: the answer so far, its session, and the latest event id.
fn begin(served: &Served, version: &str) -> (Reply, String, String) {
    let initialize = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}
    }});
    let begun = Reply::to(served.address, "POST", "", "", &initialize.to_string());
    let session = format!("Mcp-Session-Id: {}\r\n", begun.header("mcp-session-id").unwrap());
    let call = json!({"jsonrpc": "2.0", "id": "c\"1", "method": "tools/call", "params": {
        "name": "steps", "arguments": {}, "_meta": {"progressToken": 7}
    }});
    let mut called = Reply::to(served.address, "POST", &session, "", &call.to_string());
    loop {
        let last = called.field("id");
        let data = called.field("data");
        if !data.is_empty() {
            let progress: Value = serde_json::from_str(&data).unwrap();
            assert_eq!(progress["params"]["progress"], 1, "{progress}");
            return (called, session, last);
        }
    }
}

fn resume(served: &Served, session: &str, last: &str) -> Reply {
    let last = format!("Last-Event-ID: {last}\r\n");
    let reply = Reply::to(served.address, "GET", session, &last, "");
    assert!(reply.head[0].contains(" 200 "), "{:?}", reply.head);
    reply
}

#[test]
fn a_command_goes_on_for_a_client_that_resumes_its_stream_at_the_next_server() {
    for version in ["2025-11-25", "2025-06-18"] {
        let mut served = Served::start_with(STEPS);
        let (_, session, last) = begin(&served, version);
        served.kill();
        served.restart();
        let mut resumed = resume(&served, &session, &last);
        served.open_gate();
        let answer = resumed.answer();
        assert_eq!(answer["id"], "c\"1", "{answer}");
        let text = answer["result"]["content"][0]["text"].as_str().unwrap();
        assert!(text.contains("through"), "{version}: {answer}");
        // It ran once.
        assert_eq!(fs::read_to_string(served.folder.path().join("begun")).unwrap(), "x\n");
    }
}

/// The work may also end while no server runs.
#[test]
fn a_result_is_there_for_a_client_that_resumes_its_stream_later() {
    let mut served = Served::start_with(STEPS);
    let (_, session, last) = begin(&served, "2025-11-25");
    served.kill();
    served.open_gate();
    served.restart();
    let answer = resume(&served, &session, &last).answer();
    let text = answer["result"]["content"][0]["text"].as_str();
    assert!(text.is_some_and(|text| text.contains("through")), "{answer}");
}

/// A server that is asked to stop answers, so nobody comes back: the command is not kept for that.
#[test]
fn a_client_that_was_told_of_the_stop_is_not_waited_for() {
    let mut served =
        Served::start_with(&STEPS.replace("echo step 1;", "trap 'echo > told; exit 1' TERM; echo step 1;"));
    let (mut called, ..) = begin(&served, "2025-11-25");
    served.ask_to_stop();
    assert!(called.answer().get("error").is_some());
    served.child.wait().unwrap();
    served.sees("told");
}
