//! The listeners: bounded in connections, time and memory, and drained when the server stops.
//!
//! A connection over the limit of all waits in the kernel. One over the limit of its address is accepted and refused with an error, since waiting it would block connections
//! of other addresses.

mod certificate;
mod exposure;
mod http2;
mod lent_body;
mod paced_body;
mod served_connection;
mod serving;
mod stall;
mod tls;
mod unix_socket;

pub use certificate::TlsError;
pub use exposure::{Exposure, ListenError};
pub use tls::Tls;
pub use unix_socket::UnixSocketError;

use super::{
    PATH,
    allowed_hosts::is_loopback,
    connection::Connection,
    endpoint::{elsewhere, router},
};
use crate::{
    admission::{
        authenticator::{Peer, PeerUser},
        limits::{ConnectionPermit, Source},
    },
    shutdown::Shutdown,
    transport::protocol_server::ProtocolServer,
};
use hyper_util::{server::graceful::GracefulShutdown, service::TowerToHyperService};
use longhaul_wire::RpcError;
use served_connection::ServedConnection;
use serving::Server;
use stall::StallGuard;
use std::{
    io,
    net::SocketAddr,
    path::Path,
    pin::{Pin, pin},
    sync::Arc,
    time::Duration,
};
use tls::speaks_http2;
use tokio::{
    net::{TcpListener, TcpStream, UnixStream},
    sync::{OwnedSemaphorePermit, Semaphore},
};
use tracing::{debug, warn};
use unix_socket::UnixSocket;

/// Connections that are refused at the same time; the next one is closed without an answer.
const REFUSALS: usize = 64;
/// How long plain calls may still take when the server stops.
const CALL_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the rest may take after that: slow readers, and requests that have arrived in part.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);
/// When the process has no descriptor left for a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
const ONLY_PROXIES: &str = "This port serves the proxies in front of it only, which have TLS (see trusted_proxies)";

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
    pub async fn serve(self, protocol: Arc<ProtocolServer>, stop: impl Future<Output = ()> + Send) {
        let server = endpoint(&protocol);
        Socket::Tcp(self.socket, self.address, self.tls)
            .serve(server, protocol, pin!(stop))
            .await;
    }

    /// As [`serve`](Self::serve), with an application around the endpoint.
    pub async fn serve_router(
        self,
        app: axum::Router,
        protocol: Arc<ProtocolServer>,
        stop: impl Future<Output = ()> + Send,
    ) {
        let server = Server::Application(TowerToHyperService::new(app));
        Socket::Tcp(self.socket, self.address, self.tls)
            .serve(server, protocol, pin!(stop))
            .await;
    }
}

/// A bound Unix socket. Its file is removed when the server stops.
///
/// Whoever may open the file can connect. A process of the server's own user is served as such; those of other users need credentials.
pub struct SocketListener(UnixSocket);

impl SocketListener {
    /// Binds a socket with this mode, such as `0o600`. A socket that nobody answers is replaced.
    ///
    /// # Errors
    /// [`UnixSocketError`].
    pub async fn bind(path: &Path, mode: u32) -> Result<Self, UnixSocketError> {
        Ok(Self(UnixSocket::bind(path, mode).await?))
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// As [`Listener::serve`].
    pub async fn serve(self, protocol: Arc<ProtocolServer>, stop: impl Future<Output = ()> + Send) {
        let server = endpoint(&protocol);
        Socket::Unix(self.0).serve(server, protocol, pin!(stop)).await;
    }
}

fn endpoint(protocol: &Arc<ProtocolServer>) -> Server {
    Server::Endpoint {
        protocol: Arc::clone(protocol),
        others: TowerToHyperService::new(router(Arc::clone(protocol)).fallback(elsewhere)),
    }
}

/// What connections come from.
enum Socket {
    Tcp(TcpListener, SocketAddr, Option<Tls>),
    Unix(UnixSocket),
}

enum AcceptedConnection {
    Tcp(TcpStream, SocketAddr),
    /// Of this user.
    Unix(UnixStream, u32),
}

impl Socket {
    async fn accept(&self) -> io::Result<AcceptedConnection> {
        match self {
            Self::Tcp(socket, ..) => {
                let (stream, from) = socket.accept().await?;
                // Without this a small answer would wait for the acknowledgement of the one before.
                let _ = stream.set_nodelay(true);
                Ok(AcceptedConnection::Tcp(stream, from))
            }
            Self::Unix(socket) => {
                let (stream, _) = socket.listener.accept().await?;
                let user = stream.peer_cred()?.uid();
                Ok(AcceptedConnection::Unix(stream, user))
            }
        }
    }

    fn tls(&self) -> Option<&Tls> {
        match self {
            Self::Tcp(_, _, tls) => tls.as_ref(),
            Self::Unix(_) => None,
        }
    }

    /// Whether TLS ends at the proxies, so nobody else may send anything over a network.
    fn serves_only_proxies(&self, protocol: &ProtocolServer) -> bool {
        let http = &protocol.http;
        matches!(self, Self::Tcp(_, address, None) if !is_loopback(address.ip()))
            && !http.plain_http
            && !http.trusted_proxies.is_empty()
    }

    /// Not generic, so that it is compiled with the optimization level of this crate.
    async fn serve(
        self,
        server: Server,
        protocol: Arc<ProtocolServer>,
        mut stop: Pin<&mut (dyn Future<Output = ()> + Send)>,
    ) {
        let server = Arc::new(server);
        let graceful = GracefulShutdown::new();
        let most = protocol
            .admission
            .meter
            .most_connections()
            .min(descriptors_for_connections());
        let permits = Arc::new(Semaphore::new(most));
        let refusals = Arc::new(Semaphore::new(REFUSALS));
        let ports = protocol.engine.ports().clone();
        let only_proxies = self.serves_only_proxies(&protocol);
        if let Some(tls) = self.tls() {
            let shutdown = protocol.shutdown.clone();
            let reload = tls
                .clone()
                .reload(ports.clone(), async move { shutdown.drained().await });
            ports.spawner.spawn(Box::pin(reload));
        }
        loop {
            let accepted = async {
                // The semaphore is never closed.
                let permit = Arc::clone(&permits).acquire_owned().await.ok();
                (permit, self.accept().await)
            };
            let (permit, accepted) = tokio::select! {
                accepted = accepted => accepted,
                () = &mut stop => break,
                () = protocol.shutdown.closed() => break,
            };
            let accepted = match accepted {
                Ok(accepted) => accepted,
                Err(error) if is_client_disconnect(&error) => {
                    debug!(%error, "a connection ended before it began");
                    continue;
                }
                Err(error) => {
                    warn!(%error, "a connection could not be accepted");
                    ports.clock.sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let Some(present) = protocol.admission.connections.enter() else {
                continue;
            };
            let is_proxy = accepted.is_of_proxy(&protocol);
            let (server, is_refused, held) = match accepted.admit(&protocol, only_proxies, most) {
                Ok(of_holder) => (Arc::clone(&server), false, HeldPermits::Served(permit, of_holder)),
                Err(error) => {
                    let Ok(refusal) = Arc::clone(&refusals).try_acquire_owned() else {
                        continue;
                    };
                    let refusing = Arc::new(Server::Refusal(Arc::clone(&protocol), error));
                    (refusing, true, HeldPermits::Refusal(refusal))
                }
            };
            let connection = ServedConnection {
                server,
                is_refused,
                state: Arc::new(Connection::new(accepted.peer(&protocol), is_proxy.then_some(most))),
                knows_senders: protocol.admission.access.knows_senders(),
                ports: ports.clone(),
                watcher: graceful.watcher(),
            };
            let (tls, shutdown) = (self.tls().cloned(), protocol.shutdown.clone());
            ports.spawner.spawn(Box::pin(async move {
                accepted.serve(connection, tls, shutdown).await;
                drop((held, present));
            }));
        }
        drop(self);
        protocol.drain();
        let finished = graceful.shutdown();
        tokio::pin!(finished);
        if ports.within(CALL_TIMEOUT, &mut finished).await.is_some() {
            return;
        }
        protocol.close();
        if ports.within(DRAIN_TIMEOUT, finished).await.is_none() {
            warn!("some connections did not finish in time");
        }
    }
}

impl AcceptedConnection {
    fn is_of_proxy(&self, protocol: &ProtocolServer) -> bool {
        matches!(self, Self::Tcp(_, from) if protocol.http.trusted_proxies.include(from.ip()))
    }

    /// Whether it is served: with its permit, which a trusted proxy does not need.
    fn admit(
        &self,
        protocol: &ProtocolServer,
        only_proxies: bool,
        most: usize,
    ) -> Result<Option<ConnectionPermit>, RpcError> {
        if self.is_of_proxy(protocol) {
            return Ok(None);
        }
        let source = match self {
            Self::Tcp(_, from) if only_proxies && !is_loopback(from.ip()) => {
                return Err(RpcError::invalid_request(ONLY_PROXIES).with_status(403));
            }
            Self::Tcp(_, from) => Source::Address(from.ip()),
            Self::Unix(_, user) => Source::User(*user),
        };
        let permit = protocol.admission.meter.connection(source, most);
        permit.map(Some).map_err(RpcError::from)
    }

    /// Serves it to its end.
    async fn serve(self, connection: ServedConnection, tls: Option<Tls>, shutdown: Shutdown) {
        match (self, tls) {
            (Self::Tcp(stream, _), None) => {
                let guarded = StallGuard::new(stream, Arc::clone(&connection.ports.clock));
                connection.serve(guarded).await;
            }
            (Self::Unix(stream, _), _) => {
                let guarded = StallGuard::new(stream, Arc::clone(&connection.ports.clock));
                connection.serve(guarded).await;
            }
            (Self::Tcp(stream, _), Some(tls)) => {
                let accepted = tokio::select! {
                    accepted = tls.accept(stream, &connection.ports) => accepted,
                    () = shutdown.drained() => None,
                };
                match accepted {
                    Some(stream) if speaks_http2(&stream) => connection.serve_http2(stream).await,
                    Some(stream) => connection.serve(stream).await,
                    None => {}
                }
            }
        }
    }

    /// What is known of it.
    fn peer(&self, protocol: &ProtocolServer) -> Peer {
        let (stream, remote) = match self {
            Self::Tcp(stream, from) => (stream, *from),
            Self::Unix(_, uid) => return Peer::Unix { uid: *uid },
        };
        // Otherwise the connection is over.
        let Ok(local) = stream.local_addr() else {
            return Peer::Unknown;
        };
        // Whoever runs a proxy, its requests are those of others.
        if protocol.admission.access.knows_senders() && !self.is_of_proxy(protocol) {
            return protocol.admission.access.peer(stream, (local, remote));
        }
        Peer::Tcp {
            local,
            remote,
            user: PeerUser::Unknown,
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
enum HeldPermits {
    /// A trusted proxy's has no permit of its own.
    Served(Option<OwnedSemaphorePermit>, Option<ConnectionPermit>),
    Refusal(OwnedSemaphorePermit),
}
