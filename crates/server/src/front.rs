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
    draining: watch::Sender<bool>,
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
            draining: watch::Sender::new(false),
        })
    }

    /// Ends every stream and every wait, so that connections can close. Tasks are not touched.
    pub fn drain(&self) {
        self.draining.send_replace(true);
    }

    /// Completes once [`drain`](Self::drain) was called.
    pub(crate) async fn drained(&self) {
        let mut draining = self.draining.subscribe();
        // The sender lives as long as the front.
        let _ = draining.wait_for(|draining| *draining).await;
    }
}

async fn seal(engine: &Engine, purpose: &str) -> Result<Seal, StoreError> {
    let mut fresh = [0u8; 32];
    engine.ports().entropy.fill(&mut fresh);
    Ok(Seal::new(engine.store().signing_keys(purpose, fresh).await?))
}
