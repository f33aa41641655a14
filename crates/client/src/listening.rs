//! What a connection keeps of its push stream and of the requests that it serves.

use crate::TaskSnapshot;
use parking_lot::Mutex;
use std::{collections::HashMap, sync::Arc};
use tokio::{
    sync::{Semaphore, watch},
    task::AbortHandle,
};

/// The requests of a server that are served at once. More are refused.
pub(crate) const MAX_SERVED: usize = 64;
/// The push stream of a legacy session, and those who wait for what comes on any stream.
pub(crate) struct Listening {
    pub(crate) stream: Mutex<Option<AbortHandle>>,
    pub(crate) served: Arc<Semaphore>,
    /// The requests that are being served, by their id.
    pub(crate) serving: Arc<Mutex<HashMap<String, AbortHandle>>>,
    /// Changes whenever a task status is pushed.
    pub(crate) pushed: watch::Sender<Option<Arc<TaskSnapshot>>>,
}

impl Default for Listening {
    fn default() -> Self {
        Self {
            stream: Mutex::default(),
            served: Arc::new(Semaphore::new(MAX_SERVED)),
            serving: Arc::default(),
            pushed: watch::Sender::new(None),
        }
    }
}

impl Listening {
    /// Closes the push stream.
    pub(crate) fn stop(&self) {
        if let Some(stream) = self.stream.lock().take() {
            stream.abort();
        }
    }

    /// The task statuses that are pushed. Some may be skipped.
    pub(crate) fn pushed(&self) -> watch::Receiver<Option<Arc<TaskSnapshot>>> {
        self.pushed.subscribe()
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.stop();
        for (_, served) in self.serving.lock().drain() {
            served.abort();
        }
    }
}
