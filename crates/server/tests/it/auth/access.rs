//! Who is served.

use super::{Authenticated, METADATA, of};
use crate::{
    client::{Connection, Reply},
    clock::TestClock,
    request::{Post, act},
    server::{Options, Server, other, task_of},
};
use longhaul_core::Principal;
use longhaul_server::{
    Limits,
    auth::{ANYONE, AuthDecision, Authentication, Authenticator, Identity, Permissions, RequestHead},
    http::{Exposure, HttpOptions},
    stdio,
};
use serde_json::{Value, json};
use std::{
    net::IpAddr,
    num::NonZeroU32,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};

fn list() -> Post {
    Post::modern("tools/list", json!({}))
}

/// Status, `WWW-Authenticate` and body.
fn refusal(reply: &Reply) -> (u16, String, &str) {
    let challenge = reply.head.header("www-authenticate").unwrap_or_default();
    (reply.status(), challenge.to_owned(), &reply.body)
}

async fn ask(connection: &mut Connection, bytes: &[u8]) -> Reply {
    connection.send(bytes).await;
    connection.reply().await
}

#[tokio::test]
async fn s_21_a_request_without_a_valid_token_gets_401_and_learns_nothing() {
    let served = Authenticated::start().await;
    let mut connection = served.server.connect().await;
    let metadata = format!("resource_metadata=\"{METADATA}\"");
    let missing = (401, format!("Bearer {metadata}"), "");
    let invalid = |why: &str| {
        let challenge = format!("Bearer error=\"invalid_token\", error_description=\"{why}\", {metadata}");
        (401, challenge, "")
    };
    for (bytes, expected) in [
        (list().to_bytes(), missing.clone()),
        (Post::of(json!({"not": "a message"})).to_bytes(), missing.clone()),
        (list().to_bytes_with(b"no JSON"), missing.clone()),
        (other("GET", "").into_bytes(), missing.clone()),
        (other("DELETE", "Mcp-Session-Id: x\r\n").into_bytes(), missing.clone()),
        (other("PUT", "").into_bytes(), missing),
        (of("nobody", list()).to_bytes(), invalid("the token is unknown")),
        (of("later-nobody", list()).to_bytes(), invalid("it is nobody's")),
        (
            of("ann-expired", list()).to_bytes(),
            invalid("the credentials have expired or were revoked"),
        ),
        (
            list().with("Authorization", "Basic YTpi").to_bytes(),
            invalid("the credentials are of no kind that this server knows"),
        ),
        (
            of("ann", list()).and("Authorization", "Bearer bob").to_bytes(),
            invalid("there is more than one Authorization header"),
        ),
    ] {
        let reply = ask(&mut connection, &bytes).await;
        assert_eq!(refusal(&reply), expected, "{}", String::from_utf8_lossy(&bytes));
        assert_eq!(reply.head.header("cache-control"), Some("no-store"));
    }
    // A token in the address is none.
    let in_query = String::from_utf8(list().to_bytes()).unwrap();
    let in_query = in_query.replacen("/mcp", "/mcp?access_token=ann", 1);
    assert_eq!(ask(&mut connection, in_query.as_bytes()).await.status(), 401);

    let down = ask(&mut connection, &of("down", list()).to_bytes()).await;
    assert_eq!(refusal(&down), (503, String::new(), ""));
    assert_eq!(down.head.header("retry-after"), Some("3"));
    let undecided = ask(&mut connection, &of("undecided", list()).to_bytes()).await;
    assert_eq!(refusal(&undecided), (503, String::new(), ""));
    assert_eq!(undecided.head.header("retry-after"), Some("30"));
    for known in ["ann", "later-ann"] {
        assert_eq!(ask(&mut connection, &of(known, list()).to_bytes()).await.status(), 200);
    }
    let in_lower_case = list().with("Authorization", "bearer  ann");
    assert_eq!(ask(&mut connection, &in_lower_case.to_bytes()).await.status(), 200);
}

#[tokio::test]
async fn browsers_ask_first_without_a_token_and_can_read_a_refusal() {
    let served = Authenticated::start().await;
    let mut connection = served.server.connect().await;
    let origin = "Origin: http://localhost:3000\r\nAccess-Control-Request-Method: POST\r\n";
    let reply = ask(&mut connection, other("OPTIONS", origin).as_bytes()).await;
    assert_eq!(reply.status(), 204);
    assert_eq!(served.tokens.asked.load(Ordering::SeqCst), 0);
    let reply = ask(
        &mut connection,
        &list().with("Origin", "http://localhost:3000").to_bytes(),
    )
    .await;
    assert_eq!(reply.status(), 401);
    assert_eq!(
        reply.head.header("access-control-allow-origin"),
        Some("http://localhost:3000")
    );
    // A page of elsewhere is refused before anyone asks who sends it.
    let asked = served.tokens.asked.load(Ordering::SeqCst);
    let evil = of("ann", list()).with("Origin", "https://evil.example");
    assert_eq!(ask(&mut connection, &evil.to_bytes()).await.status(), 403);
    assert_eq!(served.tokens.asked.load(Ordering::SeqCst), asked);
}

#[tokio::test]
async fn s_06_too_many_denied_requests_of_an_address_are_answered_with_429() {
    let second = NonZeroU32::new(1);
    let served = Authenticated::start().await;
    let server = Server::with(Options {
        authentication: Authentication {
            authenticators: vec![Arc::new(served.tokens.clone())],
            allow_unauthenticated: false,
        },
        limits: Limits {
            denied_per_second: second,
            ..Limits::default()
        },
        clock: crate::clock::TestClock::standing(),
        ..Options::default()
    })
    .await;
    let mut connection = server.connect().await;
    let mut statuses = Vec::new();
    for _ in 0..4 {
        statuses.push(ask(&mut connection, &list().to_bytes()).await.status());
    }
    assert_eq!(statuses, [401, 401, 429, 429]);
    let elsewhere_down = IpAddr::from([127, 0, 0, 3]);
    let mut down = Connection::open_from(elsewhere_down, server.address).await;
    let mut statuses = Vec::new();
    for _ in 0..3 {
        statuses.push(ask(&mut down, &of("down", list()).to_bytes()).await.status());
    }
    assert_eq!(statuses, [503, 503, 429], "as those that are not valid");
    let asked_elsewhere = ask(&mut connection, &of("later-ann", list()).to_bytes()).await;
    assert_eq!(asked_elsewhere.status(), 429, "no other server is asked");
    for known in ["ann", "again-ann"] {
        let known = ask(&mut connection, &of(known, list()).to_bytes()).await;
        assert_eq!(known.status(), 200, "whoever is known is served");
    }
    let elsewhere = IpAddr::from([127, 0, 0, 2]);
    let mut elsewhere = Connection::open_from(elsewhere, server.address).await;
    assert_eq!(ask(&mut elsewhere, &list().to_bytes()).await.status(), 401);
}

/// The first authenticator that knows the kind of the credentials decides.
#[tokio::test]
async fn authenticators_are_asked_in_their_order() {
    struct Header(&'static str);

    impl Authenticator for Header {
        fn authenticate<'a>(&'a self, head: &'a RequestHead<'a>) -> AuthDecision<'a> {
            match head.headers.get(self.0) {
                None => AuthDecision::NotMine,
                Some(_) => AuthDecision::Known(Ok(Arc::new(Identity::verified(
                    Principal::named(self.0),
                    Permissions::all(),
                )))),
            }
        }
    }

    let server = Server::with(Options {
        authentication: Authentication {
            authenticators: vec![Arc::new(Header("x-a")), Arc::new(Header("x-b"))],
            allow_unauthenticated: true,
        },
        ..Options::default()
    })
    .await;
    let (a, b) = (|post: Post| post.with("x-a", "1"), |post: Post| post.with("x-b", "1"));
    let both = |post: Post| a(b(post));
    let create = Post::modern("tools/call", act("optional", "wait"));
    let task = task_of(&server.result(&both(create.clone())).await);
    let get = crate::server::get(&task);
    assert_eq!(server.result(&a(get.clone())).await["status"], "working");
    assert_eq!(server.error(&b(get.clone())).await, (200, -32602));
    assert_eq!(server.error(&get).await, (200, -32602));
    // Without credentials everyone is the same, and not one of those who have some.
    let anyones = task_of(&server.result(&create).await);
    let get = crate::server::get(&anyones);
    assert_eq!(server.result(&get).await["status"], "working");
    assert_eq!(server.error(&a(get.clone())).await, (200, -32602));
    // With credentials that nobody knows one is not served as anyone.
    let mut connection = server.connect().await;
    assert_eq!(ask(&mut connection, &of("x", get).to_bytes()).await.status(), 401);
}

/// Where anyone is served, nobody is taken for the user who runs the server, whose tasks are others.
#[tokio::test]
async fn anyone_is_not_the_user_who_runs_the_server() {
    let server = Server::with(Options {
        authentication: Authentication {
            allow_unauthenticated: true,
            ..Authentication::default()
        },
        clock: crate::clock::TestClock::standing(),
        ..Options::default()
    })
    .await;
    let mut create = Post::modern("tools/call", act("optional", "wait"));
    create.body["params"]["_meta"]["dev.longhaul/idempotency-key"] = json!("nightly");
    let task = task_of(&server.result(&create).await);
    let stored = server.engine.store().get_unscoped(&task.parse().unwrap()).await;
    assert_eq!(stored.unwrap().unwrap().task.owner.principal, Principal::named(ANYONE));

    // The owner, over stdio, who calls the same under the same key.
    let (client, end) = tokio::io::duplex(1 << 16);
    let (reader, writer) = tokio::io::split(end);
    let served = stdio::serve(Arc::clone(&server.protocol), reader, writer);
    let served = async { served.await.unwrap() };
    server.engine.ports().spawner.spawn(Box::pin(served));
    let mut owner = BufReader::new(client);
    let mut answers = Vec::new();
    for post in [create, crate::server::get(&task)] {
        owner.write_all(format!("{}\n", post.body).as_bytes()).await.unwrap();
        let mut line = String::new();
        owner.read_line(&mut line).await.unwrap();
        answers.push(serde_json::from_str::<Value>(&line).unwrap());
    }
    let owners = task_of(&answers[0]["result"]);
    assert_ne!(owners, task);
    assert_eq!(answers[1]["error"]["code"], -32602);

    // Nor has anyone the owner's freedom from limits: 20 unknown ids in a second, with bursts of twice as many.
    let mut client = server.connect().await;
    for _ in 0..40 {
        assert_eq!(client.error(&crate::server::get(&owners)).await, (200, -32602));
    }
    assert_eq!(client.error(&crate::server::get(&owners)).await, (429, 429));
}

/// Beyond this machine only if something decides who may come in, and if plain HTTP is accepted.
#[test]
fn s_13_which_addresses_may_be_listened_on() {
    struct Nobody;

    impl Authenticator for Nobody {
        fn authenticate<'a>(&'a self, _: &'a RequestHead<'a>) -> AuthDecision<'a> {
            AuthDecision::NotMine
        }
    }

    let open = Authentication::default();
    let anyone = Authentication {
        allow_unauthenticated: true,
        ..Authentication::default()
    };
    let decided = Authentication {
        authenticators: vec![Arc::new(Nobody)],
        ..Authentication::default()
    };
    let neither = HttpOptions::default();
    let plain = HttpOptions {
        plain_http: true,
        ..HttpOptions::default()
    };
    let behind_proxies = HttpOptions {
        trusted_proxies: vec!["192.0.2.1".parse().unwrap()],
        ..HttpOptions::default()
    };
    let behind_everyone = HttpOptions {
        trusted_proxies: vec!["0.0.0.0/0".parse().unwrap()],
        ..HttpOptions::default()
    };
    let everyone_in_plain = HttpOptions {
        plain_http: true,
        ..behind_everyone.clone()
    };
    for (authentication, http, has_tls, expected) in [
        (&decided, &behind_everyone, false, "served to everyone"),
        (&decided, &behind_everyone, true, ""),
        (&decided, &everyone_in_plain, false, ""),
        (&open, &neither, true, "nothing decides"),
        (&open, &plain, false, "nothing decides"),
        (&open, &behind_proxies, false, "nothing decides"),
        (&anyone, &neither, false, "without TLS"),
        (&decided, &neither, false, "without TLS"),
        (&anyone, &plain, false, ""),
        (&decided, &plain, false, ""),
        (&decided, &behind_proxies, false, ""),
        (&decided, &neither, true, ""),
    ] {
        let exposure = Exposure::of(authentication, http, has_tls);
        for loopback in ["127.0.0.1:1", "[::1]:1", "127.9.9.9:1", "[::ffff:127.0.0.1]:1"] {
            exposure.check(loopback.parse().unwrap()).unwrap();
        }
        for address in ["0.0.0.0:1", "[::]:1", "192.0.2.1:1", "[::ffff:192.0.2.1]:1"] {
            let why = exposure
                .check(address.parse().unwrap())
                .map_err(|error| error.to_string());
            match expected {
                "" => assert_eq!(why, Ok(())),
                expected => assert!(why.clone().unwrap_err().contains(expected), "{address}: {why:?}"),
            }
        }
    }
}

/// The metadata is for those who have no token yet.
#[tokio::test]
async fn s_20_the_metadata_can_be_read_by_anyone() {
    let served = Authenticated::start().await;
    let mut connection = served.server.connect().await;
    let get = |path: &str, method: &str, headers: &str| other(method, headers).replacen("/mcp", path, 1).into_bytes();
    for path in [
        "/.well-known/oauth-protected-resource",
        "/.well-known/oauth-protected-resource/mcp",
        // A proxy may show the endpoint under another path, which is then that of the public URL.
        METADATA.strip_prefix("https://mcp.example.com").unwrap(),
    ] {
        connection
            .send(&get(path, "GET", "Origin: http://localhost:1\r\n"))
            .await;
        let head = connection.head().await;
        assert_eq!(head.status, 200);
        assert_eq!(head.header("access-control-allow-origin"), Some("http://localhost:1"));
        assert_eq!(head.header("content-type"), Some("application/json"));
        let length = head.header("content-length").unwrap().parse().unwrap();
        assert_eq!(connection.body(length).await, super::METADATA_DOCUMENT);
        connection.send(&get(path, "POST", "")).await;
        assert_eq!(connection.reply().await.status(), 405);
        connection
            .send(&get(path, "GET", "Origin: http://evil.example\r\n"))
            .await;
        assert_eq!(connection.reply().await.status(), 403);
    }
    for nowhere in ["/other", "/mcp/more", "/sse", "/tools"] {
        let path = format!("/.well-known/oauth-protected-resource{nowhere}");
        connection.send(&get(&path, "GET", "")).await;
        assert_eq!(connection.reply().await.status(), 404, "{nowhere}");
    }
    // Where no authenticator has metadata, there is no such document.
    let server = Server::start().await;
    let mut connection = server.connect().await;
    connection
        .send(&get("/.well-known/oauth-protected-resource", "GET", ""))
        .await;
    assert_eq!(connection.reply().await.status(), 404);
}

/// A connection without a known sender is closed soon, whatever it sends; one with a sender may be idle for longer.
#[tokio::test]
async fn s_06_connections_of_nobody_are_closed_soon() {
    let served = Authenticated::with(Options {
        clock: TestClock::standing(),
        ..Options::default()
    })
    .await;
    let list = Post::modern("tools/list", json!({}));
    let (mut silent, mut refused, mut anns) = (
        served.server.connect().await,
        served.server.connect().await,
        served.server.connect().await,
    );
    let mut half_a_head = served.server.connect().await;
    half_a_head.send(b"POST /mcp HTTP/1.1\r\nHost: loc").await;
    refused.send(&of("nobody", list.clone()).to_bytes()).await;
    assert_eq!(refused.reply().await.status(), 401);
    anns.result(&of("ann", list.clone())).await;
    // The timeouts are counted from when the connections were accepted, which the last one shows.
    served.server.connect().await.result(&of("ann", list.clone())).await;
    served.tokens.clock.advance(Duration::from_secs(10));
    for closed in [&mut silent, &mut refused, &mut half_a_head] {
        assert_eq!(closed.read_to_close().await, 0);
    }
    anns.result(&of("ann", list)).await;
}
