//! All upstreams of a gateway.

use crate::{
    listed::{Lists, StoredLists},
    upstream::Upstream,
};
use std::sync::Arc;

/// The upstreams, in the order of the configuration, and their last known lists.
pub(crate) struct Upstreams {
    pub(crate) all: Vec<Arc<Upstream>>,
    pub(crate) stored: Option<StoredLists>,
}

impl Upstreams {
    pub(crate) fn named(&self, name: &str) -> Option<Arc<Upstream>> {
        self.all.iter().find(|upstream| upstream.name() == name).cloned()
    }

    pub(crate) fn store_lists(&self, upstream: &str, lists: &Lists) {
        if let Some(stored) = &self.stored
            && let Err(error) = stored.save(upstream, lists)
        {
            tracing::warn!(upstream, %error, "what an upstream offers was not stored");
        }
    }
}
