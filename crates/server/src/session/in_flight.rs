//! Legacy requests that are being waited for, so that their sender can call them off (U-04).
//!
//! Calling a plain call off cancels it; calling a `tasks/result` off ends that wait and leaves the task alone (G1-55).

use crate::admission::caller::Caller;
use longhaul_core::SessionKey;
use longhaul_wire::RequestId;
use parking_lot::Mutex;
use std::{collections::HashMap, sync::Arc};
use tokio::sync::Notify;

type Key = (SessionKey, String);

/// Waiting requests by session and id. Ids are the client's own, so a session can only call off what it sent.
#[derive(Clone, Default)]
pub(crate) struct Inflight(Arc<Mutex<HashMap<Key, Arc<Notify>>>>);

/// A request being waited for; dropping it ends the entry.
pub(crate) struct Entry {
    table: Inflight,
    key: Option<Key>,
    called_off: Arc<Notify>,
}

impl Inflight {
    /// Enters a request. Without a session nobody can call it off.
    pub(crate) fn enter(&self, caller: &Caller, id: RequestId<'_>) -> Entry {
        let called_off = Arc::new(Notify::new());
        let key = caller
            .session()
            .map(|session| (session.key.clone(), id.canonical().into_owned()));
        if let Some(key) = &key {
            self.lock().insert(key.clone(), Arc::clone(&called_off));
        }
        Entry {
            table: self.clone(),
            key,
            called_off,
        }
    }

    /// Calls a request off. Unknown ids are ignored: the answer may be on its way (U-06).
    pub(crate) fn call_off(&self, caller: &Caller, id: RequestId<'_>) {
        let Some(session) = caller.session() else { return };
        let key = (session.key.clone(), id.canonical().into_owned());
        if let Some(entry) = self.lock().get(&key) {
            entry.notify_one();
        }
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, HashMap<Key, Arc<Notify>>> {
        self.0.lock()
    }
}

impl Entry {
    /// Completes when the request is called off.
    pub(crate) async fn called_off(&self) {
        self.called_off.notified().await;
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let Some(key) = &self.key else { return };
        let mut table = self.table.lock();
        // A client that reuses an id has replaced the entry; the newer one stays.
        if table.get(key).is_some_and(|entry| Arc::ptr_eq(entry, &self.called_off)) {
            table.remove(key);
        }
    }
}
