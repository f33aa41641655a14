//! Requests that are not valid HTTP.

use super::{
    attempts::Attempts,
    mutation,
    raw::{self, RawAnswer, modern_call},
    site::{AttackSite, Programs},
};
use harness::rounds::RunError;

pub(super) fn run(programs: &Programs, report: &mut Attempts) -> Result<(), RunError> {
    let mut site = AttackSite::start(programs, "http", "")?;
    for (what, request) in bad_requests() {
        let answer = raw::send_and_close(site.address(), &request)?;
        report.attempt(&what, refused(&answer));
    }
    report.attempt("after bad requests", site.serves_clients());
    let sound = modern_call("say", r#"{"text":"x"}"#, true);
    for piece in [1, 7, 100] {
        let answer = raw::send_in_pieces(site.address(), &sound, piece)?;
        report.check(
            &format!("a request in pieces of {piece} bytes"),
            answer.status() == Some(200),
            || format!("answered {:?}", answer.status()),
        );
    }
    let mut random = fastrand::Rng::with_seed(programs.seed);
    for nth in 0..programs.random {
        // Only the head is mutated; `json` mutates bodies.
        let head = sound
            .windows(4)
            .position(|four| four == b"\r\n\r\n")
            .unwrap_or_default()
            + 4;
        let mut request = mutation::of(&sound[..head], &mut random);
        request.extend_from_slice(&sound[head..]);
        let mut stream_end = request.clone();
        // Ends a head that the mutation has left open.
        stream_end.extend_from_slice(b"\r\n\r\n");
        let answer = raw::send_and_close(site.address(), &stream_end)?;
        report.attempt(&format!("random head {nth}"), not_a_server_failure(&answer));
    }
    report.attempt("after random heads", site.serves_clients());
    Ok(())
}

/// A refusal: a status of 400 to 499 or 501 or 505, or a closed connection.
fn refused(answer: &RawAnswer) -> Result<(), String> {
    match answer.status() {
        Some(400..=499 | 501 | 503 | 505) => not_a_server_failure(answer),
        None if answer.closed => Ok(()),
        status => Err(format!("answered {status:?}: {}", excerpt(answer))),
    }
}

/// Anything but an internal failure of the server.
pub(super) fn not_a_server_failure(answer: &RawAnswer) -> Result<(), String> {
    match answer.status() {
        Some(500 | 502 | 504) => Err(format!("the server failed: {}", excerpt(answer))),
        _ if answer.bytes.len() > 256 * 1024 => Err(format!("an answer of {} bytes", answer.bytes.len())),
        None if !answer.closed => Err("no answer, and the connection stays open".to_owned()),
        _ => Ok(()),
    }
}

pub(super) fn excerpt(answer: &RawAnswer) -> String {
    answer.body_text().chars().take(300).collect()
}

/// A request with this head behind its first line, and this body.
fn request(head: &str, body: &str) -> String {
    format!("POST /mcp HTTP/1.1\r\n{head}\r\n{body}")
}

/// As [`request`], with the headers that every client sends.
fn from_client(headers: &str, body: &str) -> String {
    let accepted = "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n";
    request(&format!("Host: 127.0.0.1\r\n{accepted}{headers}"), body)
}

/// A request of this content type, whose connection is closed behind it.
fn of_type(content_type: &str, body: &str) -> String {
    let length = body.len();
    let head = format!("Host: 127.0.0.1\r\n{content_type}Connection: close\r\nContent-Length: {length}\r\n");
    request(&head, body)
}

/// A request with one header more, or something like it.
fn odd(header: &str) -> String {
    request(&format!("Host: 127.0.0.1\r\n{header}\r\n"), "")
}

fn bad_requests() -> Vec<(String, Vec<u8>)> {
    let foreign = |headers: &str| from_client(&format!("{headers}Content-Length: 2\r\n"), "{}");
    let without_host = foreign("").replace("Host: 127.0.0.1\r\n", "");
    let foreign_host = foreign("").replace("Host: 127.0.0.1", "Host: evil.example");
    let chunked = |chunks: &str| from_client("Transfer-Encoding: chunked\r\n", chunks);
    let mut requests: Vec<(String, String)> = [
        ("no HTTP", "hello\r\n\r\n".to_owned()),
        ("HTTP/0.9", "GET /mcp\r\n\r\n".to_owned()),
        ("HTTP/3.0", "POST /mcp HTTP/3.0\r\nHost: 127.0.0.1\r\n\r\n".to_owned()),
        ("the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned()),
        ("no Host", without_host),
        ("a foreign Host", foreign_host),
        ("a foreign Origin", foreign("Origin: https://evil.example\r\n")),
        (
            "an Origin that begins as ours",
            foreign("Origin: http://127.0.0.1.evil.example\r\n"),
        ),
        (
            "two lengths",
            from_client("Content-Length: 2\r\nContent-Length: 3\r\n", "{}"),
        ),
        (
            "a length and chunks",
            from_client(
                "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
                "2\r\n{}\r\n0\r\n\r\n",
            ),
        ),
        ("a negative length", from_client("Content-Length: -1\r\n", "")),
        (
            "a length beyond 64 bits",
            from_client("Content-Length: 99999999999999999999\r\n", ""),
        ),
        (
            "a length of 8 EiB",
            from_client("Content-Length: 9223372036854775807\r\n", ""),
        ),
        ("a chunk of 16 EiB", chunked("ffffffffffffffff\r\n{}")),
        ("a chunk whose size is no number", chunked("xyz\r\n{}\r\n")),
        ("a header without a colon", odd("nonsense")),
        ("a header with NUL", odd("X: a\0b")),
        ("a folded header", odd("X: a\r\n b")),
        ("a header of 1 MiB", odd(&format!("X: {}", "x".repeat(1 << 20)))),
        (
            "10,000 headers",
            request(&format!("Host: 127.0.0.1\r\n{}", "X: y\r\n".repeat(10_000)), ""),
        ),
        (
            "a target of 1 MiB",
            request("Host: 127.0.0.1\r\n", "").replace("/mcp", &format!("/{}", "x".repeat(1 << 20))),
        ),
        ("no content type", of_type("", "{}")),
        ("a foreign content type", of_type("Content-Type: text/plain\r\n", "{}")),
        (
            "a form",
            of_type("Content-Type: application/x-www-form-urlencoded\r\n", "a=b"),
        ),
    ]
    .map(|(what, request)| (what.to_owned(), request))
    .into();
    for method in ["PUT", "PATCH", "TRACE", "CONNECT", "HEAD", "get", "POST\tx", ""] {
        let head = "Host: 127.0.0.1\r\nConnection: close\r\nContent-Length: 0\r\n";
        let request = request(head, "").replacen("POST", method, 1);
        requests.push((format!("method {method:?}"), request));
    }
    for target in [
        "/mcp/../mcp2",
        "//mcp",
        "/%6dcp%00",
        "/mcp%2f..",
        "*",
        "/mcp/x",
        "/MCP",
        "/lock",
        "/attempts",
    ] {
        let request = from_client("Connection: close\r\nContent-Length: 2\r\n", "{}").replacen("/mcp", target, 1);
        requests.push((format!("target {target:?}"), request));
    }
    let bytes = requests.into_iter().map(|(what, request)| (what, request.into_bytes()));
    bytes.collect()
}
