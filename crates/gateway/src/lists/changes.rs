//! Changes of the lists of an upstream, as it notifies of them.

use longhaul_client::{Connection, RequestError, ServerDescription, Watch, WatchFilter};
use longhaul_core::BoxFuture;
use std::time::Duration;

/// How long the lists of an upstream wait for the subscription to their changes.
pub(crate) const LONGEST_SUBSCRIBING: Duration = Duration::from_secs(1);

/// Changes of what an upstream offers.
pub(crate) enum ListChanges {
    /// It does not notify of them.
    Unknown,
    /// It has not answered the subscription yet.
    Subscribing(BoxFuture<'static, Result<Watch, RequestError>>),
    Watched(Watch),
}

impl ListChanges {
    /// The lists whose changes the upstream notifies of.
    pub(crate) fn filter(server: &ServerDescription) -> WatchFilter {
        let notifies = |capability: &str| server.capabilities[capability]["listChanged"] == true;
        WatchFilter {
            tools: notifies("tools"),
            prompts: notifies("prompts"),
            resources: notifies("resources"),
            uris: Vec::new(),
        }
    }

    pub(crate) fn of(connection: &Connection, filter: WatchFilter) -> Self {
        if filter == WatchFilter::default() {
            return Self::Unknown;
        }
        let connection = connection.clone();
        Self::Subscribing(Box::pin(async move { connection.watch(filter).await }))
    }

    /// Completes when the upstream notifies of changes, or does not.
    pub(crate) async fn subscribed(&mut self) -> Result<(), RequestError> {
        if let Self::Subscribing(subscribing) = self {
            let watch = subscribing.await;
            *self = Self::Unknown;
            *self = Self::Watched(watch?);
        }
        Ok(())
    }

    /// Waits for a change, or for a subscription before which there may have been one.
    pub(crate) async fn next(&mut self) -> Result<(), RequestError> {
        match self {
            Self::Unknown => std::future::pending().await,
            Self::Subscribing(_) => self.subscribed().await,
            Self::Watched(watch) => {
                if watch.next().await.is_none() {
                    *self = Self::Unknown;
                    std::future::pending::<()>().await;
                }
                Ok(())
            }
        }
    }
}
