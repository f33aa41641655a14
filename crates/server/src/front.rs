//! What every request needs: the engine, the server's name, its seals and its limits.

use crate::{http::BodyRoom, inflight::Inflight, method::ToolTexts, seal::Seal};
use longhaul_core::{Principal, store::StoreError};
use longhaul_runtime::Engine;
use longhaul_wire::Identity;
use tokio::sync::watch;

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
    pub(crate) identity: Identity,
    pub(crate) max_body: usize,
    pub(crate) strict_headers: bool,
    pub(crate) sessions: Seal,
    pub(crate) cursors: Seal,
    pub(crate) inflight: Inflight,
    pub(crate) tools: Vec<ToolTexts>,
    pub(crate) body_room: BodyRoom,
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
        } = options;
        let mut identity = Identity::new(&name, &version);
        if let Some(instructions) = instructions {
            identity = identity.with_instructions(instructions);
        }
        Ok(Self {
            sessions: seal(&engine, "session").await?,
            cursors: seal(&engine, "cursor").await?,
            tools: engine.catalog().iter().map(ToolTexts::of).collect(),
            body_room: BodyRoom::default(),
            principal: Principal::local(),
            engine,
            identity,
            max_body,
            strict_headers,
            inflight: Inflight::default(),
            end: watch::Sender::new(End::Open),
        })
    }

    /// Ends what only watches, so that its connection can close. Calls that are waited for may still come to their end.
    pub fn drain(&self) {
        self.end.send_replace(End::Draining);
    }

    /// Ends the calls that are waited for, too. Tasks are not touched.
    pub fn close(&self) {
        self.end.send_replace(End::Closing);
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
