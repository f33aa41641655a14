//! Detecting the era of a server.

use crate::peer::{Peer, ReceivedRequest, modern, plain};
use axum::{
    body::Body,
    http::{HeaderValue, Response},
};
use futures_util::stream;
use longhaul_client::{Connection, EraCache, EraChoice, OpenError, Options, RequestError};
use serde_json::{Value, json};
use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

type Answer = fn(&ReceivedRequest) -> Response<Body>;

/// Whether the client initializes a server that responds to the probe with `answer`.
async fn is_initialized(answer: Answer) -> Result<bool, RequestError> {
    is_initialized_within(answer, |_| {}).await
}

async fn is_initialized_within(answer: Answer, set: impl FnOnce(&mut Options)) -> Result<bool, RequestError> {
    let peer = Peer::start(move |seen| match seen.method() {
        "server/discover" => answer(seen),
        "initialize" => seen.result(json!({"protocolVersion": "2025-06-18", "capabilities": {}})),
        "notifications/initialized" => Response::builder().status(202).body(Body::empty()).unwrap(),
        _ => seen.result(json!({"resultType": "complete", "tools": []})),
    });
    let (connection, _) = peer.connection_with(set);
    connection.list_tools().await?;
    Ok(!peer.calls_of("initialize").is_empty())
}

/// It answers nothing, or its connection breaks.
#[tokio::test]
async fn a_server_that_does_not_answer_the_modern_request_gets_the_handshake() {
    fn json(body: Body) -> Response<Body> {
        let response = Response::builder().header("content-type", "application/json");
        response.body(body).unwrap()
    }
    let silent: [Answer; 2] = [
        |_| json(Body::from_stream(stream::pending::<Result<String, io::Error>>())),
        |_| {
            let broken = stream::iter([Ok("{".to_owned()), Err(io::Error::other("broken"))]);
            json(Body::from_stream(broken))
        },
    ];
    for answer in silent {
        let set = |options: &mut Options| options.request_timeout = Duration::from_millis(500);
        assert!(is_initialized_within(answer, set).await.unwrap());
    }
}

/// No single code decides.
#[tokio::test]
async fn any_response_but_a_modern_one_leads_to_the_handshake() {
    let legacy: [Answer; 14] = [
        |seen| seen.error(400, -32000, Value::Null),
        |seen| seen.error(404, -32601, Value::Null),
        |seen| seen.error(200, -32601, Value::Null),
        |seen| seen.error(400, -32022, json!({"supported": ["2025-11-25"]})),
        |_| plain(404, "not found"),
        |_| plain(405, ""),
        |_| plain(400, "Bad Request"),
        |_| plain(406, ""),
        // Servers that fail at a method that they do not know, each in its way.
        |_| plain(401, ""),
        |_| plain(403, ""),
        |_| plain(429, ""),
        |seen| seen.error(500, -32603, Value::Null),
        |_| plain(503, ""),
        |seen| seen.result(json!({"supportedVersions": ["2025-11-25"]})),
    ];
    for (index, answer) in legacy.into_iter().enumerate() {
        assert!(is_initialized(answer).await.unwrap(), "legacy answer {index}");
    }
    let modern: [Answer; 3] = [
        |seen| seen.result(json!({"resultType": "complete", "supportedVersions": ["2026-07-28"]})),
        |seen| seen.error(400, -32020, Value::Null),
        |seen| seen.error(400, -32021, Value::Null),
    ];
    for (index, answer) in modern.into_iter().enumerate() {
        assert!(!is_initialized(answer).await.unwrap(), "modern answer {index}");
    }
}

#[tokio::test]
async fn a_server_that_says_how_long_to_wait_is_asked_nothing_more() {
    let peer = Peer::start(|_| {
        let mut limited = plain(429, "");
        limited
            .headers_mut()
            .insert("retry-after", HeaderValue::from_static("90"));
        limited
    });
    let (connection, _) = peer.connection();
    let error = connection.list_tools().await.unwrap_err();
    assert_eq!(error.retry_after(), Some(90_000), "{error}");
    assert!(peer.calls_of("initialize").is_empty());
}

#[tokio::test]
async fn a_server_that_is_not_mcp_is_an_error_at_once() {
    let unknown = is_initialized(|seen| seen.error(400, -32022, json!({"supported": ["2031-01-01"]})))
        .await
        .unwrap_err();
    assert!(
        matches!(&unknown, RequestError::UnsupportedRevisions { supported } if supported.contains("2031-01-01")),
        "{unknown}"
    );

    let locked = Peer::start(|_| plain(401, ""));
    let (locked, _) = locked.connection();
    let locked = locked.server().await.unwrap_err();
    assert!(matches!(locked, RequestError::Unauthorized { .. }), "{locked}");

    let web = Peer::start(|_| plain(404, "<html>"));
    let open = Connection::open(&web.url(), Options::named("test", "0"))
        .await
        .unwrap_err();
    assert!(
        matches!(open, OpenError::Request(RequestError::HandshakeFailed(_))),
        "{open}"
    );
    let said = open.to_string();
    assert_eq!(said.matches("404").count(), 1, "{said}");

    let starting = Peer::start(|_| plain(503, "starting"));
    let (starting, _) = starting.connection();
    let starting = starting.server().await.unwrap_err();
    assert!(starting.is_transient());
}

#[tokio::test]
async fn a_server_replaced_by_a_legacy_one_is_probed_again() {
    let replaced = AtomicUsize::new(0);
    let peer = Peer::start(move |seen| {
        let now_legacy = replaced.load(Ordering::Relaxed) > 0;
        match seen.method() {
            "server/discover" if !now_legacy => seen.result(json!({"supportedVersions": ["2026-07-28"]})),
            "tasks/get" if !now_legacy => {
                replaced.store(1, Ordering::Relaxed);
                seen.error(400, -32000, json!("no session"))
            }
            "server/discover" => seen.error(400, -32000, Value::Null),
            "initialize" => seen.result(json!({"protocolVersion": "2025-11-25", "capabilities": {}})),
            "notifications/initialized" => Response::builder().status(202).body(Body::empty()).unwrap(),
            _ => seen.result(json!({"taskId": "t-1", "status": "working"})),
        }
    });
    let (connection, _) = peer.connection();
    connection.task("t-1").get().await.unwrap();
    assert_eq!(peer.calls_of("initialize").len(), 1);
}

/// FastMCP 4 over stdio, if it takes longer to start than the client waits.
#[tokio::test]
async fn a_modern_server_that_was_slow_to_answer_is_not_legacy() {
    let asked = AtomicUsize::new(0);
    let peer = Peer::start(move |seen| match seen.method() {
        "server/discover" if asked.fetch_add(1, Ordering::Relaxed) == 0 => plain(404, "starting"),
        "server/discover" => seen.result(json!({"supportedVersions": ["2026-07-28"]})),
        "initialize" => seen.error(200, -32022, json!({"supported": ["2026-07-28"]})),
        _ => seen.result(json!({"resultType": "complete", "tools": []})),
    });
    let (connection, _) = peer.connection();
    assert_eq!(connection.server().await.unwrap().version, "2026-07-28");
    connection.list_tools().await.unwrap();
}

/// The Python SDK 1.30 redirects `/mcp` to `/mcp/`.
#[tokio::test]
async fn a_redirect_within_the_origin_is_followed_once() {
    let answer = |seen: &ReceivedRequest| match seen.method() {
        "server/discover" => seen.error(400, -32000, Value::Null),
        "initialize" => seen.result(json!({"protocolVersion": "2025-11-25", "capabilities": {}})),
        "notifications/initialized" => Response::builder().status(202).body(Body::empty()).unwrap(),
        _ => seen.result(json!({"tools": []})),
    };
    let other = Peer::start(answer);
    let elsewhere = other.url();
    let redirects: [(u16, String, bool); 6] = [
        (307, "/mcp/".to_owned(), true),
        (308, "/mcp/".to_owned(), true),
        (302, "/mcp/".to_owned(), false),
        (303, "/mcp/".to_owned(), false),
        (307, "/again".to_owned(), false),
        (307, elsewhere, false),
    ];
    for (status, location, is_followed) in redirects {
        let to = location.clone();
        let peer = Peer::start(move |seen| match seen.path.as_str() {
            "/mcp" | "/again" => Response::builder()
                .status(status)
                .header("location", &to)
                .body(Body::empty())
                .unwrap(),
            _ => answer(seen),
        });
        let (connection, _) = peer.connection();
        let listed = connection.list_tools().await;
        assert_eq!(listed.is_ok(), is_followed, "{status} {location}: {listed:?}");
        let followed = peer.seen().into_iter().filter(|seen| seen.path == "/mcp/");
        assert!(
            followed
                .clone()
                .all(|seen| seen.verb == "POST" && seen.body.is_object())
        );
        assert_eq!(followed.count() > 0, is_followed);
    }
    assert!(other.seen().is_empty(), "{:?}", other.seen());
}

/// The target may be what the user should have given.
#[tokio::test]
async fn a_redirect_that_is_not_followed_is_named_without_secrets() {
    for (location, named) in [
        (
            "https://user:secret@other.example/mcp?token=secret#secret",
            "https://other.example/mcp",
        ),
        ("//other.example/mcp", "http://other.example/mcp"),
    ] {
        for content_type in ["text/html", "application/json"] {
            let peer = Peer::start(move |_| {
                let redirect = Response::builder().status(307).header("location", location);
                redirect
                    .header("content-type", content_type)
                    .body(Body::empty())
                    .unwrap()
            });
            let (connection, _) = peer.connection();
            let error = connection.list_tools().await.unwrap_err().to_string();
            let expected = format!("it redirects to {named}, which is not followed");
            assert!(error.contains("307") && error.contains(&expected), "{error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }
}

#[tokio::test]
async fn a_redirect_is_remembered_while_it_is_right() {
    let moved_back = AtomicUsize::new(0);
    let peer = Peer::start(move |seen| {
        let is_moved = moved_back.load(Ordering::Relaxed) == 0;
        match (seen.path.as_str(), seen.method()) {
            ("/mcp", _) if is_moved => Response::builder()
                .status(307)
                .header("location", "/mcp/")
                .body(Body::empty())
                .unwrap(),
            ("/mcp/", _) if !is_moved => plain(404, ""),
            (_, "server/discover") => seen.result(json!({"supportedVersions": ["2026-07-28"]})),
            (_, "ping") => {
                moved_back.store(1, Ordering::Relaxed);
                seen.result(json!({}))
            }
            _ => seen.result(json!({"tools": []})),
        }
    });
    let (connection, _) = peer.connection();
    for _ in 0..3 {
        connection.list_tools().await.unwrap();
    }
    let redirected = |seen: &&ReceivedRequest| seen.path == "/mcp";
    assert_eq!(peer.seen().iter().filter(redirected).count(), 1);
    connection.send("ping", Value::Null).await.unwrap();
    connection.list_tools().await.unwrap();
    assert_eq!(peer.calls_of("tools/list").last().unwrap().path, "/mcp");
}

#[tokio::test]
async fn a_server_is_probed_once_for_all_connections_that_share_a_cache() {
    let is_modern = Arc::new(AtomicBool::new(true));
    let now = Arc::clone(&is_modern);
    let peer = Peer::start(move |seen| match (seen.method(), now.load(Ordering::Relaxed)) {
        ("server/discover", true) => seen.result(json!({"supportedVersions": ["2026-07-28"], "instructions": "Hi."})),
        ("initialize", false) => seen.result(json!({"protocolVersion": "2025-11-25", "capabilities": {}})),
        ("notifications/initialized", _) => Response::builder().status(202).body(Body::empty()).unwrap(),
        ("tools/list", is_modern) if is_modern == seen.params()["_meta"].is_object() => {
            seen.result(json!({"resultType": "complete", "tools": []}))
        }
        _ => seen.error(400, -32000, Value::Null),
    });
    let cache = EraCache::default();
    let connect = || {
        let (connection, _) = peer.connection_with(|options| options.era_cache = cache.clone());
        connection
    };
    let probes = || ["server/discover", "initialize"].map(|method| peer.calls_of(method).len());
    for _ in 0..2 {
        let connection = connect();
        connection.list_tools().await.unwrap();
        assert_eq!(connection.server().await.unwrap().instructions.as_deref(), Some("Hi."));
    }
    assert_eq!(probes(), [1, 0]);

    is_modern.store(false, Ordering::Relaxed);
    connect().list_tools().await.unwrap();
    assert_eq!(probes(), [2, 1], "the cache was wrong");
    connect().list_tools().await.unwrap();
    assert_eq!(probes(), [2, 2], "a handshake, and no probe");

    is_modern.store(true, Ordering::Relaxed);
    connect().list_tools().await.unwrap();
    assert_eq!(probes(), [3, 3], "the cache was wrong again");

    let (stranger, _) = peer.connection();
    stranger.list_tools().await.unwrap();
    assert_eq!(probes(), [4, 3]);
}

#[tokio::test]
async fn tools_are_listed_from_all_pages() {
    let tool = |name: &str| json!({"name": name, "inputSchema": {"type": "object"}});
    let bad = json!({"name": "bad", "inputSchema": {"properties": {"a": {"type": "number", "x-mcp-header": "A"}}}});
    let peer = Peer::start(move |seen| match (seen.method(), seen.params()["cursor"].as_str()) {
        ("server/discover", _) => seen.result(json!({"supportedVersions": ["2026-07-28"]})),
        (_, None) => seen.result(json!({"tools": [tool("a"), bad], "nextCursor": ""})),
        (_, Some("")) => seen.result(json!({"tools": [tool("b"), {"noName": 1}], "nextCursor": "z"})),
        _ => seen.result(json!({"tools": [tool("c")]})),
    });
    let (connection, _) = peer.connection();
    let names: Vec<String> = connection
        .list_tools()
        .await
        .unwrap()
        .into_iter()
        .map(|tool| tool.name)
        .collect();
    assert_eq!(names, ["a", "b", "c"]);

    let endless = Peer::start(|seen| match seen.method() {
        "server/discover" => seen.result(json!({"supportedVersions": ["2026-07-28"]})),
        _ => seen.result(json!({"tools": [], "nextCursor": "same"})),
    });
    let (connection, _) = endless.connection();
    assert!(connection.list_tools().await.unwrap().is_empty());
}

#[tokio::test]
async fn garbage_is_an_error_and_not_a_panic() {
    for body in [
        "",
        "null",
        "[]",
        "{\"jsonrpc\":\"2.0\"}",
        "{\"jsonrpc\":\"2.0\",\"id\":999,\"result\":{}}",
        "\u{0}",
    ] {
        let peer = modern(move |_| {
            Response::builder()
                .header("content-type", "application/json")
                .body(Body::from(body))
                .unwrap()
        });
        let (connection, _) = peer.connection();
        assert!(connection.task("t-1").get().await.is_err(), "{body:?}");
    }
}

/// The revisions that a client which prefers 2025-11-25 speaks with servers of both, of one, and of the other.
#[tokio::test]
async fn the_preferred_revision_is_spoken_where_the_server_has_it() {
    for (legacy, modern, spoken) in [
        (true, true, "2025-11-25"),
        (true, false, "2025-11-25"),
        (false, true, "2026-07-28"),
    ] {
        let peer = Peer::start(move |seen| match seen.method() {
            "initialize" if legacy => seen.result(json!({"protocolVersion": "2025-11-25", "capabilities": {}})),
            "notifications/initialized" => Response::builder().status(202).body(Body::empty()).unwrap(),
            "server/discover" if modern => {
                seen.result(json!({"resultType": "complete", "supportedVersions": ["2026-07-28"]}))
            }
            "initialize" => seen.error(400, -32022, json!({"supported": ["2026-07-28"]})),
            _ => seen.error(400, -32601, Value::Null),
        });
        let mut options = Options::named("test", "0");
        options.era = EraChoice::PreferLegacy;
        let connection = Connection::lazy(&peer.url(), options).unwrap();
        let server = connection.server().await.unwrap();
        assert_eq!(server.version, spoken, "legacy {legacy}, modern {modern}");
        assert_eq!(server.is_modern(), spoken == "2026-07-28");
    }
}
