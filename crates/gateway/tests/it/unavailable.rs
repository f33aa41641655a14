//! What clients learn while no upstream can be reached.

use crate::{
    client::Client,
    upstream::{Tasks, Upstream},
    world::{RunningGateway, at_url, guarded, options, until},
};
use axum::{Router, extract::State, routing::any};
use http::{HeaderMap, StatusCode};
use longhaul::{Era, Server, testing};
use longhaul_client::{AccessToken, Refusal, RequestError, RpcFailure, TokenError, TokenProvider};
use longhaul_core::{BoxFuture, Clock, Principal, UnixMillis};
use longhaul_gateway::{Gateway, PrincipalTokens, Target, UpstreamOptions, UpstreamTokens};
use longhaul_private_dir::PrivateDir;
use longhaul_runtime::Ports;
use serde_json::json;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::sync::{Notify, Semaphore};

fn rpc_failure(refused: &Result<(), RequestError>) -> &RpcFailure {
    match refused {
        Err(RequestError::Rpc(failure)) => failure,
        other => panic!("{other:?}"),
    }
}

/// It is not asked again before the time that it has named.
#[expect(clippy::disallowed_methods, reason = "the test is the outside world")]
#[tokio::test]
async fn clients_learn_how_long_an_upstream_asks_to_wait() {
    let asked = Arc::<AtomicU64>::default();
    let refuse = async |State(asked): State<Arc<AtomicU64>>| {
        asked.fetch_add(1, Ordering::SeqCst);
        (StatusCode::TOO_MANY_REQUESTS, [("retry-after", "1800")], "")
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = at_url(format!("http://{}/mcp", listener.local_addr().unwrap()));
    let router = Router::new().fallback(any(refuse)).with_state(Arc::clone(&asked));
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    let directory = tempfile::tempdir().unwrap();
    let gateway = RunningGateway::start(directory.path(), vec![UpstreamOptions::new("up", target)]).await;
    let client = Client::connect(&gateway.url, Tasks::Modern);
    let refused = guarded("the list", client.connection.list_tools()).await.map(drop);
    let failure = rpc_failure(&refused);
    let why = "it asks to be called again in 30m";
    assert!(failure.message.ends_with(why), "{failure:?}");
    let statuses = format!("{:?}", gateway.statuses().await);
    assert!(statuses.contains(why), "{statuses}");
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    gateway.stop().await;
}

/// A list without tools would look as if nothing was wrong.
#[tokio::test]
async fn a_gateway_without_any_upstream_says_why_it_has_no_tools() {
    let up = Upstream::start(Tasks::Modern).await;
    let mut upstreams = options(&[("down", &up), ("up", &up)]);
    upstreams[0].target = at_url("http://127.0.0.1:1/mcp?key=SECRET".to_owned());
    let directory = tempfile::tempdir().unwrap();
    let gateway = RunningGateway::start(directory.path(), upstreams[..1].to_vec()).await;
    for tasks in Tasks::ALL {
        let client = Client::connect(&gateway.url, tasks);
        let refused = guarded("the list", client.connection.list_tools()).await.map(drop);
        let failure = rpc_failure(&refused);
        let why = "There are no tools: upstream `down`: it cannot be reached";
        assert!(failure.message.starts_with(why), "{failure:?}");
        assert!(!failure.message.contains("SECRET"), "{failure:?}");
    }
    // One that answers is enough.
    gateway.reload(upstreams.clone()).await.unwrap();
    let client = Client::connect(&gateway.url, Tasks::Modern);
    let engine = gateway.server.engine().unwrap();
    until("the tools", || engine.catalog().tool("up_echo").is_some()).await;
    assert!(!client.connection.list_tools().await.unwrap().is_empty());
    // A tool of the other one may be known from before.
    let call = json!({"name": "down_build", "arguments": {}});
    let missing = client.connection.send("tools/call", call).await.unwrap_err();
    let missing = missing.to_string();
    let why = "Unknown tool: down_build. It may be one of those that are not available now: upstream `down`: it cannot be reached";
    assert!(missing.contains(why) && !missing.contains("SECRET"), "{missing}");
    gateway.reload(upstreams[..1].to_vec()).await.unwrap();
    // It is dialled anew.
    until("the reason", || engine.catalog().snapshot().unavailable.is_some()).await;
    // The other one has kept the list.
    let client = Client::connect(&gateway.url, Tasks::Modern);
    let refused = client.connection.list_tools().await.map(drop);
    let has_none = |message: &str| message.starts_with("There are no tools");
    assert!(has_none(&rpc_failure(&refused).message), "{refused:?}");
    gateway.stop().await;
}

/// A login that is not done. So nothing is sent.
struct Pending;

impl TokenProvider for Pending {
    fn token(&self) -> BoxFuture<'_, Result<Option<AccessToken>, TokenError>> {
        Box::pin(std::future::pending())
    }

    fn replace<'a>(&'a self, _: Refusal<'a>) -> BoxFuture<'a, Result<Option<AccessToken>, TokenError>> {
        Box::pin(std::future::pending())
    }
}

/// Nobody waits for these 45 seconds: the clock goes on when nothing else does.
#[tokio::test(start_paused = true)]
#[expect(clippy::disallowed_methods, reason = "the test reads the paused clock")]
async fn a_list_of_tools_waits_for_a_silent_upstream_until_it_is_named() {
    let target = Target::Http {
        url: "http://127.0.0.1:1/mcp".to_owned(),
        headers: HeaderMap::new(),
        tokens: Some(UpstreamTokens::Shared(Arc::new(Pending))),
    };
    let silent = UpstreamOptions::new("silent", target);
    let ports = Ports::system();
    let gateway = Gateway::new(vec![silent], false, "1.0.0", None, &ports).unwrap();
    let server = Server::new("gateway", "1.0.0").provider(gateway.provider());
    let server = server.start().await.unwrap();
    let engine = server.engine().unwrap();
    let begun = tokio::time::Instant::now();
    let list = async {
        let client = testing::Client::connect(&server, Era::Modern).await.unwrap();
        let refused = client.request("tools/list", json!({})).await.unwrap_err();
        (refused, begun.elapsed())
    };
    let unseen = gateway.start(&engine).await;
    let ((), (refused, waited)) = tokio::join!(gateway.wait(&engine, unseen), list);
    let why = "There are no tools: upstream `silent`: it has not answered since it was started, and may still do so";
    assert_eq!(refused.message, why);
    assert!(waited >= Duration::from_secs(45), "{waited:?}");
    drop(engine);
    gateway.stop().await;
    server.stop().await;
}

/// A login that is done when the test says so.
struct Held {
    asked: Notify,
    done: Semaphore,
}

impl TokenProvider for Held {
    fn token(&self) -> BoxFuture<'_, Result<Option<AccessToken>, TokenError>> {
        Box::pin(async {
            self.asked.notify_one();
            // Never closed; once done it is done for all.
            let _ = self.done.acquire().await;
            Ok(None)
        })
    }

    fn replace<'a>(&'a self, _: Refusal<'a>) -> BoxFuture<'a, Result<Option<AccessToken>, TokenError>> {
        Box::pin(std::future::ready(Ok(None)))
    }
}

/// A host that knows the tool from an earlier list calls it at once.
#[tokio::test]
async fn a_call_waits_for_an_upstream_that_is_dialled_for_the_first_time() {
    let up = Upstream::start(Tasks::Modern).await;
    let held = Arc::new(Held {
        asked: Notify::new(),
        done: Semaphore::new(0),
    });
    let mut upstreams = vec![up.options("up"), up.options("slow")];
    upstreams[1].target = Target::Http {
        url: up.url.clone(),
        headers: HeaderMap::new(),
        tokens: Some(UpstreamTokens::Shared(Arc::clone(&held) as _)),
    };
    let directory = tempfile::tempdir().unwrap();
    let gateway = RunningGateway::start(directory.path(), upstreams[..1].to_vec()).await;
    gateway.reload(upstreams).await.unwrap();
    held.asked.notified().await;
    for era in [Era::Modern, Era::Legacy] {
        let client = testing::Client::connect(&gateway.server, era).await.unwrap();
        let call = json!({"name": "up_nothing", "arguments": {}});
        let missing = client.request("tools/call", call).await;
        // Nobody may have it.
        assert_eq!(missing.unwrap_err().message, "Unknown tool: up_nothing");
    }
    let client = testing::Client::connect(&gateway.server, Era::Legacy).await.unwrap();
    let call = json!({"name": "slow_echo", "arguments": {"text": "here"}});
    let echo = client.request("tools/call", call);
    let release = async {
        // So that the call is there first.
        tokio::task::yield_now().await;
        held.done.add_permits(1_000);
    };
    let (echoed, ()) = guarded("the call", async { tokio::join!(echo, release) }).await;
    let echoed = echoed.unwrap();
    assert!(echoed.to_string().contains("here"), "{echoed}");
    gateway.stop().await;
}

/// Sleeps are over at once, and count.
#[derive(Default)]
struct FastClock(AtomicU64);

impl Clock for FastClock {
    fn now(&self) -> UnixMillis {
        Ports::system().clock.now()
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::SeqCst))
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let passed = u64::try_from(duration.as_millis()).unwrap();
        self.0.fetch_add(passed, Ordering::SeqCst);
        Box::pin(tokio::task::yield_now())
    }
}

/// A login that was revoked.
#[derive(Default)]
struct Revoked(AtomicU64);

impl TokenProvider for Revoked {
    fn token(&self) -> BoxFuture<'_, Result<Option<AccessToken>, TokenError>> {
        self.0.fetch_add(1, Ordering::SeqCst);
        let error = TokenError::LoginRequired {
            reason: "it was revoked".to_owned(),
            names_issuers: false,
        };
        Box::pin(std::future::ready(Err(error)))
    }

    fn replace<'a>(&'a self, _: Refusal<'a>) -> BoxFuture<'a, Result<Option<AccessToken>, TokenError>> {
        self.token()
    }
}

/// Of the user who runs the gateway. The others have theirs.
struct OwnRevoked(Arc<Revoked>);

impl PrincipalTokens for OwnRevoked {
    fn of(&self, principal: &Principal) -> Arc<dyn TokenProvider> {
        match *principal == Principal::local() {
            true => Arc::clone(&self.0) as _,
            false => Arc::new(AccessToken::new("good").unwrap()),
        }
    }
}

/// The lists are read with the login of the user who runs the gateway. If that alone is lost, the tools of the others stay, also over a restart.
#[tokio::test]
async fn a_login_that_one_principal_has_lost_takes_no_tools_from_others() {
    let up = Upstream::start(Tasks::Modern).await;
    for is_shared in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let mut upstreams = options(&[("up", &up)]);
        let before = RunningGateway::start(directory.path(), upstreams.clone()).await;
        before.stop().await;
        let revoked = Arc::new(Revoked::default());
        let Target::Http { tokens, .. } = &mut upstreams[0].target else {
            unreachable!()
        };
        *tokens = Some(match is_shared {
            true => UpstreamTokens::Shared(Arc::clone(&revoked) as _),
            false => UpstreamTokens::PerPrincipal(Arc::new(OwnRevoked(Arc::clone(&revoked)))),
        });
        let clock = Arc::new(FastClock::default());
        let ports = Ports {
            clock: Arc::clone(&clock) as _,
            ..Ports::system()
        };
        let folder = PrivateDir::create(&directory.path().join("upstreams")).unwrap();
        let gateway = Gateway::new(upstreams, false, "1.0.0", Some(folder), &ports).unwrap();
        let server = Server::new("gateway", "1.0.0").provider(gateway.provider());
        let server = server.start().await.unwrap();
        let engine = server.engine().unwrap();
        let unseen = gateway.start(&engine).await;
        gateway.wait(&engine, unseen).await;
        // Twice as long as the tools of an upstream that is down stay.
        let is_over = || clock.monotonic() > Duration::from_millis(2 * longhaul_gateway::KEPT_WHILE_DOWN);
        until("two minutes of the clock", is_over).await;
        let tries = revoked.0.load(Ordering::SeqCst);
        until("another try", || revoked.0.load(Ordering::SeqCst) > tries + 1).await;
        assert_eq!(engine.catalog().tool("echo").is_some(), !is_shared);
        drop(engine);
        gateway.stop().await;
        server.stop().await;
    }
}
