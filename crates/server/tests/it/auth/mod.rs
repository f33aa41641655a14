//! Requests of several principals: who is served, and what of others they can learn.

mod access;
mod application;
mod audit;
mod audit_after_leaving;
mod audit_lines;
mod ends;
mod isolation;
mod permissions;
mod proxies;
mod shares;

use crate::{
    client::{Connection, Reply},
    clock::TestClock,
    request::{Post, everything},
    server::{Options, Server, get, other},
};
use longhaul_core::{Clock, Principal};
use longhaul_server::{
    Limits,
    auth::{
        AuthDecision, Authentication, Authenticator, Challenge, Denied, Grant, Identity, Permissions, RequestHead,
        Revocation,
    },
};
use serde_json::{Value, json};
use std::{
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

/// Where the test's authenticator says that its metadata is.
const METADATA: &str = "https://mcp.example.com/.well-known/oauth-protected-resource/tools/mcp";

/// The document there.
const METADATA_DOCUMENT: &str = r#"{"resource":"https://mcp.example.com/tools/mcp"}"#;

/// Knows tokens by their names: `ann` and `bob` are two principals, `ann-again` is another token of Ann's.
#[derive(Clone)]
struct Tokens {
    clock: TestClock,
    /// Ends `ann-revocable`.
    revocation: Revocation,
    /// Whether nobody is Ann any more.
    withdraws_ann: Arc<AtomicBool>,
    /// Requests that were asked about.
    asked: Arc<AtomicUsize>,
}

impl Tokens {
    fn new(clock: &TestClock) -> Self {
        Self {
            clock: clock.clone(),
            revocation: Revocation::default(),
            withdraws_ann: Arc::default(),
            asked: Arc::default(),
        }
    }

    fn identity(&self, token: &str) -> Option<Identity> {
        let granted =
            |names: &[&str]| -> Permissions { names.iter().map(|name| name.parse::<Grant>().unwrap()).collect() };
        let (name, rest) = token.split_once('-').unwrap_or((token, ""));
        let principal = match name {
            "ann" | "bob" => Principal::named(format!("key:{name}")),
            // The same subject at another issuer.
            "other" => Principal::named("oauth:https://other.example\nann"),
            _ => return None,
        };
        let verified = |permissions| Identity::verified(principal.clone(), permissions);
        Some(match rest {
            "" | "again" => verified(Permissions::all()),
            "expired" => verified(Permissions::all()).expiring_at(self.clock.wall()),
            "expiring" => verified(Permissions::all()).expiring_at(self.clock.wall().plus(60_000)),
            "revocable" => verified(Permissions::all()).with_revocation(&self.revocation),
            "reader" => verified(granted(&["tasks:read"])),
            "caller" => verified(granted(&["tools:opt*"])),
            "tools" => verified(granted(&["tools:*", "tasks:write"])),
            "resources" => verified(granted(&["resources:read"])),
            "nothing" => verified(granted(&[])),
            "mapped" => verified(granted(&[])).with_scope_names(|missing| Some(format!("theirs:{}", missing.len()))),
            "useless" => verified(granted(&[])).with_every_scope("their:tools their:tasks".into()),
            "useful" => verified(granted(&["tasks:read"])).with_every_scope("their:tools their:tasks".into()),
            _ => return None,
        })
    }
}

impl Authenticator for Tokens {
    fn authenticate<'a>(&'a self, head: &'a RequestHead<'a>) -> AuthDecision<'a> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        match head.bearer_token() {
            None => AuthDecision::NotMine,
            Some("later-ann") => AuthDecision::Pending(Box::pin(async { Ok(Arc::new(self.identity("ann").unwrap())) })),
            Some("again-ann") => {
                AuthDecision::Renewing(Box::pin(async { Ok(Arc::new(self.identity("ann").unwrap())) }))
            }
            Some("later-nobody") => AuthDecision::Pending(Box::pin(async { Err(Denied::invalid("it is nobody's")) })),
            Some("down") => AuthDecision::Known(Err(Denied::Unavailable {
                retry_after: Duration::from_millis(2500),
            })),
            Some("undecided") => AuthDecision::Known(Err(Denied::Undecided {
                retry_after: Duration::from_secs(30),
            })),
            Some(token) => AuthDecision::Known(match self.identity(token) {
                Some(identity) => Ok(Arc::new(identity)),
                None => Err(Denied::invalid("the token is unknown")),
            }),
        }
    }

    fn metadata(&self) -> Option<String> {
        Some(METADATA_DOCUMENT.to_owned())
    }

    fn is_withdrawn(&self, principal: &Principal) -> bool {
        self.withdraws_ann.load(Ordering::SeqCst) && principal.as_str() == "key:ann"
    }

    fn challenge(&self) -> Challenge {
        Challenge {
            resource_metadata: Some(METADATA.to_owned()),
            scope: None,
        }
    }
}

/// A server that knows these tokens.
struct Authenticated {
    server: Server,
    tokens: Tokens,
}

impl Authenticated {
    async fn start() -> Self {
        Self::with(Options::default()).await
    }

    async fn with(options: Options) -> Self {
        let tokens = Tokens::new(&options.clock);
        let server = Server::with(Options {
            authentication: Authentication {
                authenticators: vec![Arc::new(tokens.clone())],
                ..options.authentication
            },
            // The tests are not to be slowed down.
            limits: Limits {
                denied_per_second: None,
                unknown_ids_per_second: options.limits.unknown_ids_per_second.or(NonZeroU32::new(1_000_000)),
                ..options.limits
            },
            ..options
        })
        .await;
        Self { server, tokens }
    }

    /// A new legacy session of the token's principal, whose client can be asked everything.
    async fn session(&self, token: &str) -> String {
        let initialize = Post::initialize_with("2025-11-25", everything());
        let mut connection = self.server.connect().await;
        let reply = connection.exchange(&of(token, initialize)).await;
        let session = reply.head.header("mcp-session-id").unwrap().to_owned();
        let initialized = Post::legacy(Some(&session), "notifications/initialized", json!({})).without_id();
        assert_eq!(connection.exchange(&of(token, initialized)).await.status(), 202);
        session
    }

    async fn result(&self, token: &str, post: Post) -> Value {
        self.server.result(&of(token, post)).await
    }

    async fn task(&self, token: &str, post: Post) -> String {
        self.server.task(&of(token, post)).await
    }

    /// A task of the tool `optional`, which a session has asked for.
    async fn legacy_task(&self, token: &str, session: &str, acting: &str) -> String {
        self.task(token, Post::legacy_task(Some(session), "optional", acting))
            .await
    }

    async fn exchange(&self, token: &str, post: Post) -> Reply {
        self.server.exchange(&of(token, post)).await
    }

    async fn error(&self, token: &str, post: Post) -> (u16, i64) {
        self.server.error(&of(token, post)).await
    }

    /// The status of the answer, which may be no message.
    async fn status(&self, token: &str, post: Post) -> u16 {
        self.send(token, post).await.reply().await.status()
    }

    async fn send(&self, token: &str, post: Post) -> Connection {
        self.server.send(&of(token, post)).await
    }

    async fn stream(&self, token: &str, post: Post) -> Connection {
        self.server.stream(&of(token, post)).await
    }

    /// Sends a GET of a session, also with these headers.
    async fn get(&self, token: &str, session: &str, headers: &str) -> Connection {
        let mut client = self.server.connect().await;
        client.send(get_stream(token, session, headers).as_bytes()).await;
        client
    }

    /// Opens the push stream of a session.
    async fn listen(&self, token: &str, session: &str) -> Connection {
        let mut client = self.get(token, session, "").await;
        client.stream_head().await;
        client
    }

    /// A modern subscription, which was acknowledged.
    async fn subscribe(&self, token: &str, filter: Value) -> Connection {
        let listen = Post::modern("subscriptions/listen", json!({"notifications": filter}));
        let mut stream = self.stream(token, listen).await;
        let acknowledged = stream.message().await.unwrap();
        assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
        stream
    }

    /// Opens the rest of the stream of an event.
    async fn resume(&self, token: &str, session: &str, last_event: &str) -> Connection {
        let header = format!("Last-Event-ID: {last_event}\r\n");
        let mut client = self.get(token, session, &header).await;
        client.stream_head().await;
        client
    }

    /// Polls a task until it is `status`.
    async fn poll(&self, token: &str, task: &str, status: &str) -> Value {
        loop {
            let got = self.result(token, get(task)).await;
            if got["status"] == status {
                return got;
            }
            tokio::task::yield_now().await;
        }
    }

    /// The key of the first question of a task, once it has asked.
    async fn question(&self, token: &str, task: &str) -> String {
        loop {
            let got = self.result(token, get(task)).await;
            if let Some(asked) = got["inputRequests"].as_object() {
                return asked.keys().next().unwrap().clone();
            }
            tokio::task::yield_now().await;
        }
    }
}

/// A request with this token.
fn of(token: &str, post: Post) -> Post {
    post.with("Authorization", &format!("Bearer {token}"))
}

fn get_stream(token: &str, session: &str, headers: &str) -> String {
    let headers =
        format!("Authorization: Bearer {token}\r\nMcp-Session-Id: {session}\r\nAccept: text/event-stream\r\n{headers}");
    other("GET", &headers)
}
