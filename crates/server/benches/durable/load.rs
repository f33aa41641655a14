//! Clients: threads with one kept-alive connection each, so that the load costs little beside the server.

use crate::process::Server;
use serde_json::{Value, json};
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    sync::atomic::{AtomicUsize, Ordering},
    time::Instant,
};

const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}"#;

pub(crate) struct Client {
    reader: BufReader<TcpStream>,
    answer: Vec<u8>,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        Self {
            reader: BufReader::new(stream),
            answer: Vec::new(),
        }
    }

    /// Sends a whole HTTP request and reads the body of its answer.
    pub(crate) fn send(&mut self, request: &[u8]) -> &[u8] {
        self.reader.get_mut().write_all(request).unwrap();
        let mut length = 0;
        let mut line = String::new();
        loop {
            line.clear();
            self.reader.read_line(&mut line).unwrap();
            if line == "\r\n" {
                break;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
        }
        self.answer.resize(length, 0);
        self.reader.read_exact(&mut self.answer).unwrap();
        &self.answer
    }

    pub(crate) fn ask(&mut self, request: &[u8]) -> Value {
        serde_json::from_slice(self.send(request)).unwrap()
    }
}

/// A modern request, ready to be sent.
pub(crate) fn request(method: &str, name: Option<&str>, params: &Value) -> Vec<u8> {
    let members = params.to_string();
    let members = members.trim_start_matches('{').trim_end_matches('}');
    let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{{members},{META}}}}}"#);
    let name = name.map_or(String::new(), |name| format!("Mcp-Name: {name}\r\n"));
    format!(
        "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: {method}\r\n{name}\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

pub(crate) fn add() -> Vec<u8> {
    request(
        "tools/call",
        Some("add"),
        &json!({"name": "add", "arguments": {"a": 1, "b": 2}}),
    )
}

pub(crate) fn get(task: &str) -> Vec<u8> {
    request("tasks/get", Some(task), &json!({"taskId": task}))
}

/// The result of a load.
pub(crate) struct Load {
    /// Requests, or rounds, per second.
    pub(crate) rate: f64,
    /// Server CPU for each, in microseconds.
    pub(crate) cpu_micros: f64,
}

/// `clients` at once do `total` rounds in all; a round is what `round` does with its client.
pub(crate) fn run(server: &Server, clients: usize, total: usize, round: impl Fn(&mut Client) + Sync) -> Load {
    let left = AtomicUsize::new(total);
    let (begun, cpu) = (Instant::now(), server.cpu_nanos());
    std::thread::scope(|scope| {
        for _ in 0..clients {
            scope.spawn(|| {
                let mut client = Client::connect(server.address);
                while left
                    .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
                    .is_ok()
                {
                    round(&mut client);
                }
            });
        }
    });
    let (elapsed, cpu) = (begun.elapsed(), server.cpu_nanos() - cpu);
    Load {
        rate: total as f64 / elapsed.as_secs_f64(),
        cpu_micros: cpu as f64 / total as f64 / 1000.0,
    }
}
