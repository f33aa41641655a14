//! Large bodies, slow bodies, and answers that are not read.

use super::{
    attempts::Attempts,
    raw,
    site::{AttackSite, Programs, end_of},
};
use harness::{
    clock,
    mcp::{CallOutcome, ClientEra},
    rounds::RunError,
    side_by_side,
};
use serde_json::json;
use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

/// How much memory the server may use in addition: its limit for bodies, and what requests need besides their bodies.
const MAX_GROWTH: u64 = 256 * 1024 * 1024;
const LARGE: usize = 4_000_000;

pub(super) fn run(programs: &Programs, report: &mut Attempts) -> Result<(), RunError> {
    let mut site = AttackSite::start(programs, "bodies", "")?;
    report.attempt("before", site.serves_clients());
    let before = site.resident();
    let address = site.address();
    // Whole bodies, 60 at once.
    let call = raw::modern_call("say", &format!("{{\"text\":\"{}\"}}", "x".repeat(LARGE)), false);
    let answers = side_by_side::map(vec![(); 60], 60, |()| raw::send(address, &call));
    for (nth, answer) in answers.into_iter().enumerate() {
        let answer = answer?;
        report.check(
            &format!("body {nth} of 4 MB"),
            matches!(answer.status(), Some(200 | 400..=499 | 503)),
            || format!("answered {:?}", answer.status()),
        );
    }
    let peak = site.resident();
    report.check("memory after 60 bodies of 4 MB", peak < before + MAX_GROWTH, || {
        format!("{} MB, {} before", peak >> 20, before >> 20)
    });
    // Bodies that have a length and are never sent completely.
    let head = "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n";
    let mut slow = Vec::new();
    for nth in 0..200 {
        let mut stream = TcpStream::connect(address)?;
        let framing = if nth % 2 == 0 {
            format!("Content-Length: {LARGE}\r\n\r\n")
        } else {
            "Transfer-Encoding: chunked\r\n\r\nf4240\r\n".to_owned()
        };
        stream.write_all(format!("{head}{framing}{{\"jsonrpc\":").as_bytes())?;
        slow.push(stream);
    }
    report.attempt("with 200 incomplete bodies", site.serves_clients());
    let request = raw::modern_call("say", &format!("{{\"text\":\"{}\"}}", "x".repeat(100_000)), true);
    let answer = raw::send(address, &request)?;
    report.check("a body of 100 KB beside them", answer.status() == Some(200), || {
        format!("answered {:?}", answer.status())
    });
    drop(slow);
    unread_answers(&mut site, report)?;
    report.attempt("after bodies", site.serves_clients());
    Ok(())
}

/// Answers of 4 MB that are not read.
fn unread_answers(site: &mut AttackSite, report: &mut Attempts) -> Result<(), RunError> {
    let mut client = site.client(ClientEra::Modern);
    let task = client.create("letters", json!({"bytes": LARGE}))?;
    let end = end_of(&mut client, &task)?;
    report.check(
        "a result of 4 MB",
        matches!(&end, CallOutcome::Result { is_error: false, text } if text.len() == LARGE),
        || "is not whole".to_owned(),
    );
    let before = site.resident();
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{{"taskId":"{task}","_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{{"name":"attack","version":"0"}},"io.modelcontextprotocol/clientCapabilities":{{"extensions":{{"io.modelcontextprotocol/tasks":{{}}}}}}}}}}}}"#
    );
    let request = raw::post(&raw::modern("tasks/get", Some(&task)), body.as_bytes());
    let mut open = Vec::new();
    for _ in 0..200 {
        let mut stream = TcpStream::connect(site.address())?;
        stream.write_all(&request)?;
        open.push(stream);
    }
    report.attempt("with 200 unread answers of 4 MB", site.serves_clients());
    let held = site.resident();
    report.check("memory beside them", held < before + MAX_GROWTH, || {
        format!("{} MB, {} before", held >> 20, before >> 20)
    });
    // A late reader gets the whole answer, or was refused.
    let mut first = Vec::new();
    let stream = open.first_mut();
    if let Some(stream) = stream {
        stream.set_read_timeout(Some(Duration::from_secs(20)))?;
        // The connection may be closed meanwhile; what was sent can still be read.
        let _ = stream.read_to_end(&mut first);
    }
    report.check("an answer that is read late", !first.is_empty(), || {
        "nothing came".to_owned()
    });
    drop(open);
    let freed = clock::wait_for(Duration::from_secs(30), || {
        let resident = site.resident();
        (resident < before + MAX_GROWTH / 2).then_some(())
    });
    report.check("memory after them", freed.is_some(), || {
        format!("{} MB stay, {} before", site.resident() >> 20, before >> 20)
    });
    Ok(())
}
