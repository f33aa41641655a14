//! Following the handler's changes until the server stops.

use super::{
    catalog::Offered, changes::Change, exchange::Hosted, standing_connection::StandingConnection, tool::Settings,
};
use longhaul::ServerHandle;
use std::sync::Arc;
use tokio::sync::mpsc;

/// Follows the handler until the server stops.
pub(super) async fn follow(
    server: ServerHandle,
    hosted: Arc<Hosted>,
    settings: Arc<Settings>,
    mut connection: StandingConnection,
    mut changes: mpsc::UnboundedReceiver<Change>,
    mut offered: Offered,
) {
    connection.subscribe(&offered, &hosted).await;
    loop {
        let change = tokio::select! {
            () = connection.listen(&hosted.changes) => return tracing::warn!("the handler has closed its connection"),
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
        match Offered::read(&hosted, connection.features()).await {
            Ok(now) => {
                offered.change_to(now, &server, &hosted, &settings).await;
                connection.subscribe(&offered, &hosted).await;
            }
            Err(error) => tracing::error!(%error, "what the handler offers could not be read again"),
        }
    }
}
