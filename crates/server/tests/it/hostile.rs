//! Invalid and malicious requests get a clear error, and do not affect the next request.

use crate::{
    client::Connection,
    request::Post,
    server::{MAX_BODY, Server, get, other},
};
use serde_json::json;

/// The server's state after each attack: a task it had before is still there.
struct ServerProbe {
    server: Server,
    task: String,
}

impl ServerProbe {
    async fn new() -> Self {
        let server = Server::start().await;
        let task = server.task(&Post::call("optional", "wait")).await;
        Self { server, task }
    }

    async fn connect(&self) -> Connection {
        self.server.connect().await
    }

    async fn still_serves(&self) {
        let got = self.server.result(&get(&self.task)).await;
        assert_eq!(got["status"], "working");
    }
}

fn ping() -> Post {
    Post::ping(None)
}

/// Which they are is decided by `wire`.
#[tokio::test]
async fn bodies_that_are_no_message_are_refused_with_a_reason() {
    let probe = ServerProbe::new().await;
    let message = |members: &str| format!(r#"{{"jsonrpc":"2.0","id":1,{members}}}"#).into_bytes();
    let deep = r#"{"a":"#.repeat(5_000) + "1" + &"}".repeat(5_000);
    let deep = format!(r#""method":"ping","params":{deep}"#);
    let not_utf_8 = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"pi\xff\"}".to_vec();
    let batch = br#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#.to_vec();

    let table: Vec<(&str, Vec<u8>, i64)> = vec![
        ("nothing", b"".to_vec(), -32700),
        ("NUL", b"\0".to_vec(), -32700),
        ("not UTF-8", not_utf_8, -32700),
        ("a batch", batch, -32600),
        ("an empty batch", b" []".to_vec(), -32600),
        ("a surrogate for a method", message(r#""method":"\ud800""#), -32600),
        ("too deep", message(&deep), -32600),
    ];
    let mut client = probe.connect().await;
    for (what, body, code) in table {
        client.send(&ping().to_bytes_with(&body)).await;
        let reply = client.reply().await;
        assert_eq!(reply.error(), (400, code), "{what}: {reply:?}");
    }
    probe.still_serves().await;
}

#[tokio::test]
async fn an_id_is_returned_unchanged_or_refused() {
    let probe = ServerProbe::new().await;
    let mut client = probe.connect().await;
    let long = "123456789012345678901234567890";
    let texts = [r#""""#, r#""\u0000""#, r#""a\u002f\ud83d\ude00""#, r#""\ud800""#];
    for id in ["0", "-1", long].into_iter().chain(texts) {
        let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
        client.send(&ping().to_bytes_with(body.as_bytes())).await;
        let reply = client.reply().await;
        assert_eq!(reply.body, format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
    }
    for id in ["null", "1.5", "1e3", "true", "[]", "{}"] {
        let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
        client.send(&ping().to_bytes_with(body.as_bytes())).await;
        assert_eq!(client.reply().await.error(), (400, -32600), "{id}");
    }
    probe.still_serves().await;
}

#[tokio::test]
async fn params_of_every_shape_are_errors_or_results() {
    const METHODS: &str = "initialize tools/list tools/call tasks/get tasks/result tasks/cancel tasks/list \
                           tasks/update resources/read resources/list";
    const MEMBERS: &str = "name arguments task taskId cursor uri inputResponses capabilities";
    let probe = ServerProbe::new().await;
    let session = probe.server.session().await;
    let long = json!("x".repeat(10_000));
    let shapes = [json!(null), json!(true), json!(-1), json!(1e300), json!("\u{0}")];
    let shapes = shapes.into_iter().chain([json!([]), json!({}), long]);
    let shapes: Vec<_> = shapes
        .flat_map(|shape| MEMBERS.split(' ').map(move |member| (member, shape.clone())))
        .collect();
    let mut client = probe.connect().await;
    for method in METHODS.split(' ') {
        for (member, shape) in &shapes {
            let mut params = json!({"name": "never", "arguments": {"act": "say"}, "taskId": "x", "uri": "x"});
            params[*member] = shape.clone();
            let legacy = Post::legacy(Some(&session), method, params.clone());
            let modern = Post::modern(method, params).with("Mcp-Name", "never");
            for post in [legacy, modern] {
                let reply = client.exchange(&post).await;
                let is_sound = reply.json().get("result").is_some() || reply.error().1 < -32_000;
                assert!(is_sound, "{method} {member} {shape}");
            }
        }
    }
    probe.still_serves().await;
}

#[tokio::test]
async fn bodies_over_the_limit_are_refused_however_they_are_framed() {
    let probe = ServerProbe::new().await;
    // Announced: nothing of it is read.
    let mut client = probe.connect().await;
    let mut head = ping().head();
    head.extend(format!("Content-Length: {}\r\n\r\n", MAX_BODY + 1).bytes());
    client.send(&head).await;
    assert_eq!(client.reply().await.error(), (413, -32600));
    // Not announced: read up to the limit.
    let mut client = probe.connect().await;
    let mut chunked = ping().head();
    chunked.extend(b"Transfer-Encoding: chunked\r\n\r\n");
    client.send(&chunked).await;
    let chunk = [b"8000\r\n".as_slice(), &[b' '; 0x8000], b"\r\n"].concat();
    for _ in 0..=MAX_BODY / 0x8000 {
        client.try_send(&chunk).await;
    }
    assert_eq!(client.reply().await.error(), (413, -32600));
    // One byte less is a message like any other, also byte by byte.
    for size in [1, 0x1000] {
        let mut client = probe.connect().await;
        client.send(&chunked).await;
        let body = ping().body.to_string() + &" ".repeat(20_000);
        for piece in body.as_bytes().chunks(size) {
            client.send(format!("{:x}\r\n", piece.len()).as_bytes()).await;
            client.send(piece).await;
            client.send(b"\r\n").await;
        }
        client.send(b"0\r\nX-Trailer: 1\r\n\r\n").await;
        assert_eq!(client.reply().await.status(), 200);
    }
    let full = ping().body.to_string();
    let full = full.clone() + &" ".repeat(MAX_BODY - full.len());
    let mut client = probe.connect().await;
    client.send(&ping().to_bytes_with(full.as_bytes())).await;
    assert_eq!(client.reply().await.status(), 200);
    probe.still_serves().await;
}

#[tokio::test]
async fn requests_from_elsewhere_are_refused() {
    let probe = ServerProbe::new().await;
    let mut client = probe.connect().await;
    for (name, value, status) in [
        ("Host", "evil.example.com", 403),
        ("Host", "\u{e9}", 403),
        ("Origin", "http://evil.example.com", 403),
        ("Content-Type", "text/plain", 415),
        ("Content-Type", "application/jsonx", 415),
        ("Content-Type", "", 415),
        ("Content-Type", "application/x-www-form-urlencoded", 415),
    ] {
        client.send(&ping().with(name, value).to_bytes()).await;
        assert_eq!(client.reply().await.error(), (status, -32600), "{name}: {value}");
    }

    for (post, status) in [
        (ping().without("Content-Type"), 415),
        (ping().with("Host", "127.0.0.1:9"), 200),
        (ping().with("Origin", "http://localhost:3000"), 200),
        (ping().with("Content-Type", "Application/JSON ; charset=utf-8"), 200),
    ] {
        client.send(&post.to_bytes()).await;
        assert_eq!(client.reply().await.status(), status, "{:?}", post.headers());
    }
    probe.still_serves().await;
}

#[tokio::test]
async fn invalid_http_ends_its_own_connection() {
    let probe = ServerProbe::new().await;
    let with = |headers: &str| other("POST", headers);
    for (attack, status) in [
        ("\0\0\0\0\r\n\r\n".to_owned(), Some(400)),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(), None),
        (with("Content-Length: x\r\n"), Some(400)),
        (with("Content-Length: 1\r\nContent-Length: 2\r\n"), Some(400)),
        (with("Transfer-Encoding: gzip\r\n"), Some(400)),
        (with(&format!("X: {}\r\n", "x".repeat(200_000))), Some(431)),
        (with(&"X: 1\r\n".repeat(500)), Some(431)),
    ] {
        let mut client = probe.connect().await;
        client.try_send(attack.as_bytes()).await;
        if let Some(status) = status {
            let beginning = &attack[..60.min(attack.len())];
            assert_eq!(client.head().await.status, status, "{beginning}");
        }
        client.read_to_close().await;
    }
    // Disconnecting at any point.
    let whole = ping().to_bytes();
    for cut in [1, 20, whole.len() - 1] {
        let mut client = probe.connect().await;
        client.send(&whole[..cut]).await;
        drop(client);
    }
    probe.still_serves().await;
}

#[tokio::test]
async fn bytes_after_a_request_are_not_part_of_it() {
    let probe = ServerProbe::new().await;
    let mut client = probe.connect().await;
    let mut bytes = ping().to_bytes();
    bytes.extend(b"garbage that is no request\r\n\r\n");
    client.send(&bytes).await;
    assert_eq!(client.reply().await.status(), 200);
    assert_eq!(client.head().await.status, 400);
    probe.still_serves().await;
}

#[tokio::test]
async fn a_thousand_idle_connections_do_not_keep_the_next_one_out() {
    let probe = ServerProbe::new().await;
    let mut idle = Vec::new();
    for nth in 0..1_000 {
        let mut client = probe.connect().await;
        if nth % 2 == 0 {
            client.send(b"POST /mcp HTTP/1.1\r\n").await;
        }
        idle.push(client);
    }
    probe.still_serves().await;
    assert_eq!(idle.len(), 1_000);
}
