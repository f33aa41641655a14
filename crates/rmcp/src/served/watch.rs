//! What the handler says has changed, and what follows from it.

use super::{catalog::Offered, exchange::Hosted, home::Home, tool::Settings};
use longhaul::ServerHandle;
use rmcp::model::ServerNotification;
use std::sync::Arc;
use tokio::sync::mpsc;

/// Something has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Change {
    /// A list: which one makes no difference, all are read again.
    Lists,
    /// What is at this URI.
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

/// Where changes are told, on whatever connection the handler says so.
#[derive(Clone)]
pub(super) struct Changes(mpsc::UnboundedSender<Change>);

impl Changes {
    pub(super) fn channel() -> (Self, mpsc::UnboundedReceiver<Change>) {
        let (tell, told) = mpsc::unbounded_channel();
        (Self(tell), told)
    }

    pub(super) fn tell(&self, change: Change) {
        // A server that has stopped has nobody to tell.
        let _ = self.0.send(change);
    }
}

/// Follows the handler until the server stops.
pub(super) async fn follow(
    server: ServerHandle,
    hosted: Arc<Hosted>,
    settings: Arc<Settings>,
    mut home: Home,
    mut changes: mpsc::UnboundedReceiver<Change>,
    mut offered: Offered,
) {
    home.subscribe(&offered, &hosted).await;
    loop {
        let change = tokio::select! {
            () = home.listen(&hosted.changes) => return tracing::warn!("the handler has closed its connection"),
            Some(change) = changes.recv() => change,
        };
        // A burst is one change.
        let mut lists = false;
        let mut next = Some(change);
        while let Some(change) = next {
            match change {
                Change::Lists => lists = true,
                Change::Resource(uri) => server.resource_updated(uri),
            }
            next = changes.try_recv().ok();
        }
        if !lists {
            continue;
        }
        match Offered::read(&hosted, home.features()).await {
            Ok(now) => {
                offered.change_to(now, &server, &hosted, &settings).await;
                home.subscribe(&offered, &hosted).await;
            }
            Err(error) => tracing::error!(%error, "what the handler offers could not be read again"),
        }
    }
}
