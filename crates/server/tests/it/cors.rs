//! Web pages: which may speak to the server, and what they may send and read.

use crate::{
    request::Post,
    server::{Options, Server, other},
};

const PAGE: &str = "https://app.example.com";

async fn server() -> Server {
    let options = Options::with(|options| {
        options.http.allowed_origins = vec![PAGE.parse().unwrap()];
        options.http.allowed_hosts = vec!["mcp.example.com".parse().unwrap()];
    });
    Server::with(options).await
}

#[tokio::test]
async fn a_preflight_answers_what_a_page_may_send() {
    let server = server().await;
    let mut client = server.connect().await;
    for origin in [PAGE, "http://localhost:3000"] {
        let asked = format!(
            "Origin: {origin}\r\nAccess-Control-Request-Method: POST\r\n\
             Access-Control-Request-Headers: content-type, mcp-param-region, MCP-PARAM-x y, x-evil\r\n"
        );
        client.send(other("OPTIONS", &asked).as_bytes()).await;
        let reply = client.reply().await;
        assert_eq!(reply.status(), 204);
        let header = |name| reply.head.header(name).unwrap_or_default();
        assert_eq!(header("access-control-allow-origin"), origin);
        assert_eq!(header("access-control-allow-methods"), "POST, GET, DELETE");
        assert_eq!(
            header("access-control-allow-headers"),
            "Content-Type, Accept, Authorization, MCP-Protocol-Version, Mcp-Method, Mcp-Name, Mcp-Session-Id, \
             Last-Event-ID, mcp-param-region"
        );
        assert_eq!(header("access-control-allow-credentials"), "", "there are none to send");
        assert!(header("vary").contains("Origin"));
    }
    client.send(other("OPTIONS", "").as_bytes()).await;
    let plain = client.reply().await;
    let header = |name| plain.head.header(name);
    assert_eq!((plain.status(), header("allow")), (204, Some("POST, GET, DELETE")));
    assert_eq!(header("access-control-allow-origin"), None);
}

#[tokio::test]
async fn a_page_reads_answers_and_errors_alike() {
    let server = server().await;
    let ping = Post::ping(None);
    for (post, status) in [
        (Post::initialize("2025-11-25"), 200),
        (Post::ping(Some("gone")), 404),
        (ping.clone().with("MCP-Protocol-Version", "9"), 400),
        (ping.with("Content-Type", "text/plain"), 415),
    ] {
        let post = post.with("Origin", PAGE).with("Host", "mcp.example.com");
        let reply = server.send(&post).await.reply().await;
        assert_eq!(reply.status(), status, "{reply:?}");
        assert_eq!(reply.head.header("access-control-allow-origin"), Some(PAGE));
        let exposed = reply.head.header("access-control-expose-headers");
        assert_eq!(exposed, Some("Mcp-Session-Id, WWW-Authenticate"));
    }
    let mut client = server.connect().await;
    let put = other("PUT", &format!("Origin: {PAGE}\r\n"));
    client.send(put.as_bytes()).await;
    let reply = client.reply().await;
    assert_eq!(reply.status(), 405);
    assert_eq!(reply.head.header("access-control-allow-origin"), Some(PAGE));
}

#[tokio::test]
async fn a_page_of_another_origin_is_refused_and_reads_nothing() {
    let server = server().await;
    for (origin, host) in [
        ("https://evil.example.com", "localhost"),
        ("https://app.example.com.evil.com", "localhost"),
        ("null", "localhost"),
        (PAGE, "evil.example.com"),
    ] {
        let post = Post::initialize("2025-11-25").with("Origin", origin).with("Host", host);
        let reply = server.send(&post).await.reply().await;
        assert_eq!(reply.status(), 403, "{origin} {host}");
        assert_eq!(reply.head.header("access-control-allow-origin"), None);
        assert_eq!(reply.head.header("mcp-session-id"), None);
    }
}
