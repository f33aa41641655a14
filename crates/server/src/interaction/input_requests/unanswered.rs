//! Deliveries of questions that nobody has responded to, so that only those are taken back (G1-40).

use longhaul_wire::{RequestId, notification};
use parking_lot::{Mutex, MutexGuard};
use serde_json::value::to_raw_value;
use std::{collections::HashSet, sync::Arc};

/// Ids of deliveries, each kept for as long as its stream is open.
#[derive(Clone, Default)]
pub(crate) struct Unanswered(Arc<Mutex<HashSet<String>>>);

impl Unanswered {
    /// A question is sent under this id.
    pub(crate) fn insert(&self, id: &str) {
        self.lock().insert(id.to_owned());
    }

    /// Its client has responded, or its stream has gone; says whether it was unanswered before.
    pub(crate) fn remove(&self, id: &str) -> bool {
        self.lock().remove(id)
    }

    /// The notification that takes it back, if nobody has responded to it.
    pub(crate) fn take_back(&self, id: &str) -> Option<String> {
        self.remove(id).then(|| taken_back(id))
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<String>> {
        self.0.lock()
    }
}

/// The notification that takes the request of ours with this id back (U-04).
pub(crate) fn taken_back(id: &str) -> String {
    let mut text = String::new();
    let raw = to_raw_value(id).unwrap_or_default();
    if let Some(id) = RequestId::from_raw(&raw) {
        notification::write_cancelled(&mut text, id, Some("The question is settled"));
    }
    text
}
