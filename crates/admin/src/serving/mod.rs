//! Serves the pages, the API and the metrics.

mod admission;

use crate::{
    access::{Access, AdminListener, AdminSocket, ConnectedPeer, Connections, Denials, LoginSessions, is_of_own_user},
    api::{self, error},
    context::{AdminContext, CostlyCount, DrawnPages, Live, Problems, Readiness},
    health,
    metrics::{Metrics, MetricsError},
    page,
    upstream_source::UpstreamSource,
};
use axum::{Extension, Router, extract::ConnectInfo, middleware, routing::get};
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
    service::TowerToHyperService,
};
use longhaul_runtime::Engine;
use longhaul_server::{ProtocolServer, audit::Audit};
use std::{path::PathBuf, sync::Arc, time::Duration};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// Connections at once of processes of the server's own user, and of all others together: browsers behind a proxy, and Prometheus. Theirs are fewer than descriptors,
/// so they take none from clients of MCP.
const MOST_OWN: usize = 1_024;
const MOST_OTHERS: usize = 256;
/// How long a connection may take to send the head of a request, and be idle.
const HEAD_TIMEOUT: Duration = Duration::from_secs(15);
/// How long requests may take after the server was told to stop.
const LAST_ANSWERS: Duration = Duration::from_secs(2);

/// What operating a server needs.
pub struct AdminOptions {
    /// What the server is called.
    pub name: String,
    /// Its data directory, if it has one: how much room is left there is watched.
    pub data_dir: Option<PathBuf>,
    /// Its engine.
    pub engine: Engine,
    /// What has been counted since its store was [wrapped](crate::MeteredStore).
    pub metrics: Arc<Metrics>,
    /// Who may come in.
    pub access: Access,
    /// Where actions are recorded.
    pub audit: Option<Arc<dyn Audit>>,
    /// What its clients are connected to, for the metrics.
    pub protocol: Option<Arc<ProtocolServer>>,
    /// Knows its upstreams, if it is a gateway.
    pub upstreams: Option<Arc<dyn UpstreamSource>>,
    /// Why it only reads, if it does: its database was restored.
    pub reads_only: Option<String>,
    /// How long what runs may take to end when an operator stops the server.
    pub drain_timeout: Duration,
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
            data_dir,
            engine,
            metrics,
            access,
            audit,
            protocol,
            upstreams,
            reads_only,
            drain_timeout,
            stop,
        } = options;
        Self {
            context: Arc::new(AdminContext {
                live: Live::of(&engine),
                name,
                data_dir,
                engine,
                metrics,
                access,
                has_audit_file: audit.as_ref().is_some_and(|audit| !matches!(audit.latest(1), Ok(None))),
                audit,
                protocol,
                upstreams,
                reads_only,
                drain_timeout,
                stop,
                logins: LoginSessions::default(),
                drawn: DrawnPages::default(),
                readiness: Readiness::default(),
                counted: CostlyCount::default(),
                counted_principals: CostlyCount::default(),
                problems: Problems::default(),
                denials: Denials::default(),
            }),
        }
    }

    /// What `/metrics` says, as OpenMetrics text.
    ///
    /// # Errors
    /// [`MetricsError`].
    pub async fn metrics_text(&self) -> Result<String, MetricsError> {
        self.context.metrics_text().await
    }

    fn router(&self) -> Router {
        let context = &self.context;
        Router::new()
            .route("/healthz", get(health::alive))
            .route("/readyz", get(health::ready))
            .route("/metrics", get(api::metrics))
            .nest("/api", api::router())
            .merge(page::router(context))
            .layer(middleware::from_fn_with_state(Arc::clone(context), admission::check))
            .layer(middleware::from_fn(error::errors_as_json))
            .layer(middleware::map_response(page::with_headers))
            .with_state(Arc::clone(context))
    }

    /// Serves an address until `stop` is cancelled, and requests that are being answered for two seconds more.
    pub async fn serve(&self, listener: AdminListener, stop: CancellationToken) {
        self.serve_connections(listener, stop).await;
    }

    /// As [`serve`](Self::serve), on the socket in the data directory.
    pub async fn serve_socket(&self, socket: AdminSocket, stop: CancellationToken) {
        self.serve_connections(socket, stop).await;
    }

    async fn serve_connections(&self, connections: impl Connections, stop: CancellationToken) {
        let (router, graceful) = (self.router(), GracefulShutdown::new());
        let (own, others) = (
            Arc::new(Semaphore::new(MOST_OWN)),
            Arc::new(Semaphore::new(MOST_OTHERS)),
        );
        let ports = self.context.engine.ports();
        while let Some((stream, peer)) = stop.run_until_cancelled(connections.next()).await {
            let is_own = is_of_own_user(&peer);
            // Whoever is one too many is closed at once.
            let Ok(permit) = Arc::clone(if is_own { &own } else { &others }).try_acquire_owned() else {
                continue;
            };
            let service = router.clone().layer(Extension(ConnectInfo(ConnectedPeer(peer))));
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_TIMEOUT)
                .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
            let connection = graceful.watch(connection);
            ports.spawner.spawn(Box::pin(async move {
                // How a connection of an operator ends tells nothing.
                let _ = connection.await;
                drop(permit);
            }));
        }
        ports.within(LAST_ANSWERS, graceful.shutdown()).await;
    }
}
