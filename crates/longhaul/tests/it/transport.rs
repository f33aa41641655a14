//! Transports of an author's own.

use crate::start;
use longhaul::{Received, Server, ServerHandle, Tool, Transport, auth::Identity};
use serde_json::{Value, json};
use std::{io, sync::Arc};
use tokio::{
    sync::{Mutex, mpsc},
    task::JoinHandle,
};

/// Messages over a pair of channels.
struct Channels {
    incoming: Mutex<mpsc::Receiver<io::Result<Received>>>,
    outgoing: Mutex<Option<mpsc::Sender<String>>>,
    of_one_user: bool,
}

impl Transport for Channels {
    async fn receive(&self) -> io::Result<Received> {
        self.incoming.lock().await.recv().await.unwrap_or(Ok(Received::Closed))
    }

    async fn send(&self, messages: Vec<String>) -> io::Result<()> {
        let outgoing = self.outgoing.lock().await;
        for message in messages {
            let sent = outgoing.as_ref().unwrap().send(message).await;
            sent.map_err(|_| io::ErrorKind::BrokenPipe)?;
        }
        Ok(())
    }

    async fn close(&self) -> io::Result<()> {
        *self.outgoing.lock().await = None;
        Ok(())
    }

    fn identity(&self) -> Option<Arc<Identity>> {
        self.of_one_user.then(|| Arc::new(Identity::same_user()))
    }
}

/// The client's end.
struct Client {
    to_server: mpsc::Sender<io::Result<Received>>,
    from_server: mpsc::Receiver<String>,
    served: JoinHandle<io::Result<()>>,
}

impl Client {
    #[expect(clippy::disallowed_methods, reason = "the server's end runs beside the test")]
    fn connect(server: &ServerHandle, of_one_user: bool) -> Self {
        let (to_server, incoming) = mpsc::channel(16);
        let (outgoing, from_server) = mpsc::channel(16);
        let channels = Channels {
            incoming: Mutex::new(incoming),
            outgoing: Mutex::new(Some(outgoing)),
            of_one_user,
        };
        let server = server.clone();
        Self {
            to_server,
            from_server,
            served: tokio::spawn(async move { server.serve(channels).await }),
        }
    }

    /// A client after its handshake.
    async fn initialized(server: &ServerHandle, of_one_user: bool) -> Self {
        let mut client = Self::connect(server, of_one_user);
        let info = json!({"name": "test", "version": "1"});
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info});
        client.request("initialize", params).await;
        client
    }

    async fn send(&self, message: &Value) {
        let received = Received::Message(message.to_string().into());
        self.to_server.send(Ok(received)).await.unwrap();
    }

    /// The next message that is a response.
    async fn response(&mut self) -> Value {
        loop {
            let message: Value = serde_json::from_str(&self.from_server.recv().await.unwrap()).unwrap();
            if message.get("method").is_none() {
                return message;
            }
        }
    }

    async fn request(&mut self, method: &str, params: Value) -> Value {
        self.send(&json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}))
            .await;
        self.response().await
    }
}

async fn server() -> ServerHandle {
    start(|server: Server| server.tool(Tool::new("hello", async || "Hello!"))).await
}

#[tokio::test]
async fn both_eras_are_served_over_it() {
    let server = server().await;
    let mut legacy = Client::initialized(&server, false).await;
    let called = legacy.request("tools/call", json!({"name": "hello"})).await;
    assert_eq!(called["result"]["content"][0]["text"], "Hello!");

    let mut modern = Client::connect(&server, false);
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let called = modern
        .request("tools/call", json!({"name": "hello", "_meta": meta}))
        .await;
    assert_eq!(called["result"]["resultType"], "complete");
}

/// Answers that are due are still sent when the client sends nothing more.
#[tokio::test]
async fn it_ends_with_its_client_or_with_the_server() {
    let server = server().await;
    let mut client = Client::initialized(&server, false).await;
    let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "hello"}});
    client.send(&call).await;
    drop(client.to_server);
    let message: Value = serde_json::from_str(&client.from_server.recv().await.unwrap()).unwrap();
    assert_eq!(message["id"], 2);
    assert_eq!(client.from_server.recv().await, None, "it was closed");
    client.served.await.unwrap().unwrap();

    let leaving = Client::initialized(&server, false).await;
    drop(leaving.from_server);
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    leaving
        .to_server
        .send(Ok(Received::Message(ping.to_string().into())))
        .await
        .unwrap();
    leaving.served.await.unwrap().unwrap();

    let failing = Client::initialized(&server, false).await;
    let lost = io::Error::other("the line is dead");
    failing.to_server.send(Err(lost)).await.unwrap();
    assert_eq!(
        failing.served.await.unwrap().unwrap_err().to_string(),
        "the line is dead"
    );

    let last = Client::initialized(&server, false).await;
    server.stop().await;
    last.served.await.unwrap().unwrap();
}

#[tokio::test]
async fn what_is_no_message_is_answered_with_an_error() {
    let server = server().await;
    let mut client = Client::connect(&server, false);
    client.to_server.send(Ok(Received::TooLong(512))).await.unwrap();
    let message = client.response().await["error"]["message"].clone();
    assert_eq!(message, "The message is longer than 512 bytes");
    client.to_server.send(Ok(Received::Message("{".into()))).await.unwrap();
    assert_eq!(client.response().await["error"]["code"], -32700);
}

/// Only on a connection that only one user can open does a client see the tasks of others.
#[tokio::test]
async fn a_client_lists_the_tasks_of_others_only_if_they_are_of_one_user() {
    for of_one_user in [false, true] {
        let server = server().await;
        let mut first = Client::initialized(&server, of_one_user).await;
        let created = first.request("tools/call", json!({"name": "hello", "task": {}})).await;
        assert!(created["result"]["task"]["taskId"].is_string(), "{created}");
        let mut second = Client::initialized(&server, of_one_user).await;
        let listed = second.request("tasks/list", json!({})).await;
        let seen = listed["result"]["tasks"].as_array().unwrap().len();
        assert_eq!(seen, usize::from(of_one_user));
    }
}
