//! Input requests without a response, so that only those are cancelled.

use longhaul_wire::{RequestId, notification};
use parking_lot::Mutex;
use serde_json::value::to_raw_value;
use std::{collections::HashSet, sync::Arc};

/// Their ids, each kept for as long as its stream is open.
#[derive(Clone, Default)]
pub(crate) struct UnansweredRequests(Arc<Mutex<HashSet<String>>>);

impl UnansweredRequests {
    /// A request is sent under this id.
    pub(crate) fn insert(&self, id: &str) {
        self.0.lock().insert(id.to_owned());
    }

    /// Its client has responded, or its stream has closed; returns whether it was unanswered before.
    pub(crate) fn remove(&self, id: &str) -> bool {
        self.0.lock().remove(id)
    }

    /// The notification that cancels it, if it has no response.
    pub(crate) fn withdraw(&self, id: &str) -> Option<String> {
        self.remove(id).then(|| cancellation(id))
    }
}

/// The notification that cancels the request of ours with this id.
pub(crate) fn cancellation(id: &str) -> String {
    let mut text = String::new();
    let raw = to_raw_value(id).unwrap_or_default();
    if let Some(id) = RequestId::from_raw(&raw) {
        notification::write_cancelled(&mut text, id, Some("The question is settled"));
    }
    text
}
