//! A whole server without a network, in which time passes only when nothing else can happen.

use super::{deterministic, expected, pipe::Pipe, tools};
use crate::request::Post;
use axum::{Router, body::Body};
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Request};
use http_body_util::BodyExt;
use longhaul_core::HostId;
use longhaul_runtime::{Engine, EngineOptions};
use longhaul_server::{
    ProtocolServer, ProtocolServerOptions,
    http::{PATH, router},
};
use longhaul_store::MemoryStore;
use serde_json::Value;
use std::{
    cell::RefCell,
    sync::{
        Arc, Once,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::runtime::Runtime;
use tower::ServiceExt;

/// After so long without an end a client gives up.
const PATIENCE: Duration = Duration::from_secs(120);

pub(super) struct World {
    runtime: Runtime,
    router: Router,
    protocol: Arc<ProtocolServer>,
    engine: Engine,
    started: Arc<AtomicUsize>,
}

/// What came back.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) session: Option<String>,
    pub(super) is_stream: bool,
    pub(super) body: Vec<u8>,
    /// The messages in the body, as text and parsed.
    pub(super) messages: Vec<(String, Value)>,
    /// Whether the client gave up before the end.
    pub(super) is_cut: bool,
}

impl World {
    pub(super) fn new() -> Self {
        let runtime = deterministic::runtime();
        let started = Arc::new(AtomicUsize::new(0));
        let (engine, protocol) = runtime.block_on(async {
            let (engine, _) = Engine::start(EngineOptions {
                store: Arc::new(MemoryStore::default()),
                ports: deterministic::ports(),
                node: HostId("fuzzed".into()).into(),
                lost_after: longhaul_runtime::HOST_LOST_AFTER,
                catalog: tools::catalog(&started),
                providers: Vec::new(),
                max_running: None,
                quota: longhaul_core::Quota::default(),
                suspend_after: longhaul_runtime::SUSPEND_AFTER,
                build: longhaul_runtime::BuildId::named("test"),
                step_observer: None,
                may_begin: None,
                cipher: None,
            })
            .await
            .unwrap();
            let protocol = ProtocolServer::new(ProtocolServerOptions {
                engine: engine.clone(),
                server_info: longhaul_server::ServerInfo::new("tested", "1"),
                max_body: 64 * 1024,
                strict_headers: false,
                limits: longhaul_server::Limits::default(),
                authentication: longhaul_server::auth::Authentication::default(),
                http: longhaul_server::http::HttpOptions::default(),
                events: None,
                audit: None,
            });
            (engine, Arc::new(protocol.await.unwrap()))
        });
        Self {
            runtime,
            router: router(Arc::clone(&protocol)),
            protocol,
            engine,
            started,
        }
    }

    /// How many runs of tools have started.
    pub(super) fn started(&self) -> usize {
        // Time passes only when nothing else can run.
        self.pass(Duration::from_millis(1));
        self.started.load(Ordering::Relaxed)
    }

    /// Lets this much time pass.
    pub(super) fn pass(&self, time: Duration) {
        let clock = &self.engine.ports().clock;
        self.runtime.block_on(async { clock.sleep(time).await });
    }

    /// Connects to the server over a pipe, until `talk` completes.
    pub(super) fn over_a_pipe<T>(&self, talk: impl AsyncFnOnce(Pipe) -> T) -> T {
        self.runtime.block_on(async {
            let pipe = Pipe::open(&self.protocol, self.engine.ports());
            talk(pipe).await
        })
    }

    /// Sends a POST as it is.
    pub(super) fn send(&self, post: &Post) -> Reply {
        self.post(&post.headers(), post.body.to_string().into_bytes())
    }

    /// Posts a body; headers that HTTP cannot carry are left out.
    pub(super) fn post(&self, headers: &[(String, Vec<u8>)], body: Vec<u8>) -> Reply {
        self.request(Method::POST, headers, body, PATIENCE)
    }

    /// Asks for a stream, and leaves it after a second.
    pub(super) fn get(&self, headers: &[(String, Vec<u8>)]) -> Reply {
        self.request(Method::GET, headers, Vec::new(), Duration::from_secs(1))
    }

    fn request(&self, method: Method, headers: &[(String, Vec<u8>)], body: Vec<u8>, patience: Duration) -> Reply {
        let mut request = Request::new(Body::from(body.clone()));
        *request.method_mut() = method;
        *request.uri_mut() = http::Uri::from_static(PATH);
        let all = request.headers_mut();
        all.insert("host", HeaderValue::from_static("localhost"));
        for (name, value) in headers {
            if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::from_bytes(value)) {
                all.append(name, value);
            }
        }
        let mut reply = self.runtime.block_on(self.exchange(request, patience));
        reply.messages = expected::hear(&body, &reply);
        reply
    }

    async fn exchange(&self, request: Request<Body>, patience: Duration) -> Reply {
        let mut patience = self.engine.ports().clock.sleep(patience);
        let mut reply = Reply {
            status: 0,
            session: None,
            is_stream: false,
            body: Vec::new(),
            messages: Vec::new(),
            is_cut: true,
        };
        let response = tokio::select! {
            response = self.router.clone().oneshot(request) => response.unwrap(),
            () = &mut patience => return reply,
        };
        let (parts, mut body) = response.into_parts();
        let text = |name| {
            parts
                .headers
                .get(name)
                .map(|value: &HeaderValue| value.to_str().unwrap())
        };
        reply.status = parts.status.as_u16();
        reply.session = text("mcp-session-id").map(str::to_owned);
        reply.is_stream = text("content-type") == Some("text/event-stream");
        loop {
            let frame = tokio::select! {
                frame = body.frame() => frame,
                () = &mut patience => return reply,
            };
            let Some(frame) = frame else { break };
            let data: Bytes = frame.unwrap().into_data().unwrap_or_default();
            reply.body.extend(data);
        }
        reply.is_cut = false;
        reply
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.engine.stop();
    }
}

/// How many panics there have been, caught ones too, since this was first asked.
fn panics() -> usize {
    static PANICS: AtomicUsize = AtomicUsize::new(0);
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            PANICS.fetch_add(1, Ordering::Relaxed);
            before(panic);
        }));
    });
    PANICS.load(Ordering::Relaxed)
}

/// After so many cases the world is made anew: one costs more than a case, and one that is full of tasks is slow.
const CASES: usize = 32;

/// One world after the other.
#[derive(Default)]
pub(super) struct Worlds(RefCell<Option<(World, usize)>>);

impl Worlds {
    /// Tries a case. If the server breaks an expectation, the next case gets a new world.
    pub(super) fn with(&self, case: impl FnOnce(&World)) {
        let kept = self.0.borrow_mut().take();
        let (world, tried) = kept.unwrap_or_else(|| (World::new(), 0));
        let before = panics();
        case(&world);
        // A panic in spawned work is caught, and would not be noticed.
        assert_eq!(panics(), before, "something panicked");
        if tried < CASES {
            *self.0.borrow_mut() = Some((world, tried + 1));
        }
    }
}
