//! Serving it.

use crate::{
    access::{Access, LoginSessions},
    admission, api,
    context::AdminContext,
    drawn_pages::DrawnPages,
    health,
    listener::{AdminListener, AdminSocket, ConnectedPeer},
    live::Live,
    metrics::Metrics,
    page,
};
use axum::{Router, middleware, routing::get};
use longhaul_runtime::Engine;
use longhaul_server::audit::Audit;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// What operating a server needs.
pub struct AdminOptions {
    /// What the server is called.
    pub name: String,
    /// Its engine.
    pub engine: Engine,
    /// What has been counted since its store was [wrapped](crate::MeteredStore).
    pub metrics: Arc<Metrics>,
    /// Who may come in.
    pub access: Access,
    /// Where actions are recorded.
    pub audit: Option<Arc<dyn Audit>>,
    /// Cancelled when the server stops: then it is not ready. An operator who drains the server cancels it.
    pub stop: CancellationToken,
}

/// Serves operators. See the [crate](crate).
pub struct Admin {
    context: Arc<AdminContext>,
}

impl Admin {
    /// For a server that runs.
    pub fn new(options: AdminOptions) -> Self {
        let AdminOptions {
            name,
            engine,
            metrics,
            access,
            audit,
            stop,
        } = options;
        Self {
            context: Arc::new(AdminContext {
                live: Live::of(&engine),
                name,
                engine,
                metrics,
                access,
                audit,
                stop,
                logins: LoginSessions::default(),
                drawn: DrawnPages::default(),
            }),
        }
    }

    fn router(&self) -> Router {
        let context = &self.context;
        Router::new()
            .route("/healthz", get(health::alive))
            .route("/readyz", get(health::ready))
            .route("/metrics", get(api::metrics))
            .nest("/api", api::router())
            .merge(page::router())
            .layer(middleware::from_fn_with_state(Arc::clone(context), admission::check))
            .layer(middleware::map_response(page::with_headers))
            .with_state(Arc::clone(context))
    }

    /// Serves an address until `stop` is cancelled.
    pub async fn serve(&self, listener: AdminListener, stop: CancellationToken) {
        let service = self.router().into_make_service_with_connect_info::<ConnectedPeer>();
        let served = axum::serve(listener, service).with_graceful_shutdown(stop.cancelled_owned());
        if let Err(error) = served.await {
            tracing::warn!(%error, "the admin address is not served any more");
        }
    }

    /// Serves the socket in the data directory until `stop` is cancelled.
    pub async fn serve_socket(&self, socket: AdminSocket, stop: CancellationToken) {
        let service = self.router().into_make_service_with_connect_info::<ConnectedPeer>();
        let served = axum::serve(socket, service).with_graceful_shutdown(stop.cancelled_owned());
        if let Err(error) = served.await {
            tracing::warn!(%error, "the admin socket is not served any more");
        }
    }
}
