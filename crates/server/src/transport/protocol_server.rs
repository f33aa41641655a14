//! The server as its transports see it.

use super::http::{HttpContext, HttpOptions, ReplayBuffers};
use crate::{
    admission::{
        Admission,
        access::Authentication,
        limits::{Limits, Refusals},
    },
    audit::{Audit, Auditor},
    dispatch::Dispatcher,
    interaction::{
        CancelledExits, Interaction, changes_for_other_nodes,
        legacy::{Push, desk::Desk},
        resource_watch::ResourceWatchers,
        session_messages,
    },
    session::{Session, Sessions},
    shutdown::Shutdown,
    signer::KeyRotation,
};
use longhaul_core::{EventStore, store::StoreError};
use longhaul_runtime::Engine;
use longhaul_wire::ServerInfo;
use std::{sync::Arc, time::Duration};

/// Between two checks whether the server is idle.
const IDLE_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// What a [`ProtocolServer`] is made of.
pub struct ProtocolServerOptions {
    /// Runs the tasks.
    pub engine: Engine,
    /// The server's name, its version, and what else clients are shown of it.
    pub server_info: ServerInfo,
    /// The largest body accepted, in bytes.
    pub max_body: usize,
    /// Refuse requests for tasks that leave `Mcp-Name` out, too.
    pub strict_headers: bool,
    /// How much may be asked.
    pub limits: Limits,
    /// Who may use it over HTTP.
    pub authentication: Authentication,
    /// How it is reached over HTTP.
    pub http: HttpOptions,
    /// Keeps the events of streams beyond this process; without one they are kept in memory for some minutes.
    pub events: Option<Arc<dyn EventStore>>,
    /// Takes the events of the audit log; without it there is none.
    pub audit: Option<Arc<dyn Audit>>,
}

/// A [`ProtocolServer`] cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum ProtocolServerError {
    /// The store failed while the signing keys were read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The MCP server in front of an engine, whatever carries its messages.
pub struct ProtocolServer {
    pub(crate) engine: Engine,
    pub(crate) admission: Arc<Admission>,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) dispatcher: Dispatcher,
    pub(crate) interaction: Arc<Interaction>,
    pub(crate) shutdown: Shutdown,
    pub(crate) http: HttpContext,
}

impl ProtocolServer {
    /// Reads the signing keys. Makes them at the very first start, and new ones when they are 30 days old, also while the server runs.
    ///
    /// # Errors
    /// [`ProtocolServerError`] if the store fails.
    pub async fn new(options: ProtocolServerOptions) -> Result<Self, ProtocolServerError> {
        let ProtocolServerOptions {
            engine,
            server_info,
            max_body,
            strict_headers,
            limits,
            authentication,
            http,
            events,
            audit,
        } = options;
        let ports = engine.ports();
        let mut rotation = KeyRotation::new(engine.store());
        let session_ids = rotation.signer("session", ports).await?;
        let cursors = rotation.signer("cursor", ports).await?;
        let event_ids = rotation.signer("stream", ports).await?;
        let round_states = rotation.signer("request-state", ports).await?;
        ports.spawner.spawn(Box::pin(rotation.run(ports.clone())));
        let shutdown = Shutdown::default();
        let clock = &engine.ports().clock;
        let is_authenticated = !authentication.is_open();
        // For the audit log, and for senders who have nothing else that tells them apart.
        let keeps_addresses =
            audit.is_some() || authentication.allow_unauthenticated || limits.unknown_ids_per_second.is_some();
        let admission = Arc::new(Admission::new(authentication, &limits, max_body, clock));
        let sessions = Arc::new(Sessions::new(session_ids, engine.node_id(), clock.now()));
        let interaction = Arc::new(Interaction {
            engine: engine.clone(),
            server_info: Arc::new(server_info),
            shutdown: shutdown.clone(),
            admission: Arc::clone(&admission),
            auditor: audit.map(|audit| Auditor::new(audit, clock)),
            sessions: Arc::clone(&sessions),
            push: Push::default(),
            desk: Desk::default(),
            resource_watchers: ResourceWatchers::default(),
            cancelled_exits: CancelledExits::default(),
            round_states,
        });
        let replay_buffers = ReplayBuffers::new(
            engine.ports(),
            &shutdown,
            (limits.streams, limits.streams_in_all),
            event_ids,
            events,
        );
        if engine.may_have_other_nodes() {
            let buffers = replay_buffers.clone();
            let end_streams = move |session: Session| {
                let buffers = buffers.clone();
                async move { buffers.end_session(&session).await }
            };
            let receive = session_messages::receive(Arc::clone(&interaction), end_streams);
            engine.ports().spawner.spawn(Box::pin(receive));
            let tell = changes_for_other_nodes::tell(Arc::clone(&interaction));
            engine.ports().spawner.spawn(Box::pin(tell));
        }
        let http = HttpContext::new(http, replay_buffers, (is_authenticated, keeps_addresses));
        Ok(Self {
            engine,
            admission,
            sessions,
            dispatcher: Dispatcher::new(&interaction, cursors, strict_headers),
            interaction,
            shutdown,
            http,
        })
    }

    /// How many HTTP connections and long-lived streams are open.
    pub fn open(&self) -> (usize, usize) {
        self.admission.meter.open()
    }

    /// How often the limits of this server were reached.
    pub fn refusals(&self) -> &Refusals {
        &self.admission.meter.refusals
    }

    /// Ends streams and waits for tasks, so that their connections can close, and begins nothing more: a plain call that runs may still complete, and one that
    /// has not begun is told so.
    pub fn drain(&self) {
        self.engine.begin_drain();
        self.shutdown.drain();
    }

    /// Ends plain calls, too. Tasks are not touched.
    pub fn close(&self) {
        self.shutdown.close();
    }

    /// Completes when no client was connected and no task was live for `after`; no connection is accepted from then on.
    pub async fn idle_for(&self, after: Duration) {
        let clock = &self.engine.ports().clock;
        loop {
            let mut idle_time = Duration::ZERO;
            while idle_time < after {
                let pause = IDLE_CHECK_INTERVAL.min(after - idle_time);
                clock.sleep(pause).await;
                idle_time += pause;
                if self.is_needed().await {
                    idle_time = Duration::ZERO;
                }
            }
            if self.admission.connections.refuse_if_none() {
                return;
            }
        }
    }

    /// If the store fails, there may be live tasks.
    async fn is_needed(&self) -> bool {
        if !self.admission.connections.is_zero() {
            return true;
        }
        let counts = self.engine.store().counts().await;
        // Not for a blocked task: it waits for other code, which only another process has.
        counts.map_or(true, |live| live.queued + live.running + live.suspended > 0)
    }
}
