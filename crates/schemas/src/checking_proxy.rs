//! A TCP proxy between HTTP clients and a server that checks the messages it forwards.

use crate::{MessageChecker, SchemaViolation};
use httparse::{EMPTY_HEADER, Header, Status, parse_chunk_size};
use serde_json::Value;
use std::{
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    thread::{self, Builder, JoinHandle},
};
use tokio_util::sync::CancellationToken;

const MAX_HEADERS: usize = 64;

/// A proxy to a server on this machine, for clients that are other processes. It checks a connection when it is closed.
///
/// # Panics
/// When dropped, if the server has sent a message that violates its schema.
pub struct CheckingProxy {
    address: SocketAddr,
    closing: CancellationToken,
    accepting: Option<JoinHandle<Vec<JoinHandle<ExchangedBytes>>>>,
}

/// All bytes that were sent over a connection.
#[derive(Default)]
struct ExchangedBytes {
    by_client: Vec<u8>,
    by_server: Vec<u8>,
}

impl CheckingProxy {
    /// Starts a proxy on a free port. The server at this address need not run yet, or always: meanwhile connections are closed.
    ///
    /// # Errors
    /// If no port is free.
    pub fn before(server: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let closing = CancellationToken::new();
        let closed = closing.clone();
        let accepting = spawn(move || {
            let mut connections = Vec::new();
            for client in listener.incoming().map_while(Result::ok) {
                if closed.is_cancelled() {
                    break;
                }
                connections.extend(spawn(move || relay(client, server)));
            }
            connections
        })?;
        Ok(Self {
            address,
            closing,
            accepting: Some(accepting),
        })
    }

    /// The address that clients connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    fn connections(&mut self) -> Vec<JoinHandle<ExchangedBytes>> {
        self.closing.cancel();
        // Wakes the accepting thread.
        let _ = TcpStream::connect(self.address);
        let accepting = self.accepting.take().and_then(|accepting| accepting.join().ok());
        accepting.unwrap_or_default()
    }
}

/// Waits until all connections are closed, so clients and server must have ended.
impl Drop for CheckingProxy {
    fn drop(&mut self) {
        let connections = self.connections();
        if thread::panicking() {
            return;
        }
        for connection in connections {
            let exchanged = connection.join().unwrap_or_default();
            if let Err(violation) = exchanged.check() {
                panic!("the server has sent a message that violates its schema: {violation}");
            }
        }
    }
}

fn spawn<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<JoinHandle<T>> {
    Builder::new().name("checking proxy".to_owned()).spawn(work)
}

fn relay(client: TcpStream, address: SocketAddr) -> ExchangedBytes {
    let connect = || {
        let server = TcpStream::connect(address)?;
        Ok::<_, io::Error>((client.local_addr()?, client.try_clone()?, server.try_clone()?, server))
    };
    let Ok((proxy, from_client, to_server, server)) = connect() else {
        return ExchangedBytes::default();
    };
    let requests = spawn(move || copy(from_client, to_server, Some((proxy, address))));
    let by_server = copy(server, client, None);
    let by_client = requests
        .ok()
        .and_then(|requests| requests.join().ok())
        .unwrap_or_default();
    ExchangedBytes { by_client, by_server }
}

/// Copies one direction until its sender closes it, and then closes both directions: in HTTP nobody reads on after that. A receiver that
/// takes no more may still send, so a failed write is ignored. Of `addresses`, the first one becomes the second one in all requests: a server that knows
/// its clients by their users takes nothing of them that was sent to the port of somebody else.
fn copy(mut from: TcpStream, mut to: TcpStream, addresses: Option<(SocketAddr, SocketAddr)>) -> Vec<u8> {
    let mut all = Vec::new();
    let mut chunk = [0; 16 * 1024];
    while let Ok(length @ 1..) = from.read(&mut chunk) {
        if let Some((proxy, server)) = addresses {
            replace_host(&mut chunk[..length], proxy, server);
        }
        all.extend_from_slice(&chunk[..length]);
        let _ = to.write_all(&chunk[..length]);
    }
    let _ = to.shutdown(Shutdown::Both);
    all
}

/// Replaces the `Host` of a request, if that is in one piece and as long as the new one; so are nearly all free ports.
fn replace_host(bytes: &mut [u8], proxy: SocketAddr, server: SocketAddr) {
    let (from, to) = (format!(": {proxy}\r\n"), format!(": {server}\r\n"));
    if from.len() != to.len() {
        return;
    }
    let place = bytes.windows(from.len()).position(|window| window == from.as_bytes());
    if let Some(place) = place {
        bytes[place..place + to.len()].copy_from_slice(to.as_bytes());
    }
}

impl ExchangedBytes {
    /// Checks each response with its request. The bytes of either side may end anywhere.
    fn check(&self) -> Result<(), SchemaViolation> {
        let (mut requests, mut responses) = (&self.by_client[..], &self.by_server[..]);
        while let (Some(request), Some(response)) = (request(&mut requests), response(&mut responses)) {
            let mut checker = MessageChecker::default();
            checker.sent_bytes(&request);
            for message in response {
                checker.received(&message)?;
            }
        }
        Ok(())
    }
}

/// The body of the next request.
fn request(bytes: &mut &[u8]) -> Option<Vec<u8>> {
    let mut headers = [EMPTY_HEADER; MAX_HEADERS];
    let mut head = httparse::Request::new(&mut headers);
    let Ok(Status::Complete(length)) = head.parse(bytes) else {
        return None;
    };
    *bytes = &bytes[length..];
    let (body, is_whole) = body(head.headers, bytes);
    is_whole.then_some(body)
}

/// The messages of the next response.
fn response(bytes: &mut &[u8]) -> Option<Vec<Value>> {
    let mut headers = [EMPTY_HEADER; MAX_HEADERS];
    let mut head = httparse::Response::new(&mut headers);
    let Ok(Status::Complete(length)) = head.parse(bytes) else {
        return None;
    };
    *bytes = &bytes[length..];
    let (body, is_whole) = body(head.headers, bytes);
    let text = String::from_utf8_lossy(&body);
    Some(match value(head.headers, "content-type") {
        Some(b"text/event-stream") => events(&text),
        Some(b"application/json") if is_whole => vec![message(&text)],
        _ => Vec::new(),
    })
}

/// Reads a message. Text that is not JSON becomes a string, which the checker refuses.
fn message(text: &str) -> Value {
    crate::read(text).unwrap_or_else(|_| text.into())
}

/// The messages of a stream, without an incomplete last one.
fn events(text: &str) -> Vec<Value> {
    let whole = text.rsplit_once("\n\n").map_or("", |(whole, _)| whole);
    let data = |event: &str| -> String {
        let lines: Vec<&str> = event.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
        lines.join("\n")
    };
    let all = whole.split("\n\n").map(data);
    all.filter(|data| !data.is_empty()).map(|data| message(&data)).collect()
}

fn value<'a>(headers: &[Header<'a>], name: &str) -> Option<&'a [u8]> {
    let found = headers.iter().find(|header| header.name.eq_ignore_ascii_case(name));
    found.map(|header| header.value)
}

/// Takes a body; returns as much of it as there is, and whether it is complete.
fn body(headers: &[Header<'_>], bytes: &mut &[u8]) -> (Vec<u8>, bool) {
    if value(headers, "transfer-encoding").is_some() {
        return chunks(bytes);
    }
    let length = value(headers, "content-length").and_then(|length| std::str::from_utf8(length).ok()?.parse().ok());
    let expected = length.unwrap_or(0);
    let (body, rest) = bytes.split_at(expected.min(bytes.len()));
    *bytes = rest;
    (body.to_vec(), body.len() == expected)
}

fn chunks(bytes: &mut &[u8]) -> (Vec<u8>, bool) {
    let mut body = Vec::new();
    while let Ok(Status::Complete((head, length))) = parse_chunk_size(bytes) {
        let from = &bytes[head..];
        let Some(chunk) = usize::try_from(length).ok().and_then(|length| from.get(..length + 2)) else {
            break;
        };
        *bytes = &from[chunk.len()..];
        if length == 0 {
            return (body, true);
        }
        body.extend_from_slice(&chunk[..chunk.len() - 2]);
    }
    *bytes = &[];
    (body, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    const PONG: &str = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;

    fn with_length(start: &str, body: &str) -> String {
        let kind = "Content-Type: application/json";
        format!("{start}\r\n{kind}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
    }

    fn stream(events: &[&str]) -> String {
        let chunks: String = events
            .iter()
            .map(|event| format!("{:x}\r\n{event}\r\n", event.len()))
            .collect();
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
        format!("{head}{chunks}0\r\n\r\n")
    }

    /// A connection with a ping for each of these responses.
    fn exchanged(responses: &[String]) -> ExchangedBytes {
        let requests = with_length("POST /mcp HTTP/1.1", PING).repeat(responses.len());
        ExchangedBytes {
            by_client: requests.into_bytes(),
            by_server: responses.concat().into_bytes(),
        }
    }

    #[test]
    fn every_complete_response_on_a_connection_is_checked() {
        let good = with_length("HTTP/1.1 200 OK", PONG);
        let data = format!("id: 1\ndata: {PONG}\n\n");
        let streamed = stream(&[": hello\n\n", &data[..9], &data[9..]]);
        exchanged(&[good.clone(), streamed.clone(), good.clone()])
            .check()
            .unwrap();
        let empty = "HTTP/1.1 202 Accepted\r\n\r\n".to_owned();
        let bad = PONG.replace("{}", r#"{"resultType":"complete"}"#);
        for broken in [
            with_length("HTTP/1.1 200 OK", &bad),
            with_length("HTTP/1.1 200 OK", "no JSON"),
            stream(&[&format!("data: {bad}\n\n")]),
        ] {
            let checked = exchanged(&[good.clone(), streamed.clone(), empty.clone(), broken.clone()]).check();
            checked.unwrap_err();
            let mut cut = exchanged(&[good.clone(), broken]);
            cut.by_server.truncate(cut.by_server.len() - 12);
            cut.check().unwrap();
        }
    }

    #[test]
    fn messages_are_forwarded_and_a_violation_panics() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy = CheckingProxy::before(server.local_addr().unwrap()).unwrap();
        let mut client = TcpStream::connect(proxy.address()).unwrap();
        client
            .write_all(with_length("POST /mcp HTTP/1.1", PING).as_bytes())
            .unwrap();
        let (mut connection, _) = server.accept().unwrap();
        let mut chunk = [0; 1024];
        let mut seen = Vec::new();
        while !seen.ends_with(PING.as_bytes()) {
            let length = connection.read(&mut chunk).unwrap();
            seen.extend_from_slice(&chunk[..length]);
        }
        connection
            .write_all(with_length("HTTP/1.1 200 OK", &PONG.replace("{}", "7")).as_bytes())
            .unwrap();
        drop(connection);
        let mut received = String::new();
        client.read_to_string(&mut received).unwrap();
        assert!(received.ends_with(r#""result":7}"#), "{received}");
        let dropped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(proxy)));
        assert!(dropped.is_err(), "a result is an object");
    }
}
