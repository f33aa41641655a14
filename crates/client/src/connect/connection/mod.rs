//! The connection to a server.

mod exchange;
mod resumed_session;

use crate::{
    Address, InvalidAddress, OpenError, Options, RequestError, ServerChange, ServerDescription,
    address::masked_address,
    connect::{
        era::{self, Era},
        legacy::{hosted_tasks::HostedTasks, tasks::LegacyTasks},
        listening::SessionListener,
        probe,
        request::Request,
        task_pushes::TaskPushes,
    },
    offer::{response_cache::ResponseCache, server_change::Changes, tools::ListedTools},
    transport::{Http, ObservedTransport, Outgoing, Transport, jitter::Jitter, stream_losses::StreamLosses},
};
use longhaul_core::{Json, JsonMembers, Millis};
use longhaul_wire::{Generation, Method};
use serde_json::{Map, Value};
use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::sync::Mutex;

/// A connection to a server. Cheap to clone; all clones share the era and the session.
///
/// Over HTTP, only idle sockets are kept open between requests, so the server may restart at any time. A child process is started again when it has
/// exited.
#[derive(Clone)]
pub struct Connection(Arc<Shared>);

/// A connection that is not kept open by this.
#[derive(Clone)]
pub(crate) struct WeakConnection(Weak<Shared>);

/// The connections in sessions that other processes have opened, by the ids of the sessions. Each session has one connection, so that it has one push stream: some
/// servers send a question on each, and the user would be asked twice.
type ResumedSessions = Mutex<HashMap<String, Connection>>;

struct Shared {
    transport: Arc<dyn Transport>,
    options: Options,
    /// `None` until the first request, and again when the server has changed its era or lost the session.
    era: Mutex<Option<Arc<Era>>>,
    /// Held while a modern server is probed again. Other requests go on meanwhile.
    probing_again: Mutex<()>,
    next_id: AtomicU64,
    handshakes: AtomicU64,
    /// Messages that belong to no request and could not be read.
    unreadable: AtomicU64,
    jitter: Jitter,
    listening: SessionListener,
    cache: ResponseCache,
    tools: ListedTools,
    changes: Changes,
    hosted: Arc<HostedTasks>,
    task_pushes: TaskPushes,
    legacy_tasks: Arc<LegacyTasks>,
    resumed_sessions: ResumedSessions,
}

impl Connection {
    /// Creates a connection over HTTP without sending anything: the era is detected with the first request. Use it for a server that may be
    /// down at the moment.
    ///
    /// # Errors
    /// [`InvalidAddress`] when `url` is not an `http://` or `https://` URL.
    pub fn lazy(url: &str, options: Options) -> Result<Self, InvalidAddress> {
        let address: Address = url.parse()?;
        let losses = StreamLosses::default();
        let http = Http::watched(address, &options, losses.clone());
        Ok(Self::over_watched(http, options, losses))
    }

    /// Connects over HTTP to the server and detects its era, unless [`Options::era_cache`] knows it: nothing is sent to a modern server then.
    ///
    /// # Errors
    /// [`OpenError`] when `url` is not an `http://` or `https://` URL, or no MCP server answers there.
    pub async fn open(url: &str, options: Options) -> Result<Self, OpenError> {
        let connection = Self::lazy(url, options)?;
        connection.era().await?;
        Ok(connection)
    }

    /// Creates a connection over a transport, such as a [`ChildProcess`](crate::ChildProcess), without sending anything.
    pub fn over(transport: impl Transport, options: Options) -> Self {
        Self::over_watched(transport, options, StreamLosses::default())
    }

    fn over_watched(transport: impl Transport, options: Options, losses: StreamLosses) -> Self {
        let transport: Arc<dyn Transport> = match &options.wire {
            Some(observer) => Arc::new(ObservedTransport::new(transport, Arc::clone(observer))),
            None => Arc::new(transport),
        };
        Self::with(transport, options, losses)
    }

    pub(crate) fn with(transport: Arc<dyn Transport>, options: Options, losses: StreamLosses) -> Self {
        let hosted = Arc::new(HostedTasks::new(Arc::clone(&options.clock)));
        Self(Arc::new(Shared {
            transport,
            era: Mutex::new(None),
            probing_again: Mutex::new(()),
            // Two processes may share a session, in which no id may be used twice. Some servers hold ids in 32 bits.
            next_id: AtomicU64::new(fastrand::u64(1..1 << 30)),
            handshakes: AtomicU64::new(0),
            unreadable: AtomicU64::new(0),
            jitter: Jitter::new(options.jitter_seed),
            options,
            listening: SessionListener::new(losses),
            task_pushes: TaskPushes::default(),
            legacy_tasks: Arc::default(),
            cache: ResponseCache::default(),
            tools: ListedTools::default(),
            changes: Changes::default(),
            hosted,
            resumed_sessions: ResumedSessions::default(),
        }))
    }

    /// The server's URL, or its command. It may have a secret in it, which errors do not show.
    pub fn address(&self) -> &str {
        self.0.transport.address()
    }

    /// What the server says about itself. Connects if there is no connection.
    ///
    /// # Errors
    /// Any [`RequestError`].
    pub async fn server(&self) -> Result<ServerDescription, RequestError> {
        Ok(self.era().await?.server().clone())
    }

    /// How often the server was connected to: more than before if it has another session or process now, which knows nothing of earlier subscriptions.
    ///
    /// ```
    /// # use longhaul_client::{Connection, Options};
    /// let connection = Connection::lazy("http://127.0.0.1:7411/mcp", Options::named("example", "1.0"))?;
    /// assert_eq!(connection.handshakes(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn handshakes(&self) -> u64 {
        self.0.handshakes.load(Ordering::Relaxed)
    }

    /// Ends the connection: a legacy session over HTTP is deleted, a child process is stopped. Tasks keep running, but some legacy servers bind a task to
    /// its session: see [`Client::close`](crate::Client::close).
    pub async fn close(self) {
        self.close_session(true).await;
    }

    /// Ends the connection, and its legacy session over HTTP only if `ends_session`.
    pub(crate) async fn close_session(self, ends_session: bool) {
        self.0.listening.stop();
        self.0.task_pushes.stop();
        self.0.listening.until_sent().await;
        let era = self.0.era.lock().await.take();
        if ends_session || self.0.transport.is_session() {
            let headers = era.as_deref().and_then(Era::legacy).map(era::LegacySession::headers);
            self.0.transport.close(headers.unwrap_or_default()).await;
        }
    }

    /// The era. Probes the server if it is not known.
    pub(crate) async fn era(&self) -> Result<Arc<Era>, RequestError> {
        let mut known = self.0.era.lock().await;
        if let Some(era) = &*known {
            return Ok(era.clone());
        }
        let era = Arc::new(self.probe().await?);
        *known = Some(era.clone());
        self.connected(&era);
        Ok(era)
    }

    async fn probe(&self) -> Result<Era, RequestError> {
        probe::probe(&*self.0.transport, &self.0.options, &|| self.next_id()).await
    }

    fn connected(&self, era: &Era) {
        tracing::debug!(?era, "connected");
        self.0.handshakes.fetch_add(1, Ordering::Relaxed);
        let options = &self.0.options;
        let is_wanted = options.inputs.is_some() || options.logging.is_some() || options.other_notifications.is_some();
        let is_wanted = is_wanted || self.0.listening.is_wanted();
        // A modern server sends what belongs to a request on its stream; over a pipe there is only one, and log messages do not say whose they are.
        let is_wanted = match era.legacy() {
            Some(_) => is_wanted || self.0.transport.is_session(),
            None => {
                let is_heard = options.logging.is_some() || options.other_notifications.is_some();
                is_heard && self.0.transport.is_session()
            }
        };
        if is_wanted {
            self.listen();
        }
    }

    /// Whether the server is at the other end of a pipe, such as a child process, so that the connection ends with it.
    pub fn is_pipe(&self) -> bool {
        self.0.transport.is_session()
    }

    /// Sends a request of the core protocol or of an extension, and returns its result. Only what the protocol requires of every request is added.
    ///
    /// ```no_run
    /// # async fn example(connection: longhaul_client::Connection) -> Result<(), longhaul_client::RequestError> {
    /// let result = connection.send("completion/complete", serde_json::json!({
    ///     "ref": {"type": "ref/prompt", "name": "review"}, "argument": {"name": "language", "value": "ru"},
    /// })).await?;
    /// println!("{}", result.as_str());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Any [`RequestError`]; [`RequestError::Invalid`], without a request, if `params` is not an object.
    pub async fn send(&self, method: &str, params: Value) -> Result<Json, RequestError> {
        let params = match params {
            Value::Object(params) => params,
            Value::Null => Map::new(),
            _ => return Err(RequestError::Invalid("params must be an object".to_owned())),
        };
        self.send_named(method, params).await
    }

    /// Sends a short request and returns its result.
    pub(crate) async fn request(&self, method: Method, params: Map<String, Value>) -> Result<Json, RequestError> {
        self.send_named(method.as_str(), params).await
    }

    /// The same, with a member of the params as it is written.
    pub(crate) async fn request_with(
        &self,
        method: Method,
        params: Map<String, Value>,
        (member, written): (&str, Json),
    ) -> Result<Json, RequestError> {
        let build = |_: &Era| Request {
            timeout: Some(self.0.options.request_timeout),
            written: JsonMembers::from([(member.to_owned(), written.clone())]),
            ..Request::new(method.as_str(), params.clone())
        };
        self.exchange(build, &mut |_| {}, None).await.map(|(result, _)| result)
    }

    async fn send_named(&self, method: &str, params: Map<String, Value>) -> Result<Json, RequestError> {
        let build = |_: &Era| Request {
            timeout: Some(self.0.options.request_timeout),
            ..Request::new(method, params.clone())
        };
        self.exchange(build, &mut |_| {}, None).await.map(|(result, _)| result)
    }

    /// Whether a legacy server is where a modern one was. It is connected to then.
    async fn has_become_legacy(&self, modern: &Arc<Era>) -> Result<bool, RequestError> {
        let _one_at_a_time = self.0.probing_again.lock().await;
        if self.is_current(modern).await {
            self.0.options.era_cache.forget(self.address(), Generation::Modern);
            let found = self.probe().await?;
            if found.legacy().is_none() {
                return Ok(false);
            }
            let mut known = self.0.era.lock().await;
            if self.forget_known(&mut known, modern) {
                let found = Arc::new(found);
                *known = Some(Arc::clone(&found));
                self.connected(&found);
            }
        }
        Ok(self.era().await?.legacy().is_some())
    }

    /// Whether the connection still has this session.
    async fn is_current(&self, era: &Arc<Era>) -> bool {
        let known = self.0.era.lock().await;
        known.as_ref().is_some_and(|known| Arc::ptr_eq(known, era))
    }

    /// The era, if it is known.
    pub(crate) async fn known_era(&self) -> Option<Arc<Era>> {
        self.0.era.lock().await.clone()
    }

    /// Sends a notification or a response about a request of this session. False if the connection has another session by now, or none: then nobody waits
    /// for it, another request may have the same id, and nothing is sent.
    pub(crate) async fn send_message(&self, era: &Arc<Era>, body: String) -> Result<bool, RequestError> {
        if !self.is_current(era).await {
            return Ok(false);
        }
        let headers = era.legacy().map(era::LegacySession::headers).unwrap_or_default();
        let outgoing = Outgoing {
            body,
            id: None,
            headers,
            timeout: Some(self.0.options.request_timeout),
        };
        self.0.transport.send(outgoing).await?.ensure_accepted().await?;
        Ok(true)
    }

    /// Something that the server offers has changed.
    pub(crate) fn changed(&self, change: ServerChange) {
        self.0.cache.forget(&change);
        self.0.changes.send(change);
    }

    pub(crate) fn cache(&self) -> &ResponseCache {
        &self.0.cache
    }

    pub(crate) fn tools(&self) -> &ListedTools {
        &self.0.tools
    }

    pub(crate) fn hosted_tasks(&self) -> &Arc<HostedTasks> {
        &self.0.hosted
    }

    pub(crate) fn changes(&self) -> &Changes {
        &self.0.changes
    }

    /// Forgets the era, unless another request has probed it again already.
    pub(crate) async fn forget(&self, stale: &Arc<Era>) {
        let mut known = self.0.era.lock().await;
        self.forget_known(&mut known, stale);
    }

    /// Returns whether it was forgotten.
    fn forget_known(&self, known: &mut Option<Arc<Era>>, stale: &Arc<Era>) -> bool {
        let is_known = known.as_ref().is_some_and(|era| Arc::ptr_eq(era, stale));
        if is_known {
            self.0.listening.forget_session();
            self.0.cache.clear();
            if stale.legacy().is_none() {
                self.0.options.era_cache.forget(self.address(), Generation::Modern);
            }
            self.0.task_pushes.restart();
            *known = None;
        }
        is_known
    }

    /// Counts a message that belongs to no request and could not be read. Returns how many there were.
    pub(crate) fn count_unreadable(&self) -> u64 {
        self.0.unreadable.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// A number that no other request of this connection has.
    pub(crate) fn next_id(&self) -> u64 {
        self.0.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// How many requests were sent, from any number on.
    pub(crate) fn requests_sent(&self) -> u64 {
        self.0.next_id.load(Ordering::Relaxed)
    }

    pub(crate) fn legacy_tasks(&self) -> &Arc<LegacyTasks> {
        &self.0.legacy_tasks
    }

    /// Who this client is at the server, as its [`TokenProvider`](crate::TokenProvider::login) says. Nothing is sent.
    pub async fn login(&self) -> Option<String> {
        self.options().tokens.as_ref()?.login().await
    }

    pub(crate) fn options(&self) -> &Options {
        &self.0.options
    }

    pub(crate) fn transport(&self) -> &Arc<dyn Transport> {
        &self.0.transport
    }

    pub(crate) fn listening(&self) -> &SessionListener {
        &self.0.listening
    }

    pub(crate) fn task_pushes(&self) -> &TaskPushes {
        &self.0.task_pushes
    }

    pub(crate) fn downgrade(&self) -> WeakConnection {
        WeakConnection(Arc::downgrade(&self.0))
    }

    /// The time of the connection's clock that only runs forward.
    pub(crate) fn monotonic(&self) -> Duration {
        self.0.options.clock.monotonic()
    }

    /// Sleeps by the connection's clock.
    pub(crate) async fn sleep(&self, wait: Millis) {
        self.0.options.clock.sleep(Duration::from_millis(wait)).await;
    }

    /// A random number from 0 to 1.
    pub(crate) fn jitter(&self) -> f64 {
        self.0.jitter.next()
    }
}

impl WeakConnection {
    /// The connection, if it is still used.
    pub(crate) fn upgrade(&self) -> Option<Connection> {
        self.0.upgrade().map(Connection)
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Connection({})", masked_address(self.address()))
    }
}
