//! One connection to an upstream.

use super::followed::FollowedResources;
use crate::{
    lists::ClientLists,
    question::{Askers, Context, Registration},
};
use longhaul_client::{Connection, RequestError};
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// A connection to an upstream, and who can be asked on it.
pub(crate) struct UpstreamConnection {
    pub(crate) connection: Connection,
    pub(super) askers: Arc<Askers>,
    /// When it was last used, by the monotonic clock.
    pub(super) used: Mutex<Duration>,
    /// Whether the upstream says for which call it asks, as far as is known.
    pub(super) names_calls: AtomicBool,
    /// Whether its session has ended.
    pub(super) is_over: AtomicBool,
    /// The resources that are followed on it.
    pub(crate) followed: FollowedResources,
    /// What it offers to its client.
    pub(crate) lists: ClientLists,
}

impl UpstreamConnection {
    /// Makes a call or a request known to the connection.
    pub(crate) fn register(&self, context: Context, delivered: BTreeMap<String, u32>) -> Registration {
        self.lists.doubt();
        self.askers.register(context, delivered)
    }

    /// Connects, if it is not.
    ///
    /// # Errors
    /// Why not.
    pub(crate) async fn connect(&self) -> Result<(), RequestError> {
        let server = self.connection.server().await?;
        // Since 2026-07-28 a server asks in its answer to the call.
        self.names_calls.store(server.is_modern(), Ordering::Relaxed);
        Ok(())
    }

    /// Asks the upstream whether it is there. This opens a lost session again.
    ///
    /// # Errors
    /// Why it does not answer.
    pub(crate) async fn check(&self) -> Result<(), RequestError> {
        let server = self.connection.server().await?;
        let method = if server.is_modern() { "server/discover" } else { "ping" };
        match self.connection.send(method, serde_json::Value::Null).await {
            // It answers, whatever it says.
            Ok(_) | Err(RequestError::Rpc(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Whether nothing runs on it.
    pub(crate) fn is_idle(&self) -> bool {
        self.askers.is_idle()
    }

    /// Before a call, when it is connected: tells the upstream if the roots of its client have changed, and waits until it has them, if it asks for them.
    pub(crate) async fn give_roots(&self, context: &Context) {
        if self.askers.takes_new_roots() {
            self.tell_changed_roots().await;
        }
        self.askers.wait_for_roots(context).await;
    }

    pub(super) async fn tell_changed_roots(&self) {
        if let Err(error) = self.connection.roots_changed().await {
            tracing::debug!(%error, "an upstream does not know that roots have changed");
        }
    }

    /// Whether nothing runs on it, and nobody is about to use it.
    pub(super) fn is_unused(self: &Arc<Self>) -> bool {
        self.askers.is_idle() && Arc::strong_count(self) == 1
    }
}
