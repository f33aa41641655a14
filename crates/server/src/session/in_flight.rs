//! Legacy requests that are not answered, so that their senders can cancel them, also a plain call after its connection was closed.
//!
//! Cancelling a plain call stops its work; cancelling a `tasks/result` ends that wait and leaves the task alone.

use futures_util::FutureExt;
use longhaul_core::SessionKey;
use longhaul_wire::RequestId;
use parking_lot::Mutex;
use std::{collections::HashMap, sync::Arc};
use tokio::sync::Notify;

type Key = (SessionKey, String);

/// Requests that are not answered, by session and id. Ids are the client's own, so a session can only cancel what it sent.
#[derive(Clone, Default)]
pub(crate) struct InFlight(Arc<Mutex<HashMap<Key, Arc<Notify>>>>);

/// A request that is not answered; dropping it removes it from the table.
pub(crate) struct InFlightRequest {
    table: InFlight,
    key: Option<Key>,
    cancelled: Arc<Notify>,
}

impl InFlight {
    /// Enters a request. Without a session it cannot be cancelled.
    pub(crate) fn enter(&self, session: Option<&SessionKey>, id: RequestId<'_>) -> InFlightRequest {
        let cancelled = Arc::new(Notify::new());
        let key = session.map(|session| (session.clone(), id.canonical().into_owned()));
        if let Some(key) = &key {
            self.0.lock().insert(key.clone(), Arc::clone(&cancelled));
        }
        InFlightRequest {
            table: self.clone(),
            key,
            cancelled,
        }
    }

    /// Cancels a request, which is named by its canonical id; returns whether it was found. Unknown ids are ignored: the answer may be on its way.
    pub(crate) fn cancel(&self, session: &SessionKey, id: &str) -> bool {
        let key = (session.clone(), id.to_owned());
        let table = self.0.lock();
        let entry = table.get(&key);
        if let Some(entry) = entry {
            entry.notify_one();
        }
        entry.is_some()
    }
}

impl InFlightRequest {
    /// Completes when the request is cancelled.
    pub(crate) async fn cancelled(&self) {
        self.cancelled.notified().await;
    }

    /// Whether it was cancelled, and nobody has noticed yet. That is noticed with this.
    pub(crate) fn take_cancellation(&self) -> bool {
        self.cancelled.notified().now_or_never().is_some()
    }
}

impl Drop for InFlightRequest {
    fn drop(&mut self) {
        let Some(key) = &self.key else { return };
        let mut table = self.table.0.lock();
        // A client that reuses an id has replaced the entry; the newer one stays.
        if table.get(key).is_some_and(|entry| Arc::ptr_eq(entry, &self.cancelled)) {
            table.remove(key);
        }
    }
}
