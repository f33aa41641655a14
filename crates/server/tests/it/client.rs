//! A client over a raw socket: it can stop at any byte.

use crate::request::Post;
use longhaul_schemas::MessageChecker;
use serde_json::Value;
use std::net::{IpAddr, SocketAddr};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpSocket, TcpStream},
};

pub(crate) struct Connection {
    stream: BufReader<TcpStream>,
    /// Checks every message that is read.
    pub(crate) checker: MessageChecker,
    /// The id of the last event, as a browser would keep it.
    pub(crate) last_event_id: Option<String>,
}

/// A response without its body.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
}

/// A response.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) head: Head,
    pub(crate) body: String,
}

/// What comes on a stream.
#[derive(Debug, PartialEq)]
pub(crate) enum Event {
    Comment,
    /// Names the event to resume from, and carries no message.
    Prime,
    /// The same, under this name.
    Named(String),
    /// Asks the client to wait before it resumes, before the stream is closed.
    Retry,
    Message(Value),
}

impl Head {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    pub(crate) fn is_stream(&self) -> bool {
        self.header("content-type") == Some("text/event-stream")
    }
}

impl Reply {
    pub(crate) fn status(&self) -> u16 {
        self.head.status
    }

    pub(crate) fn json(&self) -> Value {
        longhaul_schemas::read(&self.body).unwrap_or_else(|_| panic!("not JSON: {self:?}"))
    }

    /// Status and code of an error.
    pub(crate) fn error(&self) -> (u16, i64) {
        let code = self.json()["error"]["code"].as_i64();
        (self.status(), code.unwrap_or_else(|| panic!("no error: {self:?}")))
    }
}

impl Connection {
    fn new(stream: TcpStream) -> Self {
        Self {
            stream: BufReader::new(stream),
            checker: MessageChecker::default(),
            last_event_id: None,
        }
    }

    pub(crate) async fn open(address: SocketAddr) -> Self {
        Self::new(TcpStream::connect(address).await.unwrap())
    }

    /// A connection that comes from another address than the others'.
    pub(crate) async fn open_from(source: IpAddr, address: SocketAddr) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((source, 0).into()).unwrap();
        Self::new(socket.connect(address).await.unwrap())
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        self.checker.sent_bytes(bytes);
        self.stream.get_mut().write_all(bytes).await.unwrap();
    }

    /// Sends bytes that the server may not read to their end.
    pub(crate) async fn try_send(&mut self, bytes: &[u8]) {
        let _ = self.stream.get_mut().write_all(bytes).await;
    }

    /// One request, which may be refused before its id is known.
    pub(crate) async fn ask(&mut self, post: &Post) -> Reply {
        self.send(&post.to_bytes()).await;
        self.reply().await
    }

    /// One request, answered at once.
    pub(crate) async fn exchange(&mut self, post: &Post) -> Reply {
        let reply = self.ask(post).await;
        if !reply.body.is_empty() {
            let answer = reply.json();
            if let Some(id) = post.body.get("id").filter(|id| id.is_string() || id.is_i64()) {
                assert_eq!(&answer["id"], id, "{answer}");
            }
            assert_eq!(reply.head.header("cache-control"), Some("no-store"));
        }
        reply
    }

    /// The result of one request.
    pub(crate) async fn result(&mut self, post: &Post) -> Value {
        let reply = self.exchange(post).await;
        let result = reply.json()["result"].clone();
        assert!(reply.status() == 200 && result.is_object(), "{reply:?}");
        result
    }

    /// The task of one call.
    pub(crate) async fn task(&mut self, post: &Post) -> String {
        task_of(&self.result(post).await)
    }

    /// Status and code of the error of one request.
    pub(crate) async fn error(&mut self, post: &Post) -> (u16, i64) {
        self.exchange(post).await.error()
    }

    pub(crate) async fn reply(&mut self) -> Reply {
        let head = self.head().await;
        if head.is_stream() {
            // An answer that takes more than a second comes alone on a stream.
            let only = self.message().await.unwrap();
            assert!(only.get("method").is_none(), "a stream: {only}");
            assert_eq!(self.message().await, None);
            let body = only.to_string();
            return Reply { head, body };
        }
        let length = head
            .header("content-length")
            .map_or(0, |length| length.parse().unwrap());
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).await.unwrap();
        let reply = Reply {
            head,
            body: String::from_utf8(body).unwrap(),
        };
        // Plain text is for people and is not a message.
        let is_text = reply.head.header("content-type") == Some("text/plain; charset=utf-8");
        if !reply.body.is_empty() && !is_text {
            self.checker.received(&reply.json()).unwrap();
        }
        reply
    }

    /// A body that is no message.
    pub(crate) async fn body(&mut self, length: usize) -> String {
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).await.unwrap();
        String::from_utf8(body).unwrap()
    }

    pub(crate) async fn head(&mut self) -> Head {
        let status = self.line().await;
        let status = status
            .split(' ')
            .nth(1)
            .unwrap_or_else(|| panic!("no status: {status:?}"));
        let status = status.parse().unwrap();
        let mut headers = Vec::new();
        loop {
            let line = self.line().await;
            let Some((name, value)) = line.split_once(':') else {
                break;
            };
            headers.push((name.to_owned(), value.trim().to_owned()));
        }
        Head { status, headers }
    }

    /// The head of an answer that is a stream.
    pub(crate) async fn stream_head(&mut self) -> Head {
        let head = self.head().await;
        assert!(head.status == 200 && head.is_stream(), "{head:?}");
        head
    }

    async fn line(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).await.unwrap();
        line.trim_end().to_owned()
    }

    /// The text of the next event of a stream, whose head has been read; `None` at its end. Each event is a chunk: the server
    /// writes no halves.
    pub(crate) async fn event_text(&mut self) -> Option<String> {
        let length = usize::from_str_radix(&self.line().await, 16).unwrap();
        let mut chunk = vec![0; length + 2];
        self.stream.read_exact(&mut chunk).await.unwrap();
        let text = std::str::from_utf8(&chunk[..length]).unwrap();
        if text.is_empty() {
            return None;
        }
        let whole = text.strip_suffix("\n\n");
        Some(whole.unwrap_or_else(|| panic!("half an event: {text:?}")).to_owned())
    }

    /// The next event of a stream, whose head has been read; `None` at its end.
    pub(crate) async fn event(&mut self) -> Option<Event> {
        let text = self.event_text().await?;
        if text.starts_with(':') {
            return Some(Event::Comment);
        }
        let (mut name, mut data) = (None, None);
        for line in text.split('\n') {
            match line.split_once(": ").unwrap_or_else(|| panic!("no field: {text:?}")) {
                ("event", of) => name = Some(of),
                ("id", id) => self.last_event_id = Some(id.to_owned()),
                ("retry", millis) => assert!(millis.parse::<u64>().is_ok(), "{text:?}"),
                ("data", line) => data = Some(line),
                _ => panic!("an unknown field: {text:?}"),
            }
        }
        Some(match data {
            None => Event::Retry,
            Some("") => match name {
                Some(name) => Event::Named(name.to_owned()),
                None => Event::Prime,
            },
            Some(data) => Event::Message(self.received(data)),
        })
    }

    /// A message, whose text this is.
    pub(crate) fn received(&mut self, text: &str) -> Value {
        let message = longhaul_schemas::read(text).unwrap();
        self.checker.received(&message).unwrap();
        message
    }

    /// The next message of a stream; `None` at its end.
    pub(crate) async fn message(&mut self) -> Option<Value> {
        loop {
            if let Event::Message(message) = self.event().await? {
                return Some(message);
            }
        }
    }

    /// The next unsolicited message on a legacy stream.
    pub(crate) async fn pushed(&mut self) -> Value {
        let message = self.message().await.expect("the stream goes on");
        assert!(message.get("method").is_some(), "an answer: {message}");
        message
    }

    /// The next unsolicited message of this method.
    pub(crate) async fn next(&mut self, method: &str) -> Value {
        loop {
            let message = self.pushed().await;
            if message["method"] == method {
                return message;
            }
        }
    }

    /// The first event, which names an event to resume from; its id.
    pub(crate) async fn first_id(&mut self) -> String {
        assert_eq!(self.event().await, Some(Event::Prime));
        self.last_event_id.take().unwrap()
    }

    /// The result at the end of the stream that answers `post`, if nothing else is on it.
    pub(crate) async fn only_result(&mut self, post: &Post) -> Value {
        let messages = self.messages(post).await;
        assert!(messages.len() == 1 && messages[0]["result"].is_object(), "{messages:?}");
        messages[0]["result"].clone()
    }

    /// The messages of the stream that answers `post`, also if that was sent on another connection: notifications of what becomes
    /// of it, then the response.
    pub(crate) async fn messages(&mut self, post: &Post) -> Vec<Value> {
        self.checker.sent(&post.body);
        let mut messages = Vec::new();
        while let Some(message) = self.message().await {
            match message.get("id") {
                Some(id) => assert_eq!(*id, post.body["id"]),
                None => assert!(
                    tells_of_a_request(&message),
                    "nothing else is sent on a stream: {message}"
                ),
            }
            messages.push(message);
        }
        messages
    }

    /// All messages on the stream of a subscription, until the response.
    pub(crate) async fn messages_of(&mut self, listen: &Post) -> Vec<Value> {
        self.checker.sent(&listen.body);
        let mut messages = Vec::new();
        while let Some(message) = self.message().await {
            messages.push(message);
        }
        assert_eq!(messages.last().unwrap()["id"], listen.body["id"]);
        messages
    }

    /// Whether the server has sent anything that was not read yet.
    pub(crate) fn has_news(&self) -> bool {
        let mut byte = [0];
        !self.stream.buffer().is_empty() || self.stream.get_ref().try_read(&mut byte).is_ok()
    }

    /// Reads until the server closes, or resets, the connection; returns how many bytes came before.
    pub(crate) async fn read_to_close(&mut self) -> usize {
        let mut rest = Vec::new();
        let _ = self.stream.read_to_end(&mut rest).await;
        rest.len()
    }
}

/// Whether a notification is of those that come on the way to an answer.
pub(crate) fn tells_of_a_request(notification: &Value) -> bool {
    let method = notification["method"].as_str().unwrap_or_default();
    [
        "notifications/progress",
        "notifications/message",
        "notifications/cancelled",
    ]
    .contains(&method)
}

/// The task of a call, in either era.
pub(crate) fn task_of(result: &Value) -> String {
    let task = result.get("task").unwrap_or(result);
    task["taskId"]
        .as_str()
        .unwrap_or_else(|| panic!("no task: {result}"))
        .to_owned()
}

/// The text of a tool's result.
pub(crate) fn text(result: &Value) -> &str {
    let text = result["content"][0]["text"].as_str();
    text.unwrap_or_else(|| panic!("no text: {result}"))
}
