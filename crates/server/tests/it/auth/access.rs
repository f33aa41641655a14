//! Who is served.

use super::{Authenticated, METADATA, Tokens, of};
use crate::{
    client::{Connection, Reply},
    clock::TestClock,
    request::{Post, list},
    server::{self, Options, Server, other, task_of},
};
use longhaul_core::Principal;
use longhaul_server::{
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
    let unauthenticated = [
        list().to_bytes(),
        Post::of(json!({"not": "a message"})).to_bytes(),
        list().to_bytes_with(b"no JSON"),
        other("GET", "").into_bytes(),
        other("DELETE", "Mcp-Session-Id: x\r\n").into_bytes(),
        other("PUT", "").into_bytes(),
    ];
    let basic = list().with("Authorization", "Basic YTpi");
    let two = of("ann", list()).and("Authorization", "Bearer bob");
    let wrong = [
        (of("nobody", list()), "the token is unknown"),
        (of("later-nobody", list()), "it is nobody's"),
        (
            of("ann-expired", list()),
            "the credentials have expired or were revoked",
        ),
        (basic, "the credentials are of no kind that this server knows"),
        (two, "there is more than one Authorization header"),
    ];
    let wrong = wrong.map(|(post, why)| (post.to_bytes(), invalid(why)));
    let unauthenticated = unauthenticated.map(|bytes| (bytes, missing.clone()));
    for (bytes, expected) in unauthenticated.into_iter().chain(wrong) {
        let reply = ask(&mut connection, &bytes).await;
        assert_eq!(refusal(&reply), expected, "{}", String::from_utf8_lossy(&bytes));
        assert_eq!(reply.head.header("cache-control"), Some("no-store"));
    }
    // A token in the address is none.
    let in_query = String::from_utf8(list().to_bytes()).unwrap();
    let in_query = in_query.replacen("/mcp", "/mcp?access_token=ann", 1);
    assert_eq!(ask(&mut connection, in_query.as_bytes()).await.status(), 401);

    for (token, seconds) in [("down", "3"), ("undecided", "30")] {
        let undecided = connection.exchange(&of(token, list())).await;
        assert_eq!(refusal(&undecided), (503, String::new(), ""));
        assert_eq!(undecided.head.header("retry-after"), Some(seconds));
    }
    let in_lower_case = list().with("Authorization", "bearer  ann");
    for known in [of("ann", list()), of("later-ann", list()), in_lower_case] {
        connection.result(&known).await;
    }
}

#[tokio::test]
async fn browsers_ask_first_without_a_token_and_can_read_a_refusal() {
    let served = Authenticated::start().await;
    let mut connection = served.server.connect().await;
    let origin = "Origin: http://localhost:3000\r\nAccess-Control-Request-Method: POST\r\n";
    let reply = ask(&mut connection, other("OPTIONS", origin).as_bytes()).await;
    assert_eq!(reply.status(), 204);
    assert_eq!(served.tokens.asked.load(Ordering::SeqCst), 0);
    let local = "http://localhost:3000";
    let reply = connection.ask(&list().with("Origin", local)).await;
    assert_eq!(reply.status(), 401);
    assert_eq!(reply.head.header("access-control-allow-origin"), Some(local));
    // A page of elsewhere is refused before anyone asks who sends it.
    let asked = served.tokens.asked.load(Ordering::SeqCst);
    let evil = of("ann", list()).with("Origin", "https://evil.example");
    assert_eq!(connection.ask(&evil).await.status(), 403);
    assert_eq!(served.tokens.asked.load(Ordering::SeqCst), asked);
}

#[tokio::test]
async fn s_06_too_many_denied_requests_of_an_address_are_answered_with_429() {
    let clock = TestClock::standing();
    let mut options = Options::with_authenticator(Tokens::new(&clock));
    options.limits.denied_per_second = NonZeroU32::new(1);
    options.clock = clock;
    let server = Server::with(options).await;
    let from = async |last: u8| Connection::open_from(IpAddr::from([127, 0, 0, last]), server.address).await;
    let mut connection = server.connect().await;
    for status in [401, 401, 429, 429] {
        assert_eq!(connection.ask(&list()).await.status(), status);
    }
    // As those that are not valid.
    let mut down = from(3).await;
    for status in [503, 503, 429] {
        assert_eq!(down.ask(&of("down", list())).await.status(), status);
    }
    let asked_elsewhere = connection.ask(&of("later-ann", list())).await;
    assert_eq!(asked_elsewhere.status(), 429, "no other server is asked");
    // Whoever is known is served.
    for known in ["ann", "again-ann"] {
        connection.result(&of(known, list())).await;
    }
    assert_eq!(from(2).await.ask(&list()).await.status(), 401);
}

/// The first authenticator that knows the kind of the credentials decides.
#[tokio::test]
async fn authenticators_are_asked_in_their_order() {
    struct Header(&'static str);

    impl Authenticator for Header {
        fn authenticate<'a>(&'a self, head: &'a RequestHead<'a>) -> AuthDecision<'a> {
            match head.headers.get(self.0) {
                None => AuthDecision::NotMine,
                Some(_) => {
                    let identity = Identity::verified(Principal::named(self.0), Permissions::all());
                    AuthDecision::Known(Ok(Arc::new(identity)))
                }
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
    let create = Post::call("optional", "wait");
    let task = server.task(&both(create.clone())).await;
    let get = server::get(&task);
    assert_eq!(server.result(&a(get.clone())).await["status"], "working");
    assert_eq!(server.error(&b(get.clone())).await, (200, -32602));
    assert_eq!(server.error(&get).await, (200, -32602));
    // Without credentials everyone is the same, and not one of those who have some.
    let anyones = server.task(&create).await;
    let get = server::get(&anyones);
    assert_eq!(server.result(&get).await["status"], "working");
    assert_eq!(server.error(&a(get.clone())).await, (200, -32602));
    // With credentials that nobody knows one is not served as anyone.
    assert_eq!(server.send(&of("x", get)).await.reply().await.status(), 401);
}

/// Where anyone is served, nobody is taken for the user who runs the server, whose tasks are others.
#[tokio::test]
async fn anyone_is_not_the_user_who_runs_the_server() {
    let mut options = Options::with_clock(&TestClock::standing());
    options.authentication.allow_unauthenticated = true;
    let server = Server::with(options).await;
    let create = Post::call("optional", "wait").keyed("nightly");
    let task = server.task(&create).await;
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
    for post in [create, server::get(&task)] {
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
        assert_eq!(client.error(&server::get(&owners)).await, (200, -32602));
    }
    assert_eq!(client.error(&server::get(&owners)).await, (429, 429));
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
        let page = get(path, "GET", "Origin: http://localhost:1\r\n");
        connection.send(&page).await;
        let head = connection.head().await;
        assert_eq!(head.status, 200);
        assert_eq!(head.header("access-control-allow-origin"), Some("http://localhost:1"));
        assert_eq!(head.header("content-type"), Some("application/json"));
        let length = head.header("content-length").unwrap().parse().unwrap();
        assert_eq!(connection.body(length).await, super::METADATA_DOCUMENT);
        let post = get(path, "POST", "");
        assert_eq!(ask(&mut connection, &post).await.status(), 405);
        let evil = get(path, "GET", "Origin: http://evil.example\r\n");
        assert_eq!(ask(&mut connection, &evil).await.status(), 403);
    }
    for nowhere in ["/other", "/mcp/more", "/sse", "/tools"] {
        let path = format!("/.well-known/oauth-protected-resource{nowhere}");
        let reply = ask(&mut connection, &get(&path, "GET", "")).await;
        assert_eq!(reply.status(), 404, "{nowhere}");
    }
    // Where no authenticator has metadata, there is no such document.
    let server = Server::start().await;
    let mut connection = server.connect().await;
    let path = "/.well-known/oauth-protected-resource";
    let reply = ask(&mut connection, &get(path, "GET", "")).await;
    assert_eq!(reply.status(), 404);
}

/// A connection without a known sender is closed soon, whatever it sends; one with a sender may be idle for longer.
#[tokio::test]
async fn s_06_connections_of_nobody_are_closed_soon() {
    let served = Authenticated::with(Options::with_clock(&TestClock::standing())).await;
    let connect = || served.server.connect();
    let (mut silent, mut half_a_head) = (connect().await, connect().await);
    let (mut refused, mut anns) = (connect().await, connect().await);
    half_a_head.send(b"POST /mcp HTTP/1.1\r\nHost: loc").await;
    assert_eq!(refused.exchange(&of("nobody", list())).await.status(), 401);
    anns.result(&of("ann", list())).await;
    // The timeouts are counted from when the connections were accepted, which the last one shows.
    served.result("ann", list()).await;
    served.tokens.clock.advance(Duration::from_secs(10));
    for closed in [&mut silent, &mut refused, &mut half_a_head] {
        assert_eq!(closed.read_to_close().await, 0);
    }
    anns.result(&of("ann", list())).await;
}
