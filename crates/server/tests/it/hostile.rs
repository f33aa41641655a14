//! Invalid and malicious requests get a clear error, and do not affect the next request.

use crate::{
    client::Connection,
    request::{Post, act},
    server::{MAX_BODY, Server, get, task_of},
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
        let task = task_of(
            &server
                .result(&Post::modern("tools/call", act("optional", "wait")))
                .await,
        );
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
    Post::legacy(None, "ping", json!({}))
}

#[tokio::test]
async fn bodies_that_are_no_message_are_refused_with_a_reason() {
    let probe = ServerProbe::new().await;
    let deep = |depth: usize| {
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{}1{}}}"#,
            r#"{"a":"#.repeat(depth),
            "}".repeat(depth)
        )
        .into_bytes()
    };
    let table: Vec<(&str, Vec<u8>, (u16, i64))> = vec![
        ("nothing", b"".to_vec(), (400, -32700)),
        ("no JSON", b"{".to_vec(), (400, -32700)),
        ("NUL", b"\0".to_vec(), (400, -32700)),
        (
            "more than one message",
            br#"{"jsonrpc":"2.0","id":1,"method":"ping"} {}"#.to_vec(),
            (400, -32700),
        ),
        (
            "not UTF-8",
            b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"pi\xff\"}".to_vec(),
            (400, -32700),
        ),
        (
            "a batch",
            br#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#.to_vec(),
            (400, -32600),
        ),
        ("an empty batch", b" []".to_vec(), (400, -32600)),
        ("a scalar", b"1".to_vec(), (400, -32600)),
        (
            "another version",
            br#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#.to_vec(),
            (400, -32600),
        ),
        ("no method", br#"{"jsonrpc":"2.0","id":1}"#.to_vec(), (400, -32600)),
        (
            "both",
            br#"{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}"#.to_vec(),
            (400, -32600),
        ),
        (
            "a method twice",
            br#"{"jsonrpc":"2.0","id":1,"method":"ping","method":"x"}"#.to_vec(),
            (400, -32600),
        ),
        (
            "an id twice",
            br#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#.to_vec(),
            (400, -32600),
        ),
        (
            "params that are a list",
            br#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}"#.to_vec(),
            (400, -32600),
        ),
        (
            "a surrogate for a method",
            br#"{"jsonrpc":"2.0","id":1,"method":"\ud800"}"#.to_vec(),
            (400, -32600),
        ),
        ("too deep", deep(5_000), (400, -32600)),
    ];
    let mut client = probe.connect().await;
    for (what, body, expected) in table {
        client.send(&ping().to_bytes_with(&body)).await;
        let reply = client.reply().await;
        assert_eq!(reply.error(), expected, "{what}: {reply:?}");
    }
    probe.still_serves().await;
}

#[tokio::test]
async fn an_id_is_returned_unchanged_or_refused() {
    let probe = ServerProbe::new().await;
    let mut client = probe.connect().await;
    for id in [
        r#""""#,
        "0",
        "-1",
        r#""\u0000""#,
        r#""a\u002f\ud83d\ude00""#,
        "123456789012345678901234567890",
        r#""\ud800""#,
    ] {
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
    let probe = ServerProbe::new().await;
    let session = probe.server.session().await;
    let shapes = [
        json!(null),
        json!(true),
        json!(-1),
        json!(1e300),
        json!("\u{0}"),
        json!([]),
        json!({}),
        json!("x".repeat(10_000)),
    ];
    let mut client = probe.connect().await;
    for method in [
        "initialize",
        "tools/list",
        "tools/call",
        "tasks/get",
        "tasks/result",
        "tasks/cancel",
        "tasks/list",
        "tasks/update",
        "resources/read",
        "resources/list",
    ] {
        for shape in &shapes {
            for member in [
                "name",
                "arguments",
                "task",
                "taskId",
                "cursor",
                "uri",
                "inputResponses",
                "capabilities",
            ] {
                let mut params = json!({"name": "never", "arguments": {"act": "say"}, "taskId": "x", "uri": "x"});
                params[member] = shape.clone();
                let legacy = Post::legacy(Some(&session), method, params.clone());
                let modern = Post::modern(method, params)
                    .without("Mcp-Name")
                    .with("Mcp-Name", "never");
                for post in [legacy, modern] {
                    let reply = client.exchange(&post).await;
                    let answer = reply.json();
                    assert!(
                        answer.get("result").is_some() || reply.error().1 < -32_000,
                        "{method} {member} {shape}"
                    );
                }
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
    for (name, value) in [
        ("Host", "evil.example.com"),
        ("Host", "localhost.evil.example.com"),
        ("Host", "\u{e9}"),
        ("Origin", "http://evil.example.com"),
        ("Origin", "null"),
        ("Origin", "http://localhost:1/x"),
    ] {
        client.send(&ping().with(name, value).to_bytes()).await;
        assert_eq!(client.reply().await.error(), (403, -32600), "{name}: {value}");
    }
    client
        .send(
            &ping()
                .and("Origin", "http://localhost")
                .and("Origin", "http://evil.example.com")
                .to_bytes(),
        )
        .await;
    assert_eq!(client.reply().await.status(), 403);
    for (name, value) in [
        ("Host", "127.0.0.1:9"),
        ("Host", "[::1]"),
        ("Origin", "http://localhost:3000"),
    ] {
        client.send(&ping().with(name, value).to_bytes()).await;
        assert_eq!(client.reply().await.status(), 200, "{name}: {value}");
    }
    for kind in [
        "text/plain",
        "application/jsonx",
        "",
        "application/x-www-form-urlencoded",
    ] {
        client.send(&ping().with("Content-Type", kind).to_bytes()).await;
        assert_eq!(client.reply().await.error(), (415, -32600), "{kind}");
    }
    client.send(&ping().without("Content-Type").to_bytes()).await;
    assert_eq!(client.reply().await.status(), 415);
    client
        .send(
            &ping()
                .with("Content-Type", "Application/JSON ; charset=utf-8")
                .to_bytes(),
        )
        .await;
    assert_eq!(client.reply().await.status(), 200);
    probe.still_serves().await;
}

#[tokio::test]
async fn invalid_http_ends_its_own_connection() {
    let probe = ServerProbe::new().await;
    let long = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n",
        "x".repeat(200_000)
    );
    let many = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\n{}\r\n",
        "X: 1\r\n".repeat(500)
    );
    for (attack, status) in [
        ("\0\0\0\0\r\n\r\n", Some(400)),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", None),
        (
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n",
            Some(400),
        ),
        (
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            Some(400),
        ),
        (
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip\r\n\r\n",
            Some(400),
        ),
        (&long, Some(431)),
        (&many, Some(431)),
    ] {
        let mut client = probe.connect().await;
        client.try_send(attack.as_bytes()).await;
        if let Some(status) = status {
            assert_eq!(
                client.head().await.status,
                status,
                "{}",
                &attack[..40.min(attack.len())]
            );
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
