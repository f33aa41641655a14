//! The changes that a handler announces.

use rmcp::model::ServerNotification;
use tokio::sync::mpsc;

/// A change that the handler has announced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Change {
    /// A list. All lists are read again, whichever it is.
    Lists,
    /// The resource at this URI.
    Resource(String),
}

impl Change {
    pub(super) fn of(notification: &ServerNotification) -> Option<Self> {
        match notification {
            ServerNotification::ToolListChangedNotification(_)
            | ServerNotification::PromptListChangedNotification(_)
            | ServerNotification::ResourceListChangedNotification(_) => Some(Self::Lists),
            ServerNotification::ResourceUpdatedNotification(updated) => {
                Some(Self::Resource(updated.params.uri.clone()))
            }
            _ => None,
        }
    }
}

/// Receives the changes that the handler announces on any connection.
#[derive(Clone)]
pub(super) struct Changes(mpsc::UnboundedSender<Change>);

impl Changes {
    pub(super) fn channel() -> (Self, mpsc::UnboundedReceiver<Change>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Self(sender), receiver)
    }

    pub(super) fn send(&self, change: Change) {
        // It fails only when the server has stopped.
        let _ = self.0.send(change);
    }
}
