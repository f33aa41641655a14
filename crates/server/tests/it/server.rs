//! A whole server: store, engine, protocol server and listener, on a free port.

pub(crate) use crate::client::{task_of, text};
use crate::{
    client::{Connection, Reply},
    clock::TestClock,
    request::{self, Post},
    stage::{Logs, Stage},
};
use longhaul_core::{EventStore, HostId, Quota, Store};
use longhaul_runtime::{Engine, EngineOptions, Ports, Tool, ToolSettings};
use longhaul_server::{
    Limits, ProtocolServer, ProtocolServerOptions,
    audit::Audit,
    auth::{Authentication, Authenticator},
    http::{HttpOptions, Listener, PATH, Tls},
};
use longhaul_store::{MemoryStore, PlainCallStore, SqliteOptions, SqliteStore};
use serde_json::{Value, json};
use std::{net::SocketAddr, num::NonZeroU32, path::Path, sync::Arc};
use tokio::sync::oneshot;

pub(crate) const MAX_BODY: usize = 256 * 1024;

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) stage: Stage,
    pub(crate) engine: Engine,
    pub(crate) protocol: Arc<ProtocolServer>,
    stop: oneshot::Sender<()>,
    stopped: oneshot::Receiver<()>,
}

/// The options of a test's server.
pub(crate) struct Options {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) host: &'static str,
    pub(crate) strict_headers: bool,
    pub(crate) http: HttpOptions,
    pub(crate) tls: Option<Tls>,
    pub(crate) events: Option<Arc<dyn EventStore>>,
    pub(crate) audit: Option<Arc<dyn Audit>>,
    pub(crate) limits: Limits,
    pub(crate) authentication: Authentication,
    pub(crate) quota: Quota,
    pub(crate) clock: TestClock,
    pub(crate) max_running: Option<usize>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            store: Arc::new(MemoryStore::default()),
            host: "test",
            strict_headers: false,
            http: HttpOptions::default(),
            tls: None,
            events: None,
            audit: None,
            limits: Limits::default(),
            authentication: Authentication::default(),
            quota: Quota::default(),
            clock: TestClock::default(),
            max_running: None,
        }
    }
}

impl Options {
    pub(crate) fn with_store(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            ..Self::default()
        }
    }

    pub(crate) fn with_clock(clock: &TestClock) -> Self {
        Self {
            clock: clock.clone(),
            ..Self::default()
        }
    }

    /// The default, changed.
    pub(crate) fn with(change: impl FnOnce(&mut Self)) -> Self {
        let mut options = Self::default();
        change(&mut options);
        options
    }

    pub(crate) fn with_authenticator(authenticator: impl Authenticator + 'static) -> Self {
        Self {
            authentication: Authentication {
                authenticators: vec![Arc::new(authenticator)],
                ..Authentication::default()
            },
            ..Self::default()
        }
    }
}

impl Server {
    pub(crate) async fn start() -> Self {
        Self::with(Options::default()).await
    }

    /// One with a session.
    pub(crate) async fn with_session() -> (Self, String) {
        let server = Self::start().await;
        let session = server.session().await;
        (server, session)
    }

    /// A server that serves one connection at a time: if the next one is answered, the last one is over.
    pub(crate) async fn one_by_one() -> Self {
        Self::with(Options::with(|options| options.limits.connections_in_all = 1)).await
    }

    /// A server that accepts one request a second from each client.
    pub(crate) async fn one_a_second() -> Self {
        let once = NonZeroU32::new(1);
        Self::with(Options::with(|options| options.limits.requests_per_second = once)).await
    }

    /// A server whose tasks are in this folder. Opening a store blocks until its last owner closes it, so that needs a thread of its own.
    pub(crate) async fn on_disk(folder: &Path) -> Self {
        let store = SqliteStore::open(folder, SqliteOptions::default()).unwrap();
        Self::with(Options::with_store(Arc::new(store))).await
    }

    pub(crate) async fn with(options: Options) -> Self {
        let stage = Stage::default();
        let (engine, _) = Engine::start(EngineOptions {
            store: Arc::new(PlainCallStore::in_front_of(options.store)),
            ports: Ports {
                clock: Arc::new(options.clock),
                ..Ports::system()
            },
            node: HostId(options.host.into()).into(),
            lost_after: longhaul_runtime::HOST_LOST_AFTER,
            catalog: stage.catalog(),
            providers: vec![Arc::new(Logs(stage.clone()))],
            max_running: options.max_running,
            quota: options.quota,
            suspend_after: longhaul_runtime::SUSPEND_AFTER,
            build: longhaul_runtime::BuildId::named("test"),
            step_observer: None,
            may_begin: options.authentication.may_begin(),
            cipher: None,
        })
        .await
        .unwrap();
        let protocol = ProtocolServer::new(ProtocolServerOptions {
            engine: engine.clone(),
            server_info: longhaul_server::ServerInfo::new("tested", "1"),
            max_body: MAX_BODY,
            strict_headers: options.strict_headers,
            limits: options.limits,
            authentication: options.authentication,
            http: options.http,
            events: options.events,
            audit: options.audit,
        });
        let protocol = Arc::new(protocol.await.unwrap());
        let mut listener = Listener::bind(([127, 0, 0, 1], 0).into()).await.unwrap();
        if let Some(tls) = options.tls {
            listener = listener.with_tls(tls);
        }
        let address = listener.address();
        let (stop, stopping) = oneshot::channel();
        let (done, stopped) = oneshot::channel();
        let served = Arc::clone(&protocol);
        engine.ports().spawner.spawn(Box::pin(async move {
            listener.serve(served, async { stopping.await.unwrap_or(()) }).await;
            let _ = done.send(());
        }));
        Self {
            address,
            stage,
            engine,
            protocol,
            stop,
            stopped,
        }
    }

    /// Asks the server to stop and waits until it has.
    pub(crate) async fn stop(self) {
        let _ = self.stop.send(());
        self.stopped.await.unwrap();
        self.engine.stop();
    }

    /// Offers a tool, also in place of one of its name.
    pub(crate) async fn put_tool(&self, settings: ToolSettings) {
        self.engine.put_tool(Tool::new(settings).unwrap()).await.unwrap();
    }

    pub(crate) async fn connect(&self) -> Connection {
        Connection::open(self.address).await
    }

    /// The result of one request on a connection of its own.
    pub(crate) async fn result(&self, post: &Post) -> Value {
        self.connect().await.result(post).await
    }

    /// The task of one call on a connection of its own.
    pub(crate) async fn task(&self, post: &Post) -> String {
        self.connect().await.task(post).await
    }

    /// A task of the tool `optional`, which a session has asked for.
    pub(crate) async fn legacy_task(&self, session: &str, acting: &str) -> String {
        self.task(&Post::legacy_task(Some(session), "optional", acting)).await
    }

    /// The tasks that a session is shown.
    pub(crate) async fn listed(&self, session: &str) -> Value {
        let list = Post::legacy(Some(session), "tasks/list", json!({}));
        self.result(&list).await["tasks"].clone()
    }

    /// The answer to one request on a connection of its own.
    pub(crate) async fn exchange(&self, post: &Post) -> Reply {
        self.connect().await.exchange(post).await
    }

    /// Sends what has no response.
    pub(crate) async fn accepted(&self, post: &Post) {
        let reply = self.exchange(post).await;
        assert_eq!((reply.status(), reply.body.as_str()), (202, ""));
    }

    /// Answers a request of the server's with a result.
    pub(crate) async fn answer(&self, session: &str, request: &Value, result: Value) {
        self.accepted(&Post::response(session, &request["id"], ("result", result)))
            .await;
    }

    /// A connection on which a request was sent.
    pub(crate) async fn send(&self, post: &Post) -> Connection {
        let mut client = self.connect().await;
        client.send(&post.to_bytes()).await;
        client
    }

    /// The same, once the tool that is called has begun.
    pub(crate) async fn begin(&self, call: &Post) -> Connection {
        let begun = self.stage.begun.get() + 1;
        let client = self.send(call).await;
        self.stage.begun.reaches(begun).await;
        client
    }

    /// A connection on which a request was sent, whose answer is a stream.
    pub(crate) async fn stream(&self, post: &Post) -> Connection {
        let mut client = self.send(post).await;
        client.stream_head().await;
        client
    }

    /// Status and code of the error of one request on its own connection.
    pub(crate) async fn error(&self, post: &Post) -> (u16, i64) {
        self.connect().await.error(post).await
    }

    /// A new legacy session with tasks.
    pub(crate) async fn session(&self) -> String {
        self.session_of("2025-11-25").await
    }

    pub(crate) async fn session_of(&self, version: &str) -> String {
        self.session_with(version, json!({})).await
    }

    /// A new legacy session whose client can be asked everything.
    pub(crate) async fn session_that_can_be_asked(&self) -> String {
        self.session_with("2025-11-25", request::everything()).await
    }

    pub(crate) async fn session_with(&self, version: &str, capabilities: Value) -> String {
        let mut connection = self.connect().await;
        let reply = connection.exchange(&Post::initialize_with(version, capabilities)).await;
        let session = reply.head.header("mcp-session-id").unwrap().to_owned();
        let initialized = Post::legacy(Some(&session), "notifications/initialized", json!({})).without_id();
        assert_eq!(connection.exchange(&initialized).await.status(), 202);
        session
    }

    /// Opens a push stream, as a legacy client does.
    pub(crate) async fn listen(&self, session: &str) -> Connection {
        self.open(session, None).await
    }

    /// Opens the rest of the stream of an event.
    pub(crate) async fn resume(&self, session: &str, last_event: &str) -> Connection {
        self.open(session, Some(last_event)).await
    }

    pub(crate) async fn open(&self, session: &str, last_event: Option<&str>) -> Connection {
        let mut client = self.get(session, last_event).await;
        client.stream_head().await;
        client
    }

    /// Sends a GET of a session; with an event id, of the rest of that event's stream.
    pub(crate) async fn get(&self, session: &str, last_event: Option<&str>) -> Connection {
        let mut headers = format!("Mcp-Session-Id: {session}\r\nAccept: text/event-stream\r\n");
        if let Some(id) = last_event {
            headers.push_str(&format!("Last-Event-ID: {id}\r\n"));
        }
        let mut client = self.connect().await;
        client.send(other("GET", &headers).as_bytes()).await;
        client
    }

    /// The client ends a session: the status of the answer.
    pub(crate) async fn delete(&self, session: &str) -> u16 {
        let mut client = self.connect().await;
        let delete = other("DELETE", &format!("Mcp-Session-Id: {session}\r\n"));
        client.send(delete.as_bytes()).await;
        client.reply().await.status()
    }

    /// Polls a task until it is `status`, as a modern client would.
    pub(crate) async fn poll(&self, task: &str, status: &str) -> Value {
        let mut connection = self.connect().await;
        loop {
            let got = connection.result(&get(task)).await;
            if got["status"] == status {
                return got;
            }
            assert!(
                ["working", "input_required"].contains(&got["status"].as_str().unwrap()),
                "{got:#} will never be {status}"
            );
            tokio::task::yield_now().await;
        }
    }

    /// The text of the result of a task, which completes.
    pub(crate) async fn text_of(&self, task: &str) -> String {
        text(&self.poll(task, "completed").await["result"]).to_owned()
    }
}

/// `tasks/get` of a modern client.
pub(crate) fn get(task: &str) -> Post {
    Post::modern("tasks/get", json!({"taskId": task}))
}

/// `tasks/cancel` of a modern client.
pub(crate) fn cancel(task: &str) -> Post {
    Post::modern("tasks/cancel", json!({"taskId": task}))
}

/// `tasks/update` of a modern client.
pub(crate) fn update(task: &str, answers: Value) -> Post {
    Post::modern("tasks/update", json!({"taskId": task, "inputResponses": answers}))
}

/// A raw request line for another method than POST.
pub(crate) fn other(method: &str, headers: &str) -> String {
    format!("{method} {PATH} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n")
}
