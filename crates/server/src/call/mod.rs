//! The life of a `tools/call`: which calls become tasks, waiting for a plain call, promotion, hand-off, and what lasts from one request of a modern
//! client to its next.

pub(crate) mod author_call;
pub(crate) mod between_rounds;
mod blocking;
pub(crate) mod follow_tools;
pub(crate) mod handoff_schema;
mod mirrored_headers;
pub(crate) mod policy;
pub(crate) mod repeated;
mod session_hold;
pub(crate) mod start;

use crate::interaction::Interaction;
use between_rounds::CallsBetweenRounds;
use longhaul_runtime::{Engine, StoreTrouble};
use longhaul_wire::ServerInfo;
use mirrored_headers::MirroredHeaders;
use parking_lot::Mutex;
use std::sync::Arc;

/// What calls of tools need.
pub(crate) struct Calls {
    engine: Engine,
    server_info: Arc<ServerInfo>,
    interaction: Arc<Interaction>,
    between_rounds: CallsBetweenRounds,
    mirrored_headers: MirroredHeaders,
    /// Of all calls: each tries again every second.
    failed_promotions: Mutex<StoreTrouble>,
}

impl Calls {
    pub(crate) fn new(interaction: &Arc<Interaction>) -> Self {
        Self {
            engine: interaction.engine.clone(),
            server_info: Arc::clone(&interaction.server_info),
            interaction: Arc::clone(interaction),
            between_rounds: CallsBetweenRounds::default(),
            mirrored_headers: MirroredHeaders::default(),
            failed_promotions: Mutex::new(StoreTrouble::new("calls could not become tasks")),
        }
    }
}
