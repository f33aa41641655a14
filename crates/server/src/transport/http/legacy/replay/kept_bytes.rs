//! How many bytes replay buffers keep, in all and of each principal.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// Bytes kept of all streams.
pub(super) struct KeptBytes {
    most: usize,
    bytes: AtomicUsize,
    principals: AtomicUsize,
}

/// Bytes kept of one principal's streams, which count in all, too. Clones are the same.
#[derive(Clone)]
pub(super) struct PrincipalBytes(Arc<OfPrincipal>);

struct OfPrincipal {
    all: Arc<KeptBytes>,
    bytes: AtomicUsize,
}

impl KeptBytes {
    /// At most so many, apart from events that nobody has read yet.
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self {
            most,
            bytes: AtomicUsize::new(0),
            principals: AtomicUsize::new(0),
        })
    }

    /// Begins to count for one more principal.
    pub(super) fn of_principal(self: &Arc<Self>) -> PrincipalBytes {
        self.principals.fetch_add(1, Ordering::Relaxed);
        PrincipalBytes(Arc::new(OfPrincipal {
            all: Arc::clone(self),
            bytes: AtomicUsize::new(0),
        }))
    }

    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Whether there are too many.
    pub(super) fn is_exceeded(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) > self.most
    }
}

impl PrincipalBytes {
    pub(super) fn add(&self, bytes: usize) {
        self.0.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.0.all.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn subtract(&self, bytes: usize) {
        self.0.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.0.all.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Whether there are too many in all, and more of this principal than its equal share, so that it loses nothing to principals that keep more.
    pub(super) fn exceeds_share(&self) -> bool {
        let all = &self.0.all;
        let share = all.most / all.principals.load(Ordering::Relaxed).max(1);
        all.is_exceeded() && self.0.bytes.load(Ordering::Relaxed) > share
    }
}

impl Drop for OfPrincipal {
    fn drop(&mut self) {
        self.all.principals.fetch_sub(1, Ordering::Relaxed);
    }
}
