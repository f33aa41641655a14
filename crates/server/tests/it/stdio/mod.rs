//! A stream of bytes with a message a line, in both eras.

mod end;
mod flow;
mod input;
mod requests;

use crate::{
    request::Post,
    server::{Server, task_of},
};
use longhaul_schemas::MessageChecker;
use serde_json::{Value, json};
use std::{io, sync::Arc};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf},
    sync::oneshot,
};

/// The client's end of a connection.
struct Client {
    input: Option<WriteHalf<DuplexStream>>,
    output: BufReader<ReadHalf<DuplexStream>>,
    ended: oneshot::Receiver<io::Result<()>>,
    checker: MessageChecker,
}

impl Client {
    fn connect(server: &Server) -> Self {
        Self::with_pipe(server, 64 * 1024)
    }

    fn with_pipe(server: &Server, size: usize) -> Self {
        let (ours, theirs) = tokio::io::duplex(size);
        let (reader, writer) = tokio::io::split(theirs);
        let (done, ended) = oneshot::channel();
        let protocol = Arc::clone(&server.protocol);
        server.engine.ports().spawner.spawn(Box::pin(async move {
            let _ = done.send(longhaul_server::stdio::serve(protocol, reader, writer).await);
        }));
        let (output, input) = tokio::io::split(ours);
        Self {
            input: Some(input),
            output: BufReader::new(output),
            ended,
            checker: MessageChecker::default(),
        }
    }

    /// A legacy connection.
    async fn initialized(server: &Server) -> Self {
        Self::that_can(server, json!({})).await
    }

    /// A legacy connection of a client with these capabilities.
    async fn that_can(server: &Server, capabilities: Value) -> Self {
        let mut client = Self::connect(server);
        client.result(&Post::initialize_with("2025-11-25", capabilities)).await;
        let initialized = Post::legacy(None, "notifications/initialized", json!({})).without_id();
        client.send_post(&initialized).await;
        client
    }

    async fn send(&mut self, bytes: &[u8]) {
        self.checker.sent_bytes(bytes);
        self.input.as_mut().unwrap().write_all(bytes).await.unwrap();
    }

    async fn send_post(&mut self, post: &Post) {
        self.send(format!("{}\n", post.body).as_bytes()).await;
    }

    /// The next line; `None` at the end.
    async fn line(&mut self) -> Option<Value> {
        let mut line = String::new();
        self.output.read_line(&mut line).await.unwrap();
        if line.is_empty() {
            return None;
        }
        let whole = line
            .strip_suffix('\n')
            .unwrap_or_else(|| panic!("half a line: {line:?}"));
        let message = longhaul_schemas::read(whole).unwrap_or_else(|_| panic!("not a message: {line:?}"));
        self.checker.received(&message).unwrap();
        Some(message)
    }

    async fn answer(&mut self, post: &Post) -> Value {
        self.send_post(post).await;
        self.answer_to(post).await
    }

    async fn answer_to(&mut self, post: &Post) -> Value {
        // Notifications about tasks may come at any time.
        let answer = loop {
            let line = self.line().await.unwrap();
            if line["method"] != "notifications/tasks/status" {
                break line;
            }
        };
        assert_eq!(answer["id"], post.body["id"], "{answer}");
        answer
    }

    async fn result(&mut self, post: &Post) -> Value {
        let answer = self.answer(post).await;
        assert!(answer["result"].is_object(), "{answer}");
        answer["result"].clone()
    }

    async fn task(&mut self, post: &Post) -> String {
        task_of(&self.result(post).await)
    }

    /// Closes the input.
    async fn finish(&mut self) {
        self.input.take().unwrap().shutdown().await.unwrap();
    }
}

fn ping() -> Post {
    Post::ping(None).id(json!("ping"))
}

fn discover() -> Post {
    Post::modern_plain("server/discover", json!({})).id(json!("d"))
}

fn cancelled(id: &Value) -> Post {
    Post::legacy(None, "notifications/cancelled", json!({"requestId": id})).without_id()
}
