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
    /// Whether the last answer had the status 200.
    pub(crate) succeeded: bool,
    poll: Poll,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        Self {
            reader: BufReader::new(stream),
            answer: Vec::new(),
            succeeded: false,
            poll: Poll::new(),
        }
    }

    /// Sends a whole HTTP request and reads the body of its answer.
    pub(crate) fn send(&mut self, request: &[u8]) -> &[u8] {
        self.reader.get_mut().write_all(request).unwrap();
        let mut length = 0;
        let mut line = String::new();
        self.reader.read_line(&mut line).unwrap();
        self.succeeded = line.contains(" 200 ");
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

    /// Polls a task.
    pub(crate) fn poll(&mut self, task: &str) -> &[u8] {
        let mut poll = std::mem::take(&mut self.poll);
        self.send(poll.of(task));
        self.poll = poll;
        &self.answer
    }

    /// Creates a task with a `tools/call` and returns its id.
    pub(crate) fn create(&mut self, call: &[u8]) -> String {
        let answer = self.ask(call);
        let id = answer["result"]["taskId"].as_str();
        id.unwrap_or_else(|| panic!("no task: {answer}")).to_owned()
    }

    /// Subscribes to a task and passes each notification to `stop`, until that returns true.
    pub(crate) fn subscribe(mut self, task: &str, mut stop: impl FnMut(&Value) -> bool) {
        let params = json!({"notifications": {"taskIds": [task]}});
        let request = request("subscriptions/listen", None, &params);
        self.reader.get_mut().write_all(&request).unwrap();
        let mut line = String::new();
        loop {
            line.clear();
            assert!(self.reader.read_line(&mut line).unwrap() > 0, "the stream ended");
            assert!(!line.starts_with(r#"{"jsonrpc""#), "no stream: {line}");
            // Of the lines of an HTTP answer in chunks, only those of events begin so.
            if let Some(message) = line.strip_prefix("data:")
                && !message.trim().is_empty()
                && stop(&serde_json::from_str(message).unwrap())
            {
                return;
            }
        }
    }
}

/// A `tasks/get` in which the task is replaced, so that a new request costs the client little.
#[derive(Default)]
struct Poll {
    request: Vec<u8>,
    places: Vec<usize>,
    id: String,
}

impl Poll {
    fn new() -> Self {
        let mut poll = Self::default();
        poll.become_one_of("01m7wbhd1ycj66wa174tprwdgx5jnevbr0n0");
        poll
    }

    fn of(&mut self, task: &str) -> &[u8] {
        if task.len() != self.id.len() {
            self.become_one_of(task);
        }
        for place in &self.places {
            self.request[*place..*place + task.len()].copy_from_slice(task.as_bytes());
        }
        &self.request
    }

    /// Writes the request for a task with an id of this length.
    fn become_one_of(&mut self, task: &str) {
        self.request = get(task);
        let windows = self.request.windows(task.len()).enumerate();
        self.places = windows
            .filter_map(|(place, text)| (text == task.as_bytes()).then_some(place))
            .collect();
        self.id = task.to_owned();
    }
}

/// A modern request, ready to be sent.
pub(crate) fn request(method: &str, name: Option<&str>, params: &Value) -> Vec<u8> {
    let members = params.to_string();
    let members = members
        .strip_prefix('{')
        .and_then(|rest| rest.strip_suffix('}'))
        .unwrap();
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

/// A call of a tool that adds.
pub(crate) fn call(tool: &str) -> Vec<u8> {
    let params = json!({"name": tool, "arguments": {"a": 1, "b": 2}});
    request("tools/call", Some(tool), &params)
}

pub(crate) fn add() -> Vec<u8> {
    call("add")
}

/// A call that ends after so many milliseconds and returns the moment, in unix nanoseconds.
pub(crate) fn sleep(millis: u64) -> Vec<u8> {
    let params = json!({"name": "sleep", "arguments": {"ms": millis}});
    request("tools/call", Some("sleep"), &params)
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
