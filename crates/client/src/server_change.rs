//! What a server says has changed.

use longhaul_core::Json;
use longhaul_wire::jsonrpc::Notification;
use serde::Deserialize;
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
pub(crate) struct Changes(broadcast::Sender<ServerChange>);

impl Default for Changes {
    fn default() -> Self {
        Self(broadcast::Sender::new(MAX_WAITING))
    }
}

impl Changes {
    pub(crate) fn send(&self, change: ServerChange) {
        // Without a watch nobody gets it.
        let _ = self.0.send(change);
    }

    pub(crate) fn receive(&self) -> broadcast::Receiver<ServerChange> {
        self.0.subscribe()
    }
}
