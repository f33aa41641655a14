//! Bodies that are not valid JSON or JSON-RPC, and hostile ones that are.

use super::{
    attempts::Attempts,
    http::{excerpt, not_a_server_failure},
    mutation,
    raw::{self, RawAnswer, post},
    site::{AttackSite, Programs},
};
use harness::rounds::RunError;
use serde_json::Value;

/// The length of an error must not grow with the request.
const MAX_ERROR: usize = 16 * 1024;

pub(super) fn run(programs: &Programs, report: &mut Attempts) -> Result<(), RunError> {
    let mut site = AttackSite::start(programs, "json", "")?;
    for (what, body) in bad_bodies() {
        for (era, headers) in [
            ("modern", raw::modern("tasks/get", Some("x"))),
            ("legacy", "MCP-Protocol-Version: 2025-11-25\r\n".to_owned()),
        ] {
            let answer = raw::send(site.address(), &post(&headers, &body))?;
            report.attempt(&format!("{what}, {era}"), refused(&answer));
        }
    }
    report.attempt("after bad bodies", site.serves_clients());
    let sound = raw::modern_call("say", r#"{"text":"x"}"#, true);
    let head = sound
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .unwrap_or_default()
        + 4;
    let mut random = fastrand::Rng::with_seed(programs.seed);
    for nth in 0..programs.random {
        let body = mutation::of(&sound[head..], &mut random);
        let answer = raw::send(site.address(), &post(&raw::modern("tools/call", Some("say")), &body))?;
        report.attempt(
            &format!("random body {nth}"),
            not_a_server_failure(&answer).and_then(|()| short_error(&answer)),
        );
    }
    report.attempt("after random bodies", site.serves_clients());
    Ok(())
}

/// An error and no result, of a bounded length.
pub(super) fn refused(answer: &RawAnswer) -> Result<(), String> {
    not_a_server_failure(answer)?;
    short_error(answer)?;
    let message: Value = serde_json::from_slice(answer.body()).unwrap_or_default();
    match answer.status() {
        Some(400..=499) => Ok(()),
        Some(200) if message["error"].is_object() => Ok(()),
        status => Err(format!("answered {status:?}: {}", excerpt(answer))),
    }
}

fn short_error(answer: &RawAnswer) -> Result<(), String> {
    let is_error = answer.status() != Some(200) || answer.body().windows(8).any(|bytes| bytes == b"\"error\":");
    if is_error && answer.body().len() > MAX_ERROR {
        return Err(format!("an error of {} bytes", answer.body().len()));
    }
    Ok(())
}

fn bad_bodies() -> Vec<(String, Vec<u8>)> {
    let deep = |open: &str, close: &str| format!("{}{}", open.repeat(100_000), close.repeat(100_000));
    let message = |id: &str, method: &str, params: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":{method},"params":{params}}}"#)
    };
    let get = |params: &str| message("1", "\"tasks/get\"", params);
    let get_as = |id: &str| message(id, "\"tasks/get\"", "{\"taskId\":\"x\"}");
    let ping = message("1", "\"ping\"", "{}");
    let large = "x".repeat(1 << 20);
    let deep_params = format!("{{\"a\":{}1{}}}", "{\"a\":".repeat(100_000), "}".repeat(100_000));
    let mut bodies: Vec<(String, Vec<u8>)> = [
        ("nothing", String::new()),
        ("white space", " \r\n\t".to_owned()),
        ("a number", "1".to_owned()),
        ("null", "null".to_owned()),
        ("a text", "\"tools/call\"".to_owned()),
        ("an empty array", "[]".to_owned()),
        ("an empty object", "{}".to_owned()),
        ("100,000 open arrays", "[".repeat(100_000)),
        ("100,000 arrays", deep("[", "]")),
        ("100,000 objects", deep("{\"a\":", "}")),
        ("100,000 objects in params", get(&deep_params)),
        ("trailing text", format!("{ping} x")),
        ("two messages", ping.repeat(2)),
        (
            "a byte order mark",
            format!("\u{feff}{}", message("1", "\"nothing\"", "{}")),
        ),
        ("NaN", get("{\"taskId\":NaN}")),
        ("a comment", format!("/* */{}", message("1", "\"nothing\"", "{}"))),
        ("single quotes", "{'jsonrpc':'2.0','id':1,'method':'ping'}".to_owned()),
        ("another version", ping.replace("2.0", "1.0")),
        ("no version", r#"{"id":1,"method":"tools/list"}"#.to_owned()),
        ("id true", get_as("true")),
        ("id array", get_as("[1]")),
        ("id object", get_as("{}")),
        ("method number", message("1", "7", "{}")),
        ("no such method", message("1", "\"tasks/erase\"", "{}")),
        ("a method of 1 MiB", message("1", &format!("\"{large}\""), "{}")),
        ("params array", get("[\"x\"]")),
        ("params text", get("\"x\"")),
        ("a task id of 1 MiB", get(&format!("{{\"taskId\":\"{large}\"}}"))),
        ("a task id with a path", get("{\"taskId\":\"../../lock\"}")),
        ("a task id with NUL", get("{\"taskId\":\"\\u0000\"}")),
        ("a lone surrogate", get("{\"taskId\":\"\\ud800\"}")),
        (
            "an unknown tool of 1 MiB",
            message(
                "1",
                "\"tools/call\"",
                &format!("{{\"name\":\"{large}\",\"arguments\":{{}}}}"),
            ),
        ),
        (
            "a forged cursor",
            message("1", "\"tools/list\"", "{\"cursor\":\"AAAA\"}"),
        ),
    ]
    .map(|(what, body)| (what.to_owned(), body.into_bytes()))
    .into();
    let utf16 = "{\"jsonrpc\":\"2.0\"}"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    let bytes: [(&str, Vec<u8>); 3] = [
        (
            "no UTF-8",
            b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\xfe\"}".to_vec(),
        ),
        (
            "half a character",
            b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xe2\x82\"}".to_vec(),
        ),
        ("UTF-16", utf16),
    ];
    bodies.extend(bytes.map(|(what, body)| (what.to_owned(), body)));
    bodies
}
