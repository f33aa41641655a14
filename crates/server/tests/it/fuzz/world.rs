//! A whole server without a network, in which time passes only when nothing else can happen.

use super::{law, still, tools};
use axum::{Router, body::Body};
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request};
use http_body_util::BodyExt;
use longhaul_core::HostId;
use longhaul_runtime::{Engine, EngineOptions};
use longhaul_server::{
    Front, FrontOptions,
    http::{PATH, router},
};
use longhaul_store::MemoryStore;
use serde_json::Value;
use std::{
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
    /// The messages in it, as text and as trees.
    pub(super) messages: Vec<(String, Value)>,
    /// Whether the client gave up before the end.
    pub(super) is_cut: bool,
}

impl World {
    pub(super) fn new() -> Self {
        let runtime = still::runtime();
        let started = Arc::new(AtomicUsize::new(0));
        let (engine, router) = runtime.block_on(async {
            let (engine, _) = Engine::start(EngineOptions {
                store: Arc::new(MemoryStore::default()),
                ports: still::ports(),
                host: HostId("fuzzed".into()),
                catalog: tools::catalog(&started),
                providers: Vec::new(),
                max_running: None,
                quota: longhaul_core::Quota::default(),
            })
            .await
            .unwrap();
            let front = Front::new(FrontOptions {
                engine: engine.clone(),
                name: "tested".to_owned(),
                version: "1".to_owned(),
                instructions: None,
                max_body: 64 * 1024,
                strict_headers: false,
                limits: longhaul_server::Limits::default(),
                http: longhaul_server::http::HttpOptions::default(),
            });
            (engine, router(Arc::new(front.await.unwrap())))
        });
        Self {
            runtime,
            router,
            engine,
            started,
        }
    }

    /// How many runs of tools have started.
    pub(super) fn started(&self) -> usize {
        let clock = &self.engine.ports().clock;
        // Time passes only when nothing else can run.
        self.runtime
            .block_on(async { clock.sleep(Duration::from_millis(1)).await });
        self.started.load(Ordering::Relaxed)
    }

    /// Posts a body; headers that HTTP cannot carry are left out.
    pub(super) fn post(&self, headers: &[(String, Vec<u8>)], body: Vec<u8>) -> Reply {
        let mut request = Request::post(PATH).body(Body::from(body.clone())).unwrap();
        let all = request.headers_mut();
        all.insert("host", HeaderValue::from_static("localhost"));
        for (name, value) in headers {
            if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::from_bytes(value)) {
                all.append(name, value);
            }
        }
        let mut reply = self.runtime.block_on(self.exchange(request));
        reply.messages = law::hear(&body, &reply);
        reply
    }

    async fn exchange(&self, request: Request<Body>) -> Reply {
        let mut patience = self.engine.ports().clock.sleep(PATIENCE);
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
pub(super) fn panics() -> usize {
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
