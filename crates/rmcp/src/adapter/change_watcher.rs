//! Following the handler's changes until the server stops.

use super::{
    catalog::Offer, changes::Change, exchange::HostedHandler, standing_connection::StandingConnection,
    tool::ToolOverrides,
};
use longhaul::ServerHandle;
use std::sync::Arc;
use tokio::sync::mpsc;

/// Follows the handler until the server stops.
pub(super) async fn follow(
    server: ServerHandle,
    handler: Arc<HostedHandler>,
    overrides: Arc<ToolOverrides>,
    mut connection: StandingConnection,
    mut changes: mpsc::UnboundedReceiver<Change>,
    mut offered: Offer,
) {
    connection.subscribe(&offered, &handler).await;
    loop {
        let change = tokio::select! {
            () = connection.forward_changes(&handler.changes) => return tracing::warn!("the handler has closed its connection"),
            Some(change) = changes.recv() => change,
        };
        // Changes that arrive together are handled together.
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
        match Offer::read(&handler, connection.features()).await {
            Ok(now) => {
                offered.change_to(now, &server, &handler, &overrides).await;
                connection.subscribe(&offered, &handler).await;
            }
            Err(error) => tracing::error!(%error, "the handler's changed lists could not be read"),
        }
    }
}
