//! Serving one connection, over HTTP/1.1 or HTTP/2.

use super::{
    http2,
    serving::{HEAD_BYTES, HEAD_TIMEOUT, REFUSAL_TIMEOUT, Server},
};
use crate::transport::http::{connection::Connection, response::Response};
use hyper::{
    Request,
    body::Incoming,
    server::conn::http1,
    service::{Service, service_fn},
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::Watcher,
};
use longhaul_runtime::Ports;
use std::{convert::Infallible, sync::Arc};
use tokio::io::{AsyncRead, AsyncWrite};
use tracing::debug;

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
    /// Serves its requests over HTTP/2 until it closes.
    pub(super) async fn serve_http2(self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        let service = http2::service(self.server, Arc::clone(&self.state), self.ports.clone());
        let connection = http2::protocol(&self.state, &self.ports).serve_connection(TokioIo::new(stream), service);
        tokio::select! {
            served = self.watcher.watch(connection) => ended(served),
            () = http2::is_idle(&self.state, self.is_refused, &self.ports) => {}
            () = self.state.nobody_is_known(&*self.ports.clock), if self.knows_senders => {}
        }
    }

    /// Serves its requests over HTTP/1.1 until it closes.
    pub(super) async fn serve(self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        let service = service(self.server, Arc::clone(&self.state));
        let connection = protocol(self.is_refused).serve_connection(TokioIo::new(stream), service);
        tokio::select! {
            served = self.watcher.watch(connection) => ended(served),
            () = self.state.nobody_is_known(&*self.ports.clock), if self.knows_senders => {}
        }
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
