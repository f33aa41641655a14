//! Serving the requests of one connection.

use super::{
    PATH,
    connection::Connection,
    endpoint::answer,
    response::{Response, refuse},
};
use crate::transport::front::Front;
use hyper::{
    Request,
    body::Incoming,
    server::conn::http1,
    service::{Service, service_fn},
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::Watcher,
    service::TowerToHyperService,
};
use longhaul_runtime::Ports;
use longhaul_wire::RpcError;
use std::{convert::Infallible, sync::Arc, time::Duration};
use tokio::io::{AsyncRead, AsyncWrite};
use tracing::debug;

/// How long a connection may be idle, or take to send its head.
const HEAD_TIMEOUT: Duration = Duration::from_secs(75);
/// The same for a connection that is refused.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(2);
/// The largest head; MCP's is some hundred bytes.
const HEAD_BYTES: usize = 64 * 1024;
const HEADERS: usize = 100;

/// A connection that was accepted.
pub(super) struct ServedConnection {
    pub(super) server: Arc<Server>,
    /// Whether it is served one request, which is refused.
    pub(super) is_refused: bool,
    pub(super) state: Arc<Connection>,
    pub(super) knows_senders: bool,
    pub(super) ports: Ports,
    pub(super) watcher: Watcher,
}

impl ServedConnection {
    /// Serves its requests until it closes.
    pub(super) async fn serve(self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        let service = service(self.server, Arc::clone(&self.state));
        let connection = protocol(self.is_refused).serve_connection(TokioIo::new(stream), service);
        tokio::select! {
            served = self.watcher.watch(connection) => ended(served),
            () = self.state.nobody_is_known(&*self.ports.clock), if self.knows_senders => {}
        }
    }
}

/// What answers the requests of a connection.
pub(super) enum Server {
    /// The endpoint. Requests for it go neither through a router nor through layers, which would cost more than most answers.
    Endpoint {
        front: Arc<Front>,
        /// Answers requests for other paths.
        others: TowerToHyperService<axum::Router>,
    },
    /// An application around the endpoint.
    Application(TowerToHyperService<axum::Router>),
    /// Every request is answered with the limit that was reached. The client may be sending one already, which must be read first.
    Refusal(Arc<Front>, RpcError),
}

impl Server {
    async fn answer(&self, connection: &Arc<Connection>, mut request: Request<Incoming>) -> Response {
        let _open = connection.begin();
        let app = match self {
            Self::Endpoint { front, .. } if request.uri().path() == PATH => {
                return answer(front, connection, request).await;
            }
            Self::Endpoint { others: app, .. } | Self::Application(app) => app,
            Self::Refusal(front, error) => return refuse(front, error),
        };
        request.extensions_mut().insert(Arc::clone(connection));
        let Ok(response) = Box::pin(app.call(request)).await;
        response.map(Into::into)
    }
}

/// Answers the requests of one connection.
fn service(
    server: Arc<Server>,
    connection: Arc<Connection>,
) -> impl Service<Request<Incoming>, Response = Response, Error = Infallible, Future: Send> + Send + 'static {
    service_fn(move |request| {
        let (server, connection) = (Arc::clone(&server), Arc::clone(&connection));
        async move { Ok(server.answer(&connection, request).await) }
    })
}

fn ended(served: hyper::Result<()>) {
    if let Err(error) = served {
        debug!(%error, "a connection ended");
    }
}

fn protocol(is_refused: bool) -> http1::Builder {
    let mut protocol = http1::Builder::new();
    protocol
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_BYTES)
        .max_headers(HEADERS);
    if is_refused {
        protocol.header_read_timeout(REFUSAL_TIMEOUT).keep_alive(false);
    }
    protocol
}
