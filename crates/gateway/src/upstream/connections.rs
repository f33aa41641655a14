//! The connections to one upstream: for each principal and each set of capabilities. A client with roots has its own for its session: roots belong to the
//! connection, and another session may have others. Clients of 2025-11-25 have connections of their own to an upstream of both revisions; see `learn`.
//!
//! A server of 2025-11-25 may ask without saying for which call. So the calls of several clients that can be asked have connections of their own while they run.

use super::{connection::UpstreamConnection, connection_key::ConnectionKey, followed::FollowedResources};
use crate::{
    Target, UpstreamOptions,
    lists::{ClientLists, UpstreamLists},
    question::{Askers, ClientsOfConnection, Context, Listeners, Registration},
};
use futures_util::future::join_all;
use longhaul_client::{
    ChildProcess, Connection, EraCache, EraChoice, HttpHeaders, InvalidAddress, LogLevel, Logging, Options,
    OtherNotifications,
};
use longhaul_core::{ClientCapabilities, Clock, Json, Principal, SessionKey};
use longhaul_runtime::{ListClient, Ports, Requestor, SessionLogs, Spawner};
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::sync::{mpsc, oneshot};

/// The most connections of one principal, over all of its sessions and sets of capabilities. For one more, one is closed that nobody uses. If there is none, the
/// call ends that has waited longest for its client to come back with an answer; without such a call the new one shares a connection of its kind, where its
/// questions are cancelled if it is not known whose they are, or waits.
const MOST: usize = 16;
/// How long a connection is kept that nobody uses.
const IDLE: Duration = Duration::from_secs(300);

/// What may have changed the lists of clients.
pub(crate) enum ListEvent {
    /// The lists are to be read on this connection. Whoever waits is told when they were.
    Read(Arc<UpstreamConnection>, Option<oneshot::Sender<()>>),
    /// A connection was closed.
    Closed,
}

/// There is no connection for a call.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RegisterError {
    #[error(transparent)]
    Address(#[from] InvalidAddress),
    /// All that its principal may have are in use.
    #[error("all {MOST} connections of this client are in use")]
    TooMany,
}

/// By whose they are.
type Open = HashMap<ConnectionKey, Vec<Arc<UpstreamConnection>>>;

/// The open connections to an upstream.
pub(crate) struct Connections {
    options: UpstreamOptions,
    /// Those of an HTTP server.
    headers: HttpHeaders,
    /// Those of the same server under earlier configurations, whose work may run on.
    earlier_headers: Mutex<Vec<HttpHeaders>>,
    /// There is no other upstream.
    is_only: bool,
    version: &'static str,
    clock: Arc<dyn Clock>,
    spawner: Arc<dyn Spawner>,
    /// Where log messages go that belong to no call.
    pub(crate) logs: Arc<OnceLock<SessionLogs>>,
    /// Whether the upstream asks for roots outside of calls.
    asks_for_roots: Arc<AtomicBool>,
    /// Whether clients of 2025-11-25 have connections of that revision.
    follows_client: AtomicBool,
    /// What is known of the revisions of the upstream.
    era_cache: EraCache,
    /// The level of log messages that upstreams are asked for.
    log_level: Mutex<LogLevel>,
    open: Mutex<Open>,
    /// Where what may have changed the lists of clients is handled.
    list_events: OnceLock<mpsc::UnboundedSender<ListEvent>>,
}

impl Connections {
    /// # Errors
    /// The URL cannot be used.
    pub(crate) fn new(
        options: UpstreamOptions,
        is_only: bool,
        version: &'static str,
        ports: &Ports,
    ) -> Result<Self, InvalidAddress> {
        let connections = Self {
            headers: match &options.target {
                Target::Http { headers, .. } => headers.clone().into(),
                Target::Command(_) => HttpHeaders::default(),
            },
            earlier_headers: Mutex::default(),
            options,
            is_only,
            version,
            clock: Arc::clone(&ports.clock),
            spawner: Arc::clone(&ports.spawner),
            logs: Arc::default(),
            asks_for_roots: Arc::default(),
            follows_client: AtomicBool::new(false),
            era_cache: EraCache::default(),
            log_level: Mutex::new(LogLevel::Info),
            open: Mutex::default(),
            list_events: OnceLock::new(),
        };
        // Only what is wrong with the address: nothing is sent.
        connections.open_with(&ConnectionKey::shared(connections.options.era))?;
        Ok(connections)
    }

    /// What runs on these connections, and on those of before, goes on with the headers of a later configuration, if that is of the same server: the earlier ones may
    /// be refused by now.
    pub(crate) fn take_headers(&self, later: &Self) {
        let (Target::Http { url, .. }, Target::Http { url: of, headers, .. }) =
            (&self.options.target, &later.options.target)
        else {
            return;
        };
        if url != of {
            return;
        }
        let mut all = std::mem::take(&mut *self.earlier_headers.lock());
        all.push(self.headers.clone());
        all.iter().for_each(|earlier| earlier.replace(headers.clone()));
        later.earlier_headers.lock().extend(all);
    }

    /// Its child is asked for a handshake of 2025 first.
    pub(crate) fn expect_legacy(&self) {
        if let Ok(own) = self.own() {
            self.era_cache.expect_legacy(own.connection.address());
        }
    }

    /// Whether its child has left the request of 2026-07-28 unanswered.
    pub(crate) fn was_silent(&self) -> bool {
        let own = self.own();
        own.is_ok_and(|own| self.era_cache.was_silent(own.connection.address()))
    }

    pub(crate) fn options(&self) -> &UpstreamOptions {
        &self.options
    }

    /// Learns what the upstream offers to a client of any revision. A server of both may offer less in 2026-07-28: FastMCP 4 lets most of its tools ask only
    /// clients of 2025-11-25. So a client is served in its own revision, as without a gateway. But where tasks are made in 2026-07-28, calls of all
    /// clients become tasks, which outlive this process.
    pub(crate) fn learn(&self, lists: &UpstreamLists) {
        let follows = self.options.era == EraChoice::Auto && lists.is_modern && !lists.makes_tasks();
        self.follows_client.store(follows, Ordering::Relaxed);
    }

    /// A connection for a call or request, which is known to it from now on. `delivered` is what an earlier process knows of its legacy questions.
    pub(crate) fn register(
        &self,
        context: &Context,
        delivered: &BTreeMap<String, u32>,
    ) -> Result<(Arc<UpstreamConnection>, Registration), RegisterError> {
        let key = self.key(context.principal(), context.session(), context.requestor());
        let asked = key.capabilities;
        let can_be_asked = asked.elicitation_form || asked.elicitation_url || asked.sampling;
        let mut open = self.open.lock();
        for connection in open.get(&key).into_iter().flatten() {
            let entered = match can_be_asked && !connection.names_calls.load(Ordering::Relaxed) {
                true => {
                    connection.lists.doubt();
                    connection.askers.register_alone(context, delivered)
                }
                false => Some(connection.register(context.clone(), delivered.clone())),
            };
            if let Some(registration) = entered {
                return Ok((self.used(connection), registration));
            }
        }
        let connection = match self.open_another(&mut open, &key) {
            // The caller tries again.
            Err(RegisterError::TooMany) if self.give_up_longest(&open, &key) => return Err(RegisterError::TooMany),
            Err(RegisterError::TooMany) => {
                let first = open.get(&key).and_then(|alike| alike.first());
                self.used(first.ok_or(RegisterError::TooMany)?)
            }
            opened => opened?,
        };
        let registration = connection.register(context.clone(), delivered.clone());
        Ok((connection, registration))
    }

    /// A connection for what a client does without being asked anything.
    pub(crate) fn of_client(
        &self,
        principal: &Principal,
        session: Option<&SessionKey>,
        requestor: &Requestor,
    ) -> Result<Arc<UpstreamConnection>, RegisterError> {
        self.connection(&self.key(principal, session, requestor))
    }

    fn key(&self, principal: &Principal, session: Option<&SessionKey>, requestor: &Requestor) -> ConnectionKey {
        let era = match self.follows_client.load(Ordering::Relaxed) && !requestor.modern {
            true => EraChoice::PreferLegacy,
            false => self.options.era,
        };
        let capabilities = requestor.capabilities;
        match self.options.shared {
            true => ConnectionKey::shared(era),
            false => ConnectionKey {
                principal: Some(principal.clone()),
                // What cannot be relayed makes no difference.
                capabilities: ClientCapabilities {
                    tasks: false,
                    legacy_tasks: false,
                    elicitation_tasks: false,
                    sampling_tasks: false,
                    ..capabilities
                },
                session: session.filter(|_| capabilities.roots).cloned(),
                era,
                relayed: self.relayed(requestor).map(|relayed| relayed.as_str().to_owned()),
                client: requestor.client.clone().filter(|_| self.is_only),
            },
        }
    }

    /// From now on what may have changed the lists of clients is handled there. It is set once.
    pub(crate) fn set_list_events(&self, events: mpsc::UnboundedSender<ListEvent>) {
        let _ = self.list_events.set(events);
    }

    pub(crate) fn list_events(&self) -> Option<mpsc::UnboundedSender<ListEvent>> {
        self.list_events.get().cloned()
    }

    /// The connection that this client used last, if it is open and not that of the gateway itself.
    pub(crate) fn open_for(&self, client: ListClient<'_>) -> Option<Arc<UpstreamConnection>> {
        let key = self.key(client.principal, client.session, client.requestor);
        if key == self.own_key() {
            return None;
        }
        let open = self.open.lock();
        let alike = open.get(&key)?.iter();
        alike.max_by_key(|connection| *connection.used.lock()).cloned()
    }

    /// Whether it is the gateway's own.
    pub(crate) fn is_own(&self, connection: &Arc<UpstreamConnection>) -> bool {
        let open = self.open.lock();
        let own = open.get(&self.own_key()).into_iter().flatten();
        own.into_iter().any(|own| Arc::ptr_eq(own, connection))
    }

    /// What the connections of clients offer, with their principals, the latest used last.
    pub(crate) fn client_lists(&self) -> Vec<(Option<Principal>, Arc<UpstreamLists>)> {
        let (own, open) = (self.own_key(), self.open.lock());
        let of_clients = open.iter().filter(|(key, _)| **key != own);
        let mut all: Vec<_> = of_clients
            .flat_map(|(key, alike)| alike.iter().map(move |connection| (key, connection)))
            .filter_map(|(key, connection)| {
                let lists = connection.lists.known()?;
                Some((*connection.used.lock(), key.principal.clone(), lists))
            })
            .collect();
        all.sort_by_key(|(used, ..)| *used);
        all.into_iter()
            .map(|(_, principal, lists)| (principal, lists))
            .collect()
    }

    /// Connections were closed.
    fn closed(&self, closed: &[Arc<UpstreamConnection>]) {
        let had_lists = closed.iter().any(|connection| connection.lists.known().is_some());
        if let Some(events) = self.list_events.get().filter(|_| had_lists) {
            let _ = events.send(ListEvent::Closed);
        }
    }

    /// The connection on which the gateway itself reads what the upstream offers. Nobody can be asked on it.
    pub(crate) fn own(&self) -> Result<Arc<UpstreamConnection>, RegisterError> {
        self.connection(&self.own_key())
    }

    fn own_key(&self) -> ConnectionKey {
        let era = self.options.era;
        match self.options.shared {
            true => ConnectionKey::shared(era),
            false => ConnectionKey::of_gateway(era),
        }
    }

    /// What the client declares that is passed on: to the only upstream. Of several it is not known for which it is.
    pub(crate) fn relayed<'a>(&self, requestor: &'a Requestor) -> Option<&'a Json> {
        let relayed = requestor.relayed_capabilities.as_ref();
        relayed.filter(|_| self.is_only && !self.options.shared)
    }

    /// Whether there is no other upstream.
    pub(crate) fn is_only(&self) -> bool {
        self.is_only
    }

    fn connection(&self, key: &ConnectionKey) -> Result<Arc<UpstreamConnection>, RegisterError> {
        let mut open = self.open.lock();
        if let Some(connection) = open.get(key).and_then(|alike| alike.first()) {
            return Ok(self.used(connection));
        }
        self.open_another(&mut open, key)
    }

    /// Opens a connection, if its principal may have another one, or one of its connections is not used.
    fn open_another(&self, open: &mut Open, key: &ConnectionKey) -> Result<Arc<UpstreamConnection>, RegisterError> {
        let own = self.own_key();
        let counts = |other: &ConnectionKey| other.principal == key.principal && *other != own;
        if counts(key) {
            let of_principal = open.iter().filter(|(other, _)| counts(other));
            let count: usize = of_principal.clone().map(|(_, alike)| alike.len()).sum();
            if count >= MOST {
                let unused = of_principal
                    .flat_map(|(_, alike)| alike)
                    .filter(|other| other.is_unused());
                let oldest = unused.min_by_key(|other| *other.used.lock()).cloned();
                self.remove(open, &oldest.ok_or(RegisterError::TooMany)?);
            }
        }
        let connection = self.unused(key)?;
        open.entry(key.clone()).or_default().push(Arc::clone(&connection));
        Ok(connection)
    }

    /// Ends the call of the principal that has waited longest for its client to come back with an answer. Whether one ends, or is about to.
    fn give_up_longest(&self, open: &Open, key: &ConnectionKey) -> bool {
        let of_principal = open.iter().filter(|(other, _)| other.principal == key.principal);
        let askers = || {
            of_principal
                .clone()
                .flat_map(|(_, alike)| alike)
                .map(|connection| &connection.askers)
        };
        if askers().any(|askers| askers.has_given_up()) {
            return true;
        }
        let waiting = askers().filter_map(|askers| Some((askers.awaits_retry_since()?, askers)));
        let Some((_, longest)) = waiting.min_by_key(|(since, _)| *since) else {
            return false;
        };
        tracing::info!(
            upstream = self.options.name,
            "a call that waits for an answer of its client ends: another call of the principal needs its connection"
        );
        longest.give_up();
        true
    }

    /// Closes a connection, which nobody finds any more.
    fn remove(&self, open: &mut Open, closed: &Arc<UpstreamConnection>) {
        open.retain(|_, alike| {
            alike.retain(|connection| !Arc::ptr_eq(connection, closed));
            !alike.is_empty()
        });
        self.closed(std::slice::from_ref(closed));
        self.spawner.spawn(Box::pin(closed.connection.clone().close()));
    }

    /// Closes the connections of a session that has ended: now, or once nothing runs on them.
    pub(crate) fn session_ended(&self, session: &SessionKey) {
        let mut open = self.open.lock();
        let of_session = open.iter().filter(|(key, _)| key.session.as_ref() == Some(session));
        let of_session: Vec<_> = of_session.flat_map(|(_, alike)| alike).cloned().collect();
        for connection in of_session {
            connection.is_over.store(true, Ordering::Relaxed);
            // The other reference is the one here.
            if connection.askers.is_idle() && Arc::strong_count(&connection) == 2 {
                self.remove(&mut open, &connection);
            }
        }
    }

    fn used(&self, connection: &Arc<UpstreamConnection>) -> Arc<UpstreamConnection> {
        *connection.used.lock() = self.clock.monotonic();
        Arc::clone(connection)
    }

    fn unused(&self, key: &ConnectionKey) -> Result<Arc<UpstreamConnection>, InvalidAddress> {
        let (connection, askers) = self.open_with(key)?;
        Ok(Arc::new(UpstreamConnection {
            connection,
            askers,
            used: Mutex::new(self.clock.monotonic()),
            names_calls: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            followed: FollowedResources::default(),
            lists: ClientLists::default(),
        }))
    }

    /// A connection over which nothing was sent yet.
    fn open_with(&self, key: &ConnectionKey) -> Result<(Connection, Arc<Askers>), InvalidAddress> {
        let capabilities = key.capabilities;
        let asks_for_roots = Arc::clone(&self.asks_for_roots);
        // That of the gateway itself belongs to nobody.
        let owner = key.principal.clone().filter(|_| *key != self.own_key());
        let listeners = owner.map(|principal| Listeners {
            principal,
            session: key.session.clone(),
            logs: Arc::clone(&self.logs),
        });
        let askers = Askers::new(&self.options.name, Arc::clone(&self.clock), asks_for_roots, listeners);
        let mut options = Options::named("longhaul-gateway", self.version);
        if let Some(client) = &key.client {
            options = options.on_behalf_of(client);
        }
        options.era = key.era;
        options.era_cache = self.era_cache.clone();
        let relayed = key.relayed.as_deref().map(serde_json::from_str);
        options.relayed_capabilities = relayed.and_then(Result::ok).unwrap_or_default();
        options.clock = Arc::clone(&self.clock);
        if capabilities != ClientCapabilities::default() {
            options.inputs = Some(Arc::new(ClientsOfConnection {
                askers: Arc::clone(&askers),
                capabilities,
            }));
        }
        let logged = Arc::downgrade(&askers);
        options.logging = Some(Logging::new(*self.log_level.lock(), move |message| {
            if let Some(askers) = logged.upgrade() {
                askers.log(message);
            }
        }));
        let notified = Arc::downgrade(&askers);
        options.other_notifications = self.is_only.then(|| {
            OtherNotifications::new(move |method, params| {
                if let Some(askers) = notified.upgrade() {
                    askers.notify(method, params.as_ref());
                }
            })
        });
        let connection = match &self.options.target {
            Target::Command(child) => Connection::over(ChildProcess::new(child.clone()), options),
            Target::Http { url, tokens, .. } => {
                options.headers = self.headers.clone();
                options.tokens = tokens.as_ref().map(|tokens| tokens.of(key.principal.as_ref()));
                Connection::lazy(url, options)?
            }
        };
        Ok((connection, askers))
    }

    /// Asks for log messages of `level` and above, now and on connections to come.
    pub(crate) async fn set_log_level(&self, level: LogLevel) {
        *self.log_level.lock() = level;
        let open: Vec<_> = self.open.lock().values().flatten().cloned().collect();
        for connection in open {
            if let Err(error) = connection.connection.set_log_level(level).await {
                tracing::debug!(upstream = self.options.name, %error, "the log level was not set");
            }
        }
    }

    /// Passes on that the roots of a session have changed.
    pub(crate) async fn roots_changed(&self, session: &SessionKey) {
        let of_session: Vec<_> = {
            let open = self.open.lock();
            let of_session = open.iter().filter(|(key, _)| key.session.as_ref() == Some(session));
            of_session.flat_map(|(_, alike)| alike).cloned().collect()
        };
        for connection in of_session {
            connection.askers.forget_roots();
            // The upstream asks for the new ones, and the client can be asked only during a call.
            if !connection.askers.is_idle() && connection.askers.takes_new_roots() {
                connection.tell_changed_roots().await;
            }
        }
    }

    /// Closes what nobody has used for a while. `keep` is used in any case.
    pub(crate) async fn close_idle(&self, keep: &Arc<UpstreamConnection>) {
        let now = self.clock.monotonic();
        let is_old = |connection: &Arc<UpstreamConnection>| {
            let is_over = connection.is_over.load(Ordering::Relaxed);
            is_over || now.saturating_sub(*connection.used.lock()) >= IDLE
        };
        self.close_those(|connection| !Arc::ptr_eq(connection, keep) && is_old(connection))
            .await;
    }

    /// Closes what nobody uses. What runs, and jobs, go on.
    pub(crate) async fn close_unused(&self) {
        self.close_those(|_| true).await;
    }

    /// Closes connections that nobody uses.
    async fn close_those(&self, is_meant: impl Fn(&Arc<UpstreamConnection>) -> bool) {
        let mut closed = Vec::new();
        let mut is_kept = |connection: &Arc<UpstreamConnection>| {
            let stays = !is_meant(connection) || !connection.is_unused();
            if !stays {
                closed.push(Arc::clone(connection));
            }
            stays
        };
        self.open.lock().retain(|_, alike| {
            alike.retain(&mut is_kept);
            !alike.is_empty()
        });
        self.closed(&closed);
        for connection in closed {
            connection.connection.clone().close().await;
        }
    }

    /// Ends the child of a connection, if nothing else runs in it. Whether it does.
    pub(crate) fn end_child(&self, connection: &Arc<UpstreamConnection>) -> bool {
        let mut open = self.open.lock();
        let is_child = matches!(self.options.target, Target::Command(_));
        if !is_child || !connection.askers.is_idle() || !connection.followed.is_empty() {
            return false;
        }
        // The caller has one reference. Others may be about to use the connection: then it stays, with another child.
        match Arc::strong_count(connection) {
            2 => self.remove(&mut open, connection),
            _ => self.spawner.spawn(Box::pin(connection.connection.clone().close())),
        }
        connection.askers.forget_left();
        connection.lists.forget();
        true
    }

    /// Closes all.
    pub(crate) async fn close(&self) {
        let open: Vec<_> = self.open.lock().drain().flat_map(|(_, alike)| alike).collect();
        let idle = open.iter().filter(|connection| connection.askers.is_idle());
        join_all(idle.map(|connection| connection.connection.clone().close())).await;
    }
}
