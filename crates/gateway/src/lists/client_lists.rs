//! The lists that an upstream gives on the connection of a client.

use super::UpstreamLists;
use parking_lot::RwLock;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::sync::Mutex;
use tokio_util::sync::DropGuard;

/// The lists of a connection, as they were last read on it.
#[derive(Default)]
pub(crate) struct ClientLists {
    pub(crate) known: RwLock<Option<Arc<UpstreamLists>>>,
    /// Something was done on the connection since.
    pub(crate) is_stale: AtomicBool,
    pub(crate) reading: Mutex<()>,
    /// Since when the lists are being read, by the monotonic clock.
    pub(crate) read_since: RwLock<Option<Duration>>,
    /// Follows their changes until the connection is dropped.
    pub(crate) watching: RwLock<Option<DropGuard>>,
}

impl ClientLists {
    pub(crate) fn known(&self) -> Option<Arc<UpstreamLists>> {
        self.known.read().clone()
    }

    /// The upstream may offer something else on this connection from now on.
    pub(crate) fn doubt(&self) {
        self.is_stale.store(true, Ordering::Relaxed);
    }

    /// The connection has another child.
    pub(crate) fn forget(&self) {
        *self.known.write() = None;
    }
}
