//! All upstreams of a gateway.

use super::Upstream;
use crate::lists::{StoredLists, UpstreamLists};
use longhaul_core::Entropy;
use parking_lot::RwLock;
use std::sync::Arc;

/// The upstreams, in the order of the configuration, and their last known lists.
pub(crate) struct Upstreams {
    /// A random name, by which the gateway recognizes itself.
    pub(crate) id: String,
    all: RwLock<Vec<Arc<Upstream>>>,
    pub(crate) stored: Option<StoredLists>,
}

impl Upstreams {
    pub(crate) fn new(all: Vec<Arc<Upstream>>, stored: Option<StoredLists>, entropy: &dyn Entropy) -> Self {
        let mut id = [0; 16];
        entropy.fill(&mut id);
        Self {
            id: id.iter().map(|byte| format!("{byte:02x}")).collect(),
            all: RwLock::new(all),
            stored,
        }
    }

    pub(crate) fn all(&self) -> Vec<Arc<Upstream>> {
        self.all.read().clone()
    }

    /// Another configuration holds from now on. Returns the upstreams of before.
    pub(crate) fn replace(&self, all: Vec<Arc<Upstream>>) -> Vec<Arc<Upstream>> {
        std::mem::replace(&mut *self.all.write(), all)
    }

    pub(crate) fn named(&self, name: &str) -> Option<Arc<Upstream>> {
        self.all.read().iter().find(|upstream| upstream.name() == name).cloned()
    }

    pub(crate) fn accept_names(&self, digest: &str) {
        if let Some(stored) = &self.stored
            && let Err(error) = stored.accept_names(digest)
        {
            tracing::warn!(%error, "that the names of tools were accepted was not stored, so the next start looks at them again");
        }
    }

    pub(crate) fn store_lists(&self, upstream: &str, lists: &UpstreamLists) {
        if let Some(stored) = &self.stored
            && let Err(error) = stored.save(upstream, lists)
        {
            tracing::warn!(upstream, %error, "what an upstream offers was not stored");
        }
    }
}
