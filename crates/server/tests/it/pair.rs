//! The two endpoints of 2024-11-05.

use crate::{
    client::Connection,
    request::Post,
    server::{Options, Server, other, text},
};
use serde_json::{Value, json};

async fn server() -> Server {
    Server::with(Options::with(|options| options.http.legacy_sse = true)).await
}

/// A client as it was in 2024.
struct Client {
    stream: Connection,
    posting: Connection,
    endpoint: String,
}

impl Client {
    async fn connect(server: &Server) -> Self {
        let mut stream = server.connect().await;
        let open = other("GET", "Accept: text/event-stream\r\n").replace("/mcp", "/sse");
        stream.send(open.as_bytes()).await;
        stream.stream_head().await;
        let endpoint = stream.event_text().await.unwrap();
        let endpoint = endpoint.strip_prefix("event: endpoint\ndata: ").unwrap().to_owned();
        Self {
            stream,
            posting: server.connect().await,
            endpoint,
        }
    }

    async fn post_to(&mut self, endpoint: &str, body: &str) -> u16 {
        let request = format!(
            "POST {endpoint} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        self.posting.send(request.as_bytes()).await;
        self.posting.reply().await.status()
    }

    async fn tell(&mut self, post: &Post) {
        self.stream.checker.sent(&post.body);
        let endpoint = self.endpoint.clone();
        assert_eq!(self.post_to(&endpoint, &post.body.to_string()).await, 202);
    }

    async fn message(&mut self) -> Value {
        let event = self.stream.event_text().await.unwrap();
        let data = event.strip_prefix("event: message\ndata: ");
        let data = data.unwrap_or_else(|| panic!("not a message: {event:?}"));
        self.stream.received(data)
    }

    async fn answer(&mut self, post: &Post) -> Value {
        self.tell(post).await;
        let answer = self.message().await;
        assert_eq!(answer["id"], post.body["id"]);
        answer
    }
}

#[tokio::test]
async fn everything_is_posted_to_one_address_and_answered_on_one_stream() {
    let server = server().await;
    let mut client = Client::connect(&server).await;
    let answer = client.answer(&Post::initialize("2024-11-05")).await;
    assert_eq!(answer["result"]["protocolVersion"], "2024-11-05");
    let initialized = Post::legacy(None, "notifications/initialized", json!({}));
    client.tell(&initialized.without_id()).await;
    client.answer(&Post::legacy(None, "tools/list", json!({}))).await;
    let call = Post::legacy_call(None, "optional", "report 1").progress_token(json!("p"));
    client.tell(&call).await;
    assert_eq!(client.message().await["params"]["progressToken"], "p");
    let ping = Post::ping(None).id(json!("meanwhile"));
    client.answer(&ping).await;
    server.stage.released.count();
    assert_eq!(text(&client.message().await["result"]), "done");
    let endpoint = client.endpoint.clone();
    assert_eq!(client.post_to(&endpoint, "junk").await, 202);
    assert_eq!(client.message().await["error"]["code"], -32700);
}

#[tokio::test]
async fn a_post_address_ends_with_its_stream_and_cannot_be_guessed() {
    let server = server().await;
    let (mut one, mut other) = (Client::connect(&server).await, Client::connect(&server).await);
    assert_ne!(one.endpoint, other.endpoint);
    let ping = Post::ping(None).body.to_string();
    for nowhere in ["/messages", "/messages?sessionId=", "/messages?sessionId=0"] {
        assert_eq!(one.post_to(nowhere, &ping).await, 404, "{nowhere}");
    }
    let gone = one.endpoint.clone();
    drop(one.stream);
    while other.post_to(&gone, &ping).await != 404 {}
    other.answer(&Post::initialize("2024-11-05")).await;
    server.stop().await;
    assert_eq!(other.stream.event_text().await, None);
}

#[tokio::test]
async fn a_plain_call_ends_with_its_stream() {
    let server = server().await;
    let mut client = Client::connect(&server).await;
    client.answer(&Post::initialize("2024-11-05")).await;
    client.tell(&Post::legacy_call(None, "optional", "wait")).await;
    server.stage.begun.reaches(1).await;
    drop(client);
    server.stage.stopped.reaches(1).await;
}

#[tokio::test]
async fn the_endpoints_of_2024_11_05_are_served_only_if_enabled() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    client.send(b"GET /sse HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    assert_eq!(client.reply().await.status(), 404);
}
