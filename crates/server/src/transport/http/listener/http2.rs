//! HTTP/2: several requests at once on one connection, within limits for each and for all of them.

use super::{
    lent_body::LentBody,
    paced_body::{Pace, PacedBody},
    serving::{HEAD_BYTES, HEAD_TIMEOUT, REFUSAL_TIMEOUT, Server},
};
use crate::transport::http::connection::Connection;
use http::Response;
use hyper::{
    Request,
    body::Incoming,
    rt::Executor,
    server::conn::http2,
    service::{Service, service_fn},
};
use hyper_util::rt::TokioTimer;
use longhaul_runtime::Ports;
use std::{sync::Arc, time::Duration};
use tracing::debug;

/// Requests of one connection that are answered at the same time; a client waits with further ones.
const STREAMS: u32 = 100;
/// Bytes of bodies that a connection takes before they are read, of one request and of all.
const STREAM_WINDOW: u32 = 64 * 1024;
const CONNECTION_WINDOW: u32 = 256 * 1024;
/// What waits to be sent on one stream, beside the piece that its body has handed over.
const SEND_BUFFER: usize = 64 * 1024;
/// Between two pings, which find out that the client is gone although the network says nothing.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(20);

tokio::task_local! {
    /// How the reader of the response to the present request keeps up.
    static PACE: Arc<Pace>;
}

/// Runs what answers the requests of one connection: each until it is answered, or its reader is too slow, which resets its stream alone.
#[derive(Clone)]
pub(super) struct Streams {
    connection: Arc<Connection>,
    ports: Ports,
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Streams {
    fn execute(&self, stream: F) {
        let (connection, clock) = (Arc::clone(&self.connection), Arc::clone(&self.ports.clock));
        self.ports.spawner.spawn(Box::pin(async move {
            let _open = connection.open_stream();
            let pace = Arc::new(Pace::new(connection.waiting_readers()));
            tokio::select! {
                () = PACE.scope(Arc::clone(&pace), stream) => {}
                () = pace.is_too_slow(&*clock) => debug!("the reader of a stream reads too slowly, or not at all"),
            }
        }));
    }
}

pub(super) fn protocol(connection: &Arc<Connection>, ports: &Ports) -> http2::Builder<Streams> {
    let mut protocol = http2::Builder::new(Streams {
        connection: Arc::clone(connection),
        ports: ports.clone(),
    });
    // Against streams that are opened and reset at once, hyper has limits of its own.
    protocol
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buf_size(SEND_BUFFER)
        .max_header_list_size(HEAD_BYTES as u32)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT);
    protocol
}

/// Answers the requests of one connection.
pub(super) fn service(
    server: Arc<Server>,
    connection: Arc<Connection>,
    ports: Ports,
) -> impl Service<Request<Incoming>, Response = Response<PacedBody>, Error = h2::Error, Future: Send + 'static>
+ Send
+ 'static {
    service_fn(move |request: Request<Incoming>| {
        let (server, connection, ports) = (Arc::clone(&server), Arc::clone(&connection), ports.clone());
        async move {
            // The client may send it again: nothing was done for it.
            let head = connection.hold_head(&request);
            let head = head.ok_or(h2::Reason::REFUSED_STREAM)?;
            let (parts, body) = request.into_parts();
            let (body, lender) = LentBody::new(body);
            let response = server.answer(&connection, Request::from_parts(parts, body)).await;
            // What still comes takes no memory, so it must not keep others from being heard.
            drop(head);
            lender.drop_rest(&ports).await;
            let pace = PACE.try_with(Arc::clone).unwrap_or_default();
            Ok(response.map(|body| PacedBody::new(body, pace)))
        }
    })
}

/// Completes when the connection had no request for long; HTTP/1.1 has a timeout for each head instead.
pub(super) async fn is_idle(connection: &Connection, is_refused: bool, ports: &Ports) {
    let timeout = if is_refused { REFUSAL_TIMEOUT } else { HEAD_TIMEOUT };
    connection.idle_for(timeout, &*ports.clock).await;
}
