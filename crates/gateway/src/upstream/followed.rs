//! The resources that are followed on a connection: each once, however many subscribe to it there.

use parking_lot::Mutex;
use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};
use tokio_util::sync::{CancellationToken, DropGuard};

/// The resources that are followed on a connection, by URI.
#[derive(Clone, Default)]
pub(crate) struct FollowedResources(Arc<Mutex<HashMap<Arc<str>, Weak<FollowedResource>>>>);

/// A resource is followed until this is dropped.
pub(crate) struct FollowedResource {
    uri: Arc<str>,
    all: FollowedResources,
    _until: DropGuard,
}

impl FollowedResources {
    pub(crate) fn get(&self, uri: &str) -> Option<Arc<FollowedResource>> {
        self.0.lock().get(uri).and_then(Weak::upgrade)
    }

    /// Whether none is followed.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    /// What keeps following, and the token that ends it. Of two that begin at the same time the second has none.
    pub(crate) fn begin(&self, uri: &Arc<str>) -> (Arc<FollowedResource>, Option<CancellationToken>) {
        let mut all = self.0.lock();
        if let Some(followed) = all.get(uri).and_then(Weak::upgrade) {
            return (followed, None);
        }
        let until = CancellationToken::new();
        let followed = Arc::new(FollowedResource {
            uri: Arc::clone(uri),
            all: self.clone(),
            _until: until.clone().drop_guard(),
        });
        all.insert(Arc::clone(uri), Arc::downgrade(&followed));
        (followed, Some(until))
    }
}

impl Drop for FollowedResource {
    fn drop(&mut self) {
        let mut all = self.all.0.lock();
        // Another one may have begun since.
        if all.get(&self.uri).is_some_and(|followed| followed.strong_count() == 0) {
            all.remove(&self.uri);
        }
    }
}
