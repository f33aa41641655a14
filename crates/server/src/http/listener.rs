//! The listener: bounded in connections, time and memory, and drained when the server stops.

use super::{endpoint::router, place::is_loopback, stall::StallGuard};
use crate::front::Front;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::{GracefulConnection, GracefulShutdown},
    service::TowerToHyperService,
};
use std::{io, net::SocketAddr, sync::Arc, time::Duration};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};
use tracing::{debug, warn};

/// Connections at once. The next one waits in the kernel until one closes.
const MAX_CONNECTIONS: usize = 8192;
/// How long a connection may be idle, or take to send its head.
const HEAD_PATIENCE: Duration = Duration::from_secs(75);
/// The largest head; MCP's is some hundred bytes.
const HEAD_BYTES: usize = 64 * 1024;
const HEADERS: usize = 100;
/// How long open connections may take to finish when the server stops.
const DRAIN_PATIENCE: Duration = Duration::from_secs(8);
/// When the process has no descriptor left for a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The server cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The address could be reached from other machines, and there is no authentication yet.
    #[error("{0} can be reached from other machines; until there is authentication, listen on 127.0.0.1 or [::1] only")]
    NotLoopback(SocketAddr),
    /// The system refuses.
    #[error("cannot listen on {address}: {source}")]
    Bind {
        /// The address asked for.
        address: SocketAddr,
        /// The system's reason.
        source: io::Error,
    },
}

/// A socket that is bound, so that a port in use is known before anything starts.
pub struct Listener {
    socket: TcpListener,
    address: SocketAddr,
}

impl Listener {
    /// Binds a loopback address. Port 0 takes a free one.
    ///
    /// # Errors
    /// [`ListenError`].
    pub async fn bind(address: SocketAddr) -> Result<Self, ListenError> {
        if !is_loopback(address.ip()) {
            return Err(ListenError::NotLoopback(address));
        }
        let bound = async {
            let socket = TcpListener::bind(address).await?;
            let address = socket.local_addr()?;
            Ok(Self { socket, address })
        };
        bound.await.map_err(|source| ListenError::Bind { address, source })
    }

    /// The address bound.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop` completes; then takes no new connections, ends streams and waits, and gives open requests 8 s.
    pub async fn serve(self, front: Arc<Front>, stop: impl Future<Output = ()>) {
        self.serve_router(router(Arc::clone(&front)), front, stop).await;
    }

    /// As [`serve`](Self::serve), with an application around the endpoint.
    pub async fn serve_router(self, app: axum::Router, front: Arc<Front>, stop: impl Future<Output = ()>) {
        let graceful = GracefulShutdown::new();
        let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let ports = front.engine.ports().clone();
        tokio::pin!(stop);
        loop {
            let accepted = async {
                // Never closed, so a place is only ever waited for.
                let place = Arc::clone(&places).acquire_owned().await.ok();
                (place, self.socket.accept().await)
            };
            let (place, accepted) = tokio::select! {
                accepted = accepted => accepted,
                () = &mut stop => break,
            };
            match accepted {
                Ok((stream, _)) => {
                    let connection = graceful.watch(connect(stream, app.clone(), &front));
                    ports.spawner.spawn(Box::pin(async move {
                        if let Err(error) = connection.await {
                            debug!(%error, "a connection ended");
                        }
                        drop(place);
                    }));
                }
                Err(error) => {
                    warn!(%error, "a connection could not be accepted");
                    ports.clock.sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        drop(self.socket);
        front.drain();
        if ports.within(DRAIN_PATIENCE, graceful.shutdown()).await.is_none() {
            warn!("some connections did not finish in time");
        }
    }
}

fn connect(
    stream: TcpStream,
    app: axum::Router,
    front: &Front,
) -> impl GracefulConnection<Error = hyper::Error> + Send + 'static {
    // Answers are small and awaited; without it each would wait for the acknowledgement of the last.
    let _ = stream.set_nodelay(true);
    let guarded = StallGuard::new(stream, Arc::clone(&front.engine.ports().clock));
    hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_PATIENCE)
        .max_buf_size(HEAD_BYTES)
        .max_headers(HEADERS)
        .serve_connection(TokioIo::new(guarded), TowerToHyperService::new(app))
}
