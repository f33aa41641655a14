//! A TCP proxy between HTTP clients and a server that checks the messages it forwards.

use crate::{MessageChecker, SchemaViolation};
use httparse::{EMPTY_HEADER, Header, Status, parse_chunk_size};
use serde_json::Value;
use std::{
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, Builder, JoinHandle},
};

const MAX_HEADERS: usize = 64;

/// A proxy to a server on this machine, for clients that are other processes. It checks a connection when it is closed.
///
/// # Panics
/// When dropped, if the server has sent a message that violates its schema.
pub struct CheckingProxy {
    address: SocketAddr,
    is_over: Arc<AtomicBool>,
    accepting: Option<JoinHandle<Vec<JoinHandle<Said>>>>,
}

/// All that went over a connection.
#[derive(Default)]
struct Said {
    by_client: Vec<u8>,
    by_server: Vec<u8>,
}

impl CheckingProxy {
    /// A relay on a free port to the server at this address, which need not be there yet, or always: who connects while it is not is
    /// hung up on.
    ///
    /// # Errors
    /// If there is no port.
    pub fn before(server: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let accepting = spawn(move || {
            let mut connections = Vec::new();
            for client in listener.incoming().map_while(Result::ok) {
                if over.load(Ordering::Acquire) {
                    break;
                }
                connections.extend(spawn(move || relay(client, server)));
            }
            connections
        })?;
        Ok(Self {
            address,
            is_over,
            accepting: Some(accepting),
        })
    }

    /// Where the server seems to be.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    fn connections(&mut self) -> Vec<JoinHandle<Said>> {
        self.is_over.store(true, Ordering::Release);
        // Wakes it.
        let _ = TcpStream::connect(self.address);
        let accepting = self.accepting.take().and_then(|accepting| accepting.join().ok());
        accepting.unwrap_or_default()
    }
}

/// Waits for connections to be over: its clients and its server must have ended.
impl Drop for CheckingProxy {
    fn drop(&mut self) {
        let connections = self.connections();
        if thread::panicking() {
            return;
        }
        for connection in connections {
            let said = connection.join().unwrap_or_default();
            if let Err(fault) = said.judge() {
                panic!("the server has said what the schemas do not allow: {fault}");
            }
        }
    }
}

fn spawn<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<JoinHandle<T>> {
    Builder::new().name("tap".to_owned()).spawn(work)
}

fn relay(client: TcpStream, server: SocketAddr) -> Said {
    let connect = || {
        let server = TcpStream::connect(server)?;
        Ok::<_, io::Error>((client.try_clone()?, server.try_clone()?, server))
    };
    let Ok((from_client, to_server, server)) = connect() else {
        return Said::default();
    };
    let asking = spawn(move || pass(from_client, to_server));
    let by_server = pass(server, client);
    let by_client = asking.ok().and_then(|asking| asking.join().ok()).unwrap_or_default();
    Said { by_client, by_server }
}

/// Whoever of the two leaves has left both ways: nobody who speaks HTTP goes on listening after the last word. Who takes no more may
/// still have something to say.
fn pass(mut from: TcpStream, mut to: TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    let mut chunk = [0; 16 * 1024];
    while let Ok(length @ 1..) = from.read(&mut chunk) {
        all.extend_from_slice(&chunk[..length]);
        let _ = to.write_all(&chunk[..length]);
    }
    let _ = to.shutdown(Shutdown::Both);
    all
}

impl Said {
    /// Each answer against its request. Either side may have been cut off anywhere.
    fn judge(&self) -> Result<(), SchemaViolation> {
        let (mut asked, mut answered) = (&self.by_client[..], &self.by_server[..]);
        while let (Some(request), Some(response)) = (request(&mut asked), response(&mut answered)) {
            let mut checker = MessageChecker::default();
            checker.sent_bytes(&request);
            for message in response {
                checker.heard(&message)?;
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

/// What is no JSON is no message, and a checker says so.
fn message(text: &str) -> Value {
    crate::read(text).unwrap_or_else(|_| text.into())
}

/// The messages of a stream, but for one that breaks off.
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

/// Takes a body; as much of it as there is, and whether that is all.
fn body(headers: &[Header<'_>], bytes: &mut &[u8]) -> (Vec<u8>, bool) {
    if value(headers, "transfer-encoding").is_some() {
        return chunks(bytes);
    }
    let length = value(headers, "content-length").and_then(|length| std::str::from_utf8(length).ok()?.parse().ok());
    let wanted = length.unwrap_or(0);
    let (body, rest) = bytes.split_at(wanted.min(bytes.len()));
    *bytes = rest;
    (body.to_vec(), body.len() == wanted)
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

    /// Sends each answer to a ping, over one connection, and hangs up.
    fn said(answers: &[String]) -> Said {
        let asked = with_length("POST /mcp HTTP/1.1", PING).repeat(answers.len());
        Said {
            by_client: asked.into_bytes(),
            by_server: answers.concat().into_bytes(),
        }
    }

    #[test]
    fn every_answer_on_a_connection_is_heard_and_what_breaks_off_is_not() {
        let good = with_length("HTTP/1.1 200 OK", PONG);
        let data = format!("id: 1\ndata: {PONG}\n\n");
        let streamed = stream(&[": hello\n\n", &data[..9], &data[9..]]);
        said(&[good.clone(), streamed.clone(), good.clone()]).judge().unwrap();
        let empty = "HTTP/1.1 202 Accepted\r\n\r\n".to_owned();
        let bad = PONG.replace("{}", r#"{"resultType":"complete"}"#);
        for broken in [
            with_length("HTTP/1.1 200 OK", &bad),
            with_length("HTTP/1.1 200 OK", "no JSON"),
            stream(&[&format!("data: {bad}\n\n")]),
        ] {
            let fault = said(&[good.clone(), streamed.clone(), empty.clone(), broken.clone()]).judge();
            fault.unwrap_err();
            let mut cut = said(&[good.clone(), broken]);
            cut.by_server.truncate(cut.by_server.len() - 12);
            cut.judge().unwrap();
        }
    }

    #[test]
    fn what_is_said_passes_through() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let tap = CheckingProxy::before(server.local_addr().unwrap()).unwrap();
        let mut client = TcpStream::connect(tap.address()).unwrap();
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
        let mut heard = String::new();
        client.read_to_string(&mut heard).unwrap();
        assert!(heard.ends_with(r#""result":7}"#), "{heard}");
        let dropped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(tap)));
        assert!(dropped.is_err(), "a result is an object");
    }
}
