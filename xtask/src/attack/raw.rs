//! Sends raw bytes to the server's port.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    time::Duration,
};

/// How long to wait for an answer.
const TIMEOUT: Duration = Duration::from_secs(60);
/// How many bytes of an answer are read: a stream may be endless.
const MAX_BYTES: usize = 16 * 1024 * 1024;

/// What the server sent until it closed the connection or the answer was complete.
#[derive(Debug, Default)]
pub(super) struct RawAnswer {
    pub(super) bytes: Vec<u8>,
    /// Whether the server closed or reset the connection.
    pub(super) closed: bool,
}

impl RawAnswer {
    /// The HTTP status of the first response.
    pub(super) fn status(&self) -> Option<u16> {
        let line = self.bytes.strip_prefix(b"HTTP/1.1 ")?;
        std::str::from_utf8(line.get(..3)?).ok()?.parse().ok()
    }

    /// Everything after the headers of the first response.
    pub(super) fn body(&self) -> &[u8] {
        let end = self.bytes.windows(4).position(|four| four == b"\r\n\r\n");
        end.map_or(&[], |end| &self.bytes[end + 4..])
    }

    pub(super) fn body_text(&self) -> String {
        String::from_utf8_lossy(self.body()).into_owned()
    }

    /// Whether the body is as long as its header says.
    fn is_whole(&self) -> bool {
        let Some(end) = self.bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
            return false;
        };
        let head = String::from_utf8_lossy(&self.bytes[..end]).to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
        let body = &self.bytes[end + 4..];
        match length.and_then(|length| length.trim().parse::<usize>().ok()) {
            Some(length) => body.len() >= length,
            None if head.contains("transfer-encoding: chunked") => body.ends_with(b"0\r\n\r\n"),
            None => head.starts_with("http/1.1 202") || head.starts_with("http/1.1 204"),
        }
    }
}

/// Sends bytes on a connection of their own and reads one response.
pub(super) fn send(address: SocketAddr, bytes: &[u8]) -> io::Result<RawAnswer> {
    send_in_pieces(address, bytes, bytes.len().max(1))
}

/// As [`send`], and then closes the sending side.
pub(super) fn send_and_close(address: SocketAddr, bytes: &[u8]) -> io::Result<RawAnswer> {
    exchange(address, bytes, bytes.len().max(1), true)
}

/// As [`send`], with `piece` bytes in each write.
pub(super) fn send_in_pieces(address: SocketAddr, bytes: &[u8], piece: usize) -> io::Result<RawAnswer> {
    exchange(address, bytes, piece, false)
}

fn exchange(address: SocketAddr, bytes: &[u8], piece: usize, close: bool) -> io::Result<RawAnswer> {
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let bytes = with_port(address, bytes);
    for piece in bytes.chunks(piece) {
        // The server may refuse and close before it has read everything.
        if stream.write_all(piece).is_err() {
            break;
        }
    }
    if close {
        // The server may have closed it already.
        let _ = stream.shutdown(Shutdown::Write);
    }
    let mut answer = RawAnswer::default();
    let mut chunk = vec![0; 64 * 1024];
    while !answer.is_whole() && answer.bytes.len() < MAX_BYTES {
        match stream.read(&mut chunk) {
            Ok(0) => answer.closed = true,
            Ok(read) => {
                answer.bytes.extend_from_slice(&chunk[..read]);
                continue;
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
            Err(_) => answer.closed = true,
        }
        break;
    }
    Ok(answer)
}

/// The request with the port of the server in its `Host`, without which it is nobody's who is known.
fn with_port(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    const HOST: &[u8] = b"\r\nHost: 127.0.0.1";
    let Some(at) = bytes.windows(HOST.len()).position(|part| part == HOST) else {
        return bytes.to_vec();
    };
    let (head, rest) = bytes.split_at(at + HOST.len());
    [head, format!(":{}", address.port()).as_bytes(), rest].concat()
}

/// A POST of this body with these additional headers.
pub(super) fn post(headers: &str, body: &[u8]) -> Vec<u8> {
    let mut request = format!(
        "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\n{headers}Content-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    )
    .into_bytes();
    request.extend_from_slice(body);
    request
}

/// The headers of a modern request.
pub(super) fn modern(method: &str, name: Option<&str>) -> String {
    let name = name.map_or_else(String::new, |name| format!("Mcp-Name: {name}\r\n"));
    format!("MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: {method}\r\n{name}")
}

/// A modern `tools/call`; `arguments` is inserted unchanged.
pub(super) fn modern_call(tool: &str, arguments: &str, declares_tasks: bool) -> Vec<u8> {
    let extensions = if declares_tasks {
        r#"{"io.modelcontextprotocol/tasks":{}}"#
    } else {
        "{}"
    };
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{tool}","arguments":{arguments},"_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{{"name":"attack","version":"0"}},"io.modelcontextprotocol/clientCapabilities":{{"extensions":{extensions}}}}}}}}}"#
    );
    post(&modern("tools/call", Some(tool)), body.as_bytes())
}
