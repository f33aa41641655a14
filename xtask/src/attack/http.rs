//! Requests that are not valid HTTP.

use super::{
    AttackError, mutation,
    raw::{self, RawAnswer, modern_call},
    report::Report,
    site::{Programs, Site},
};

pub(super) fn run(programs: &Programs, report: &mut Report) -> Result<(), AttackError> {
    let mut site = Site::start(programs, "http", "")?;
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

fn bad_requests() -> Vec<(String, Vec<u8>)> {
    let head = "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n";
    let text = |what: &str, request: String| (what.to_owned(), request.into_bytes());
    let mut requests = vec![
        text("no HTTP", "hello\r\n\r\n".to_owned()),
        text("HTTP/0.9", "GET /mcp\r\n\r\n".to_owned()),
        text("HTTP/3.0", "POST /mcp HTTP/3.0\r\nHost: 127.0.0.1\r\n\r\n".to_owned()),
        text("the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned()),
        text(
            "no Host",
            format!("POST /mcp HTTP/1.1\r\n{head}Content-Length: 2\r\n\r\n{{}}"),
        ),
        text(
            "a foreign Host",
            format!("POST /mcp HTTP/1.1\r\nHost: evil.example\r\n{head}Content-Length: 2\r\n\r\n{{}}"),
        ),
        text(
            "a foreign Origin",
            format!(
                "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: https://evil.example\r\n{head}Content-Length: 2\r\n\r\n{{}}"
            ),
        ),
        text(
            "an Origin that begins as ours",
            format!(
                "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: http://127.0.0.1.evil.example\r\n{head}Content-Length: 2\r\n\r\n{{}}"
            ),
        ),
        text(
            "two lengths",
            format!(
                "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n{head}Content-Length: 2\r\nContent-Length: 3\r\n\r\n{{}}"
            ),
        ),
        text(
            "a length and chunks",
            format!(
                "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n{head}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{{}}\r\n0\r\n\r\n"
            ),
        ),
        text(
            "a negative length",
            format!("POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n{head}Content-Length: -1\r\n\r\n"),
        ),
        text(
            "a length beyond 64 bits",
            format!("POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n{head}Content-Length: 99999999999999999999\r\n\r\n"),
        ),
        text(
            "a length of 8 EiB",
            format!("POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n{head}Content-Length: 9223372036854775807\r\n\r\n"),
        ),
        text(
            "a chunk of 16 EiB",
            format!(
                "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n{head}Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n{{}}"
            ),
        ),
        text(
            "a chunk whose size is no number",
            format!("POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n{head}Transfer-Encoding: chunked\r\n\r\nxyz\r\n{{}}\r\n"),
        ),
        text(
            "a header without a colon",
            "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nnonsense\r\n\r\n".to_owned(),
        ),
        text(
            "a header with NUL",
            "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nX: a\0b\r\n\r\n".to_owned(),
        ),
        text(
            "a folded header",
            "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nX: a\r\n b\r\n\r\n".to_owned(),
        ),
        text(
            "a header of 1 MiB",
            format!(
                "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nX: {}\r\n\r\n",
                "x".repeat(1 << 20)
            ),
        ),
        text(
            "10,000 headers",
            format!(
                "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n{}\r\n",
                "X: y\r\n".repeat(10_000)
            ),
        ),
        text(
            "a target of 1 MiB",
            format!("POST /{} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", "x".repeat(1 << 20)),
        ),
        text("no content type", raw_body("", "{}")),
        text("a foreign content type", raw_body("Content-Type: text/plain\r\n", "{}")),
        text(
            "a form",
            raw_body("Content-Type: application/x-www-form-urlencoded\r\n", "a=b"),
        ),
    ];
    for method in ["PUT", "PATCH", "TRACE", "CONNECT", "HEAD", "get", "POST\tx", ""] {
        requests.push(text(
            &format!("method {method:?}"),
            format!("{method} /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"),
        ));
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
        requests.push(text(
            &format!("target {target:?}"),
            format!(
                "POST {target} HTTP/1.1\r\nHost: 127.0.0.1\r\n{head}Connection: close\r\nContent-Length: 2\r\n\r\n{{}}"
            ),
        ));
    }
    requests
}

fn raw_body(headers: &str, body: &str) -> String {
    format!(
        "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n{headers}Connection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}
