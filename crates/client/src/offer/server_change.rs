//! What a server says has changed.

use longhaul_core::Json;
use longhaul_wire::jsonrpc::Notification;
use parking_lot::Mutex;
use serde::Deserialize;
use std::collections::HashMap;
use tokio::sync::broadcast;

/// The changes that wait to be read by a watch. With more, everything counts as changed.
const MAX_WAITING: usize = 256;

/// Something that a server offers has changed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ServerChange {
    /// The list of tools.
    Tools,
    /// The list of prompts.
    Prompts,
    /// The list of resources.
    Resources,
    /// A resource.
    Resource {
        /// Its URI.
        uri: String,
        /// All of the notification, as the server wrote it; `None` if notifications may have been missed.
        params: Option<Json>,
    },
}

impl ServerChange {
    /// The URI of the resource, if it is one that has changed.
    pub fn uri(&self) -> Option<&str> {
        match self {
            Self::Resource { uri, .. } => Some(uri),
            _ => None,
        }
    }

    pub(crate) fn read(notification: &Notification<'_>) -> Option<Self> {
        #[derive(Deserialize)]
        struct Params {
            uri: String,
        }
        match &*notification.method {
            "notifications/tools/list_changed" => Some(Self::Tools),
            "notifications/prompts/list_changed" => Some(Self::Prompts),
            "notifications/resources/list_changed" => Some(Self::Resources),
            "notifications/resources/updated" => {
                let written = notification.raw_params()?;
                let Params { uri } = serde_json::from_str(written.get()).ok()?;
                let params = Some(Json::from(written));
                Some(Self::Resource { uri, params })
            }
            _ => None,
        }
    }
}

/// Passes changes to all watches of a connection.
pub(crate) struct Changes {
    sender: broadcast::Sender<ServerChange>,
    /// How many watches each resource of a legacy server has, by its URI: the server has one subscription for all of them.
    watches: Mutex<HashMap<String, usize>>,
    /// Whoever subscribes or unsubscribes waits for the answer before the next one does.
    turn: tokio::sync::Mutex<()>,
}

impl Default for Changes {
    fn default() -> Self {
        Self {
            sender: broadcast::Sender::new(MAX_WAITING),
            watches: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
        }
    }
}

impl Changes {
    pub(crate) fn send(&self, change: ServerChange) {
        // Without a watch nobody gets it.
        let _ = self.sender.send(change);
    }

    pub(crate) fn receive(&self) -> broadcast::Receiver<ServerChange> {
        self.sender.subscribe()
    }

    /// Waits until nobody else subscribes or unsubscribes, and nobody does before this is dropped.
    pub(crate) async fn turn(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.turn.lock().await
    }

    /// There is one more watch of these resources.
    pub(crate) fn add_watch(&self, uris: &[String]) {
        let mut watches = self.watches.lock();
        for uri in uris {
            *watches.entry(uri.clone()).or_default() += 1;
        }
    }

    /// There is one watch less of these resources.
    pub(crate) fn remove_watch(&self, uris: &[String]) {
        let mut watches = self.watches.lock();
        for uri in uris {
            if let Some(count) = watches.get_mut(uri) {
                *count -= 1;
                if *count == 0 {
                    watches.remove(uri);
                }
            }
        }
    }

    pub(crate) fn is_watched(&self, uri: &str) -> bool {
        self.watches.lock().contains_key(uri)
    }
}
