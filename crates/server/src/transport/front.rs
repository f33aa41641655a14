//! What every request needs: the engine, the server's name, its seals and its limits.

use crate::{
    admission::{
        connection_count::Presence,
        limits::{ByteBudget, Limits, Meter},
    },
    call::{between_rounds::Parked, mirrored_headers::Mirrored},
    catalog::pages::FirstPages,
    interaction::{Sessions, push::streams::Mail, resource_watch::TaskUpdates, rounds::Rounds},
    session::{in_flight::Inflight, replies::Replies},
    signer::Seal,
    transport::http::{HttpOptions, Pairs, Places, Recordings},
};
use longhaul_core::{Principal, store::StoreError};
use longhaul_runtime::Engine;
use longhaul_wire::ServerInfo;
use std::time::Duration;
use tokio::sync::watch;

/// Between two looks at whether anybody needs this server.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What a front is made of.
pub struct FrontOptions {
    /// Runs the tasks.
    pub engine: Engine,
    /// The server's name, as clients see it.
    pub name: String,
    /// The server's version, as clients see it.
    pub version: String,
    /// Guidance for models, if any.
    pub instructions: Option<String>,
    /// The largest body accepted, in bytes.
    pub max_body: usize,
    /// Refuse requests for tasks that leave `Mcp-Name` out, too.
    pub strict_headers: bool,
    /// How much may be asked.
    pub limits: Limits,
    /// How it is reached over HTTP.
    pub http: HttpOptions,
}

/// A front cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum FrontError {
    /// The store failed while the signing keys were read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// How far the server's end has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    Open,
    Draining,
    Closing,
}

/// The MCP server in front of an engine, whatever carries its messages.
pub struct Front {
    pub(crate) engine: Engine,
    pub(crate) identity: ServerInfo,
    pub(crate) max_body: usize,
    pub(crate) strict_headers: bool,
    pub(crate) meter: Meter,
    pub(crate) sessions: Seal,
    pub(crate) cursors: Seal,
    pub(crate) streams: Seal,
    pub(crate) inflight: Inflight,
    pub(crate) mail: Mail,
    pub(crate) recordings: Recordings,
    pub(crate) pairs: Pairs,
    pub(crate) places: Places,
    pub(crate) legacy_sse: bool,
    pub(crate) legacy: Sessions,
    pub(crate) first_pages: FirstPages,
    pub(crate) mirrored: Mirrored,
    pub(crate) replies: Replies,
    pub(crate) rounds: Rounds,
    pub(crate) memory: ByteBudget,
    pub(crate) presence: Presence,
    pub(crate) task_updates: TaskUpdates,
    /// Everyone is the same without authentication.
    pub(crate) principal: Principal,
    end: watch::Sender<End>,
}

impl Front {
    /// Reads the signing keys, or makes them at the very first start.
    ///
    /// # Errors
    /// [`FrontError`] if the store fails.
    pub async fn new(options: FrontOptions) -> Result<Self, FrontError> {
        let FrontOptions {
            engine,
            name,
            version,
            instructions,
            max_body,
            strict_headers,
            limits,
            http,
        } = options;
        let mut identity = ServerInfo::new(&name, &version);
        if let Some(instructions) = instructions {
            identity = identity.with_instructions(instructions);
        }
        Ok(Self {
            meter: Meter::new(&limits, &engine.ports().clock),
            sessions: seal(&engine, "session").await?,
            cursors: seal(&engine, "cursor").await?,
            streams: seal(&engine, "stream").await?,
            mail: Mail::default(),
            recordings: Recordings::default(),
            pairs: Pairs::default(),
            places: Places {
                origins: http.allowed_origins,
                hosts: http.allowed_hosts,
            },
            legacy_sse: http.legacy_sse,
            legacy: Sessions::default(),
            first_pages: FirstPages::default(),
            mirrored: Mirrored::default(),
            replies: Replies::new(engine.ports().clock.now()),
            rounds: Rounds {
                seal: seal(&engine, "request-state").await?,
                parked: Parked::default(),
            },
            memory: ByteBudget::new(limits.memory, max_body),
            presence: Presence::default(),
            task_updates: TaskUpdates::default(),
            principal: Principal::local(),
            engine,
            identity,
            max_body,
            strict_headers,
            inflight: Inflight::default(),
            end: watch::Sender::new(End::Open),
        })
    }

    /// With more about the server for people: a title, a page, icons (JSON text: an array of MCP icons).
    #[must_use]
    pub fn with_details(mut self, title: Option<&str>, website: Option<&str>, icons: Option<&str>) -> Self {
        self.identity = self.identity.with_details(title, website, icons);
        self
    }

    /// Ends what only watches, so that its connection can close. Calls that are waited for may still come to their end.
    pub fn drain(&self) {
        self.come_to(End::Draining);
    }

    /// Ends the calls that are waited for, too. Tasks are not touched.
    pub fn close(&self) {
        self.come_to(End::Closing);
    }

    /// Completes when for `after` nobody was connected and no task was live, and lets nobody in from then on.
    pub async fn deserted(&self, after: Duration) {
        let clock = &self.engine.ports().clock;
        loop {
            let mut alone_for = Duration::ZERO;
            while alone_for < after {
                let pause = LOOK_EVERY.min(after - alone_for);
                clock.sleep(pause).await;
                alone_for += pause;
                if self.is_needed().await {
                    alone_for = Duration::ZERO;
                }
            }
            if self.presence.shut_if_empty() {
                return;
            }
        }
    }

    /// If the store cannot say, there may be live tasks.
    async fn is_needed(&self) -> bool {
        if !self.presence.is_empty() {
            return true;
        }
        let counts = self.engine.store().counts().await;
        // Not for a blocked task: it waits for other code, which is the next process's.
        counts.map_or(true, |live| live.queued + live.running + live.parked > 0)
    }

    /// What has ended does not begin again.
    fn come_to(&self, end: End) {
        self.end
            .send_if_modified(|now| std::mem::replace(now, end.max(*now)) < end);
    }

    /// Completes once [`drain`](Self::drain) was called.
    pub(crate) async fn drained(&self) {
        self.reaches(End::Draining).await;
    }

    /// Completes once [`close`](Self::close) was called.
    pub(crate) async fn closed(&self) {
        self.reaches(End::Closing).await;
    }

    async fn reaches(&self, end: End) {
        // The sender lives as long as the front.
        let _ = self.end.subscribe().wait_for(|now| *now >= end).await;
    }
}

async fn seal(engine: &Engine, purpose: &str) -> Result<Seal, StoreError> {
    let mut fresh = [0u8; 32];
    engine.ports().entropy.fill(&mut fresh);
    Ok(Seal::new(engine.store().signing_keys(purpose, fresh).await?))
}
