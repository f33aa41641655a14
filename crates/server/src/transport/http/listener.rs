//! The listener: bounded in connections, time and memory, and drained when the server stops.
//!
//! A connection over the limit of all waits in the kernel. One over the limit of its address is accepted and refused with an error, since waiting it would block connections
//! of other addresses.

use super::{
    PATH,
    allowed_hosts::is_loopback,
    connection::Connection,
    endpoint::{answer, elsewhere, router},
    exposure::{Exposure, ListenError},
    response::{Response, refuse},
    stall::StallGuard,
    tls::Tls,
};
use crate::{
    admission::{
        authenticator::{Peer, PeerUser},
        limits::ConnectionPermit,
    },
    transport::front::Front,
};
use hyper::{
    Request,
    body::Incoming,
    server::conn::http1,
    service::{Service, service_fn},
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
    service::TowerToHyperService,
};
use longhaul_wire::RpcError;
use std::{
    convert::Infallible,
    io,
    net::SocketAddr,
    pin::{Pin, pin},
    sync::Arc,
    time::Duration,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
};
use tracing::{debug, warn};

/// How long a connection may be idle, or take to send its head.
const HEAD_TIMEOUT: Duration = Duration::from_secs(75);
/// The same for a connection that is refused.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(2);
/// Connections that are refused at the same time; the next one is closed without an answer.
const REFUSALS: usize = 64;
/// The largest head; MCP's is some hundred bytes.
const HEAD_BYTES: usize = 64 * 1024;
const HEADERS: usize = 100;
/// How long plain calls may still take when the server stops.
const CALL_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the rest may take after that: slow readers, and requests that have arrived in part.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);
const ONLY_PROXIES: &str = "This port serves the proxies in front of it only, which have TLS (see trusted_proxies)";
/// When the process has no descriptor left for a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A bound socket, so that a port in use is reported before anything starts.
pub struct Listener {
    socket: TcpListener,
    address: SocketAddr,
    tls: Option<Tls>,
}

impl Listener {
    /// Binds a loopback address. Port 0 takes a free one.
    ///
    /// # Errors
    /// [`ListenError`].
    pub async fn bind(address: SocketAddr) -> Result<Self, ListenError> {
        Self::bind_exposed(address, Exposure::default()).await
    }

    /// Binds an address that the server may listen on. Port 0 takes a free one.
    ///
    /// # Errors
    /// [`ListenError`].
    pub async fn bind_exposed(address: SocketAddr, exposure: Exposure) -> Result<Self, ListenError> {
        exposure.check(address)?;
        let bound = async {
            let socket = TcpListener::bind(address).await?;
            let address = socket.local_addr()?;
            Ok(Self {
                socket,
                address,
                tls: None,
            })
        };
        bound.await.map_err(|source| ListenError::Bind { address, source })
    }

    /// Serves over TLS only. Whether the address may be listened on is decided before, by the [`Exposure`].
    pub fn with_tls(self, tls: Tls) -> Self {
        Self { tls: Some(tls), ..self }
    }

    /// The address bound.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL of the endpoint at this address.
    pub fn url(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}{PATH}", self.address)
    }

    /// Serves until `stop` completes; then accepts no connections, and ends streams and waits for tasks. Plain calls have 5 s
    /// to complete, and the rest has 2 s more.
    pub async fn serve(self, front: Arc<Front>, stop: impl Future<Output = ()> + Send) {
        let others = TowerToHyperService::new(router(Arc::clone(&front)).fallback(elsewhere));
        let server = Server::Endpoint {
            front: Arc::clone(&front),
            others,
        };
        self.serve_with(server, front, pin!(stop)).await;
    }

    /// As [`serve`](Self::serve), with an application around the endpoint.
    pub async fn serve_router(self, app: axum::Router, front: Arc<Front>, stop: impl Future<Output = ()> + Send) {
        self.serve_with(Server::Application(TowerToHyperService::new(app)), front, pin!(stop))
            .await;
    }

    /// Not generic, so that it is compiled with the optimization level of this crate.
    async fn serve_with(self, server: Server, front: Arc<Front>, mut stop: Pin<&mut (dyn Future<Output = ()> + Send)>) {
        let server = Arc::new(server);
        let graceful = GracefulShutdown::new();
        let most = front
            .admission
            .meter
            .most_connections()
            .min(descriptors_for_connections());
        let permits = Arc::new(Semaphore::new(most));
        let refusals = Arc::new(Semaphore::new(REFUSALS));
        let ports = front.engine.ports().clone();
        let (protocol, refusal_protocol) = (protocol(), refusal_protocol());
        let http = &front.http;
        // TLS ends at them, so nobody else may send anything over a network.
        let only_proxies = self.tls.is_none()
            && !http.plain_http
            && !http.trusted_proxies.is_empty()
            && !is_loopback(self.address.ip());
        if let Some(tls) = &self.tls {
            let shutdown = front.shutdown.clone();
            let reload = tls
                .clone()
                .reload(ports.clone(), async move { shutdown.drained().await });
            ports.spawner.spawn(Box::pin(reload));
        }
        loop {
            let accepted = async {
                // The semaphore is never closed.
                let permit = Arc::clone(&permits).acquire_owned().await.ok();
                (permit, self.socket.accept().await)
            };
            let (permit, accepted) = tokio::select! {
                accepted = accepted => accepted,
                () = &mut stop => break,
                () = front.shutdown.closed() => break,
            };
            match accepted {
                Ok((stream, from)) => {
                    let Some(present) = front.admission.connections.enter() else {
                        continue;
                    };
                    let is_proxy = front.http.trusted_proxies.include(from.ip());
                    let admitted = match (is_proxy, only_proxies && !is_loopback(from.ip())) {
                        (true, _) => Ok(None),
                        (false, true) => Err(RpcError::invalid_request(ONLY_PROXIES).with_status(403)),
                        (false, false) => {
                            let counted = front.admission.meter.connection(from.ip(), most);
                            counted.map(Some).map_err(RpcError::from)
                        }
                    };
                    let (server, protocol, held) = match admitted {
                        Ok(address_permit) => (Arc::clone(&server), &protocol, Held::Served(permit, address_permit)),
                        Err(error) => {
                            let Ok(refusal) = Arc::clone(&refusals).try_acquire_owned() else {
                                continue;
                            };
                            let refusing = Arc::new(Server::Refusal(Arc::clone(&front), error));
                            (refusing, &refusal_protocol, Held::Refusal(refusal))
                        }
                    };
                    // Without this a small answer would wait for the acknowledgement of the one before.
                    let _ = stream.set_nodelay(true);
                    let state = Arc::new(Connection::new(peer(&front, &stream, from), is_proxy.then_some(most)));
                    let service = service(server, Arc::clone(&state));
                    let knows_senders = front.admission.access.knows_senders();
                    let clock = Arc::clone(&ports.clock);
                    let Some(tls) = self.tls.clone() else {
                        let guarded = StallGuard::new(stream, Arc::clone(&ports.clock));
                        let connection = graceful.watch(protocol.serve_connection(TokioIo::new(guarded), service));
                        ports.spawner.spawn(Box::pin(async move {
                            tokio::select! {
                                served = connection => ended(served),
                                () = state.nobody_is_known(&*clock), if knows_senders => {}
                            }
                            drop((held, present));
                        }));
                        continue;
                    };
                    let (watcher, protocol) = (graceful.watcher(), protocol.clone());
                    let (shutdown, handshake_ports) = (front.shutdown.clone(), ports.clone());
                    ports.spawner.spawn(Box::pin(async move {
                        let accepted = tokio::select! {
                            accepted = tls.accept(stream, &handshake_ports) => accepted,
                            () = shutdown.drained() => None,
                        };
                        if let Some(stream) = accepted {
                            let connection = protocol.serve_connection(TokioIo::new(stream), service);
                            tokio::select! {
                                served = watcher.watch(connection) => ended(served),
                                () = state.nobody_is_known(&*clock), if knows_senders => {}
                            }
                        }
                        drop((held, present));
                    }));
                }
                Err(error) if is_client_disconnect(&error) => debug!(%error, "a connection ended before it began"),
                Err(error) => {
                    warn!(%error, "a connection could not be accepted");
                    ports.clock.sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        drop(self.socket);
        front.drain();
        let finished = graceful.shutdown();
        tokio::pin!(finished);
        if ports.within(CALL_TIMEOUT, &mut finished).await.is_some() {
            return;
        }
        front.close();
        if ports.within(DRAIN_TIMEOUT, finished).await.is_none() {
            warn!("some connections did not finish in time");
        }
    }
}

/// Half of them: the store, the commands and their logs need the others.
fn descriptors_for_connections() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    limit.map_or(usize::MAX, |limit| usize::try_from(limit / 2).unwrap_or(usize::MAX))
}

/// The client has left during the handshake, which is no fault of the server.
fn is_client_disconnect(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// What a connection holds until it closes.
#[expect(dead_code, reason = "only ever dropped")]
enum Held {
    /// A trusted proxy's has no permit of its address.
    Served(Option<OwnedSemaphorePermit>, Option<ConnectionPermit>),
    Refusal(OwnedSemaphorePermit),
}

/// What answers the requests of a connection.
enum Server {
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

/// What is known of a connection.
fn peer(front: &Front, stream: &TcpStream, from: SocketAddr) -> Peer {
    match (front.admission.access.everyone(), stream.local_addr()) {
        // Whoever runs a proxy, its requests are those of others.
        (None, Ok(local)) if front.http.trusted_proxies.include(from.ip()) => Peer::Tcp {
            local,
            remote: from,
            user: PeerUser::Unknown,
        },
        (None, Ok(local)) => front.admission.access.peer(stream, (local, from)),
        // Nobody asks whose it is.
        (Some(_), Ok(local)) => Peer::Tcp {
            local,
            remote: from,
            user: PeerUser::Unknown,
        },
        // The connection is over.
        (_, Err(_)) => Peer::Unknown,
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

fn protocol() -> http1::Builder {
    let mut protocol = http1::Builder::new();
    protocol
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_BYTES)
        .max_headers(HEADERS);
    protocol
}

/// HTTP for one request and its refusal.
fn refusal_protocol() -> http1::Builder {
    let mut protocol = protocol();
    protocol.header_read_timeout(REFUSAL_TIMEOUT).keep_alive(false);
    protocol
}
