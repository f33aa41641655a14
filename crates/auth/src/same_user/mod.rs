//! Callers that are processes of the user who runs the server.
//!
//! On loopback any user of the machine can connect. The system can tell which user the other end of a connection belongs to, so that only processes of the
//! server's own user are served without a key. It is asked once for each connection, when it is accepted.
//!
//! A proxy or tunnel that runs as this user has connections that are this user's. What it forwards is recognised by its headers: those that proxies
//! add ([`is_forwarded`]), the public name of the server or another port as `Host`, the `Origin` of a web page elsewhere. One that changes the host, or has
//! the port of the server on another machine, and adds nothing cannot be told from this user's programs.
//!
//! Only Linux is asked so far, through `sock_diag`. Elsewhere [`SameUser::new`] says that it is unavailable.

mod forwarded;
#[cfg(target_os = "linux")]
mod sock_diag;

pub use forwarded::is_forwarded;

use http::header::AUTHORIZATION;
use longhaul_server::{
    auth::{AuthDecision, Authenticator, Denied, Identity, Peer, PeerUser, RequestHead},
    http::is_local_request,
};
use rustix::io::Errno;
use std::{
    net::SocketAddr,
    os::fd::{AsFd, BorrowedFd},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::net::TcpStream;

/// The kernel could not be asked whose the connection is.
const UNAVAILABLE: Denied = Denied::PeerUnavailable {
    retry_after: Duration::from_secs(1),
};

/// Why users cannot be told apart here.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SameUserUnavailable {
    /// The operating system is not supported.
    #[error("this system is not asked whose a connection is; only Linux is")]
    System,
    /// The kernel does not answer: `sock_diag` is not in it, or a sandbox forbids it.
    #[error("the kernel does not say whose a connection is: {0}")]
    Kernel(std::io::Error),
    /// The kernel's answer about a connection of this process was wrong.
    #[error("the kernel does not know a connection of this process; is `tcp_diag` loaded?")]
    Unanswered,
    /// Users that are not mapped in this user namespace all look like this one.
    #[error("this process runs as user {0} (nobody), as which other users may appear; run it as a user of its own")]
    Nobody(u32),
}

/// Asks the system whose connections are. A value of this type was tried out: the system answers.
///
/// ```
/// use longhaul_auth::same_user::SameUser;
/// use longhaul_server::auth::PeerUser;
/// use std::net::{TcpListener, TcpStream};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let Ok(same_user) = SameUser::new() else { return Ok(()) };
/// let listener = TcpListener::bind("127.0.0.1:0")?;
/// let client = TcpStream::connect(listener.local_addr()?)?;
/// let (server, _) = listener.accept()?;
/// assert_eq!(same_user.check(&server), PeerUser::Same);
/// drop(client);
/// assert_eq!(same_user.check(&server), PeerUser::Unknown);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct SameUser {
    user: u32,
    identity: Arc<Identity>,
    /// Whether it was said why what a proxy forwards is not served.
    said: Arc<AtomicBool>,
}

impl SameUser {
    /// Tries the system with a connection of this process to itself.
    ///
    /// # Errors
    /// [`SameUserUnavailable`].
    pub fn new() -> Result<Self, SameUserUnavailable> {
        let this = Self {
            user: rustix::process::geteuid().as_raw(),
            identity: Arc::new(Identity::same_user()),
            said: Arc::default(),
        };
        this.try_out()?;
        Ok(this)
    }

    /// For a server that listens on a Unix socket, where every system tells the user at the other end. It takes no TCP connection for the same user's.
    pub fn of_unix_sockets() -> OwnUnixSockets {
        OwnUnixSockets(Self {
            user: rustix::process::geteuid().as_raw(),
            identity: Arc::new(Identity::same_user()),
            said: Arc::default(),
        })
    }

    /// Whose the other end of a TCP connection is.
    ///
    /// It is unknown if either end is closed or was reset, or if the other end is on another machine or in another network namespace. Then it is
    /// not the same user's. It is [unavailable](PeerUser::Unavailable) if the kernel could not be asked.
    pub fn check(&self, connection: impl AsFd) -> PeerUser {
        match self.ask(connection.as_fd()) {
            Ok(user) => user,
            Err(error) => {
                tracing::warn!(%error, "the kernel does not say whose a connection is; its requests without credentials are answered with 503");
                PeerUser::Unavailable
            }
        }
    }
}

/// A request without credentials, that nobody has forwarded, on a connection of the same user or on a Unix socket. On TCP it names the server as
/// this machine and its listener's port, and no web page of elsewhere has sent it ([`is_local_request`]).
impl Authenticator for SameUser {
    fn authenticate<'a>(&'a self, head: &'a RequestHead<'a>) -> AuthDecision<'a> {
        let asks_here = |local: &SocketAddr| is_local_request(head.headers, head.uri, local.port());
        let is_same = match head.peer {
            Peer::Tcp { user, local, .. } => *user == PeerUser::Same && asks_here(local),
            Peer::Unix { uid } => *uid == self.user,
            _ => false,
        };
        // Credentials are never ignored: whoever sends them wants to be known by them.
        if head.headers.contains_key(AUTHORIZATION) {
            return AuthDecision::NotMine;
        }
        let is_forwarded = is_forwarded(head.headers);
        if is_same && !is_forwarded {
            return AuthDecision::Known(Ok(Arc::clone(&self.identity)));
        }
        if let Peer::Tcp {
            user: PeerUser::Unavailable,
            local,
            ..
        } = head.peer
            && !is_forwarded
            && asks_here(local)
        {
            return AuthDecision::Known(Err(UNAVAILABLE));
        }
        if is_forwarded || is_of_this_user(head) {
            self.explain_proxy();
        }
        AuthDecision::NotMine
    }

    fn peer_user(&self, connection: &TcpStream) -> PeerUser {
        self.check(connection)
    }
}

/// Whether a program of the server's own user has opened the connection.
fn is_of_this_user(head: &RequestHead<'_>) -> bool {
    matches!(
        head.peer,
        Peer::Tcp {
            user: PeerUser::Same,
            ..
        }
    )
}

impl SameUser {
    /// Says once why a request without credentials is not served that a proxy of this machine seems to have passed on: its client only sees 401.
    fn explain_proxy(&self) {
        if !self.said.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "a request without credentials was not served (401): a proxy has forwarded it, by its headers or its `Host`, and so it is not taken for one of this user. \
                 Give clients keys (`api_keys = true` in `[server.auth]`, then `longhaul keys add`) or an `[[server.auth.issuer]]`, and set `public_url` to the address of the \
                 proxy. This is said once"
            );
        }
    }
}

/// As [`SameUser`], for Unix sockets only.
#[derive(Debug, Clone)]
pub struct OwnUnixSockets(SameUser);

impl Authenticator for OwnUnixSockets {
    fn authenticate<'a>(&'a self, head: &'a RequestHead<'a>) -> AuthDecision<'a> {
        self.0.authenticate(head)
    }
}

/// An IPv4 address that a socket for both families shows as IPv6 becomes IPv4 again.
#[cfg(target_os = "linux")]
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[cfg(target_os = "linux")]
impl SameUser {
    fn try_out(&self) -> Result<(), SameUserUnavailable> {
        use std::net::{Ipv4Addr, TcpListener, TcpStream};
        /// If the system does not tell.
        const NOBODY: u32 = 65534;
        let nobody = std::fs::read_to_string("/proc/sys/kernel/overflowuid")
            .ok()
            .and_then(|text| text.trim().parse().ok());
        if self.user == nobody.unwrap_or(NOBODY) {
            return Err(SameUserUnavailable::Nobody(self.user));
        }
        let answer = || {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            let local = listener.local_addr()?;
            let _client = TcpStream::connect(local)?;
            let (accepted, _) = listener.accept()?;
            self.ask(accepted.as_fd())
        };
        match answer() {
            Ok(PeerUser::Same) => Ok(()),
            Ok(_) => Err(SameUserUnavailable::Unanswered),
            Err(error) => Err(SameUserUnavailable::Kernel(error)),
        }
    }

    fn ask(&self, connection: BorrowedFd<'_>) -> std::io::Result<PeerUser> {
        let address = |address: rustix::net::SocketAddrAny| SocketAddr::try_from(address).map(canonical);
        let local = rustix::net::getsockname(connection)?;
        let peer = match rustix::net::getpeername(connection) {
            Ok(Some(peer)) => peer,
            // It was reset.
            Ok(None) | Err(Errno::NOTCONN | Errno::INVAL) => return Ok(PeerUser::Unknown),
            Err(error) => return Err(error.into()),
        };
        let (Ok(local), Ok(peer)) = (address(local), address(peer)) else {
            return Ok(PeerUser::Unknown);
        };
        if !(local.ip().is_loopback() && peer.ip().is_loopback()) || local.is_ipv4() != peer.is_ipv4() {
            return Ok(PeerUser::Unknown);
        }
        self.ask_about(connection, local, peer)
    }

    /// Whose the other end of a connection is that had these addresses just now.
    fn ask_about(&self, connection: BorrowedFd<'_>, local: SocketAddr, peer: SocketAddr) -> std::io::Result<PeerUser> {
        let Some(other) = sock_diag::established(peer, local)? else {
            return Ok(PeerUser::Unknown);
        };
        // Asked after the other end: who has sent a request, reset the connection and left its port to another process is not that process. As long
        // as this end is established, the socket found above is its other end.
        let inode = rustix::fs::fstat(connection)?.st_ino;
        let is_established = sock_diag::established(local, peer)?.is_some_and(|own| u64::from(own.inode) == inode);
        Ok(match other.uid == self.user {
            _ if !is_established => PeerUser::Unknown,
            true => PeerUser::Same,
            false => PeerUser::Other,
        })
    }
}

#[cfg(not(target_os = "linux"))]
impl SameUser {
    fn try_out(&self) -> Result<(), SameUserUnavailable> {
        Err(SameUserUnavailable::System)
    }

    fn ask(&self, _connection: BorrowedFd<'_>) -> std::io::Result<PeerUser> {
        Ok(PeerUser::Unknown)
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketType, sockopt::set_socket_linger};
    use std::net::{Ipv4Addr, TcpListener, TcpStream};

    /// An address of this machine on which no other process takes a port that becomes free.
    const OWN_ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 0, 113, 8);

    fn connect_from(port: u16, to: SocketAddr) -> TcpStream {
        let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
        rustix::net::bind(&socket, &SocketAddr::from((OWN_ADDRESS, port))).expect("the port is free");
        rustix::net::connect(&socket, &to).expect("connected");
        socket.into()
    }

    /// A connection that is reset after its addresses were read: another process may have the port of its other end then.
    #[test]
    fn who_takes_the_port_while_it_is_asked_is_not_the_peer() {
        let same_user = SameUser::new().expect("the kernel answers");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a listener");
        let local = listener.local_addr().expect("an address");
        let gone = connect_from(0, local);
        let peer = gone.local_addr().expect("an address");
        let (first, _) = listener.accept().expect("the first connection");
        let ask = |connection: &TcpStream| same_user.ask_about(connection.as_fd(), local, peer).expect("an answer");
        assert_eq!(ask(&first), PeerUser::Same);
        // Closing then resets the connection, and its port is free at once.
        set_socket_linger(&gone, Some(Duration::ZERO)).expect("set");
        drop(gone);
        let _later = connect_from(peer.port(), local);
        let (second, _) = listener.accept().expect("the later connection");
        assert_eq!(ask(&second), PeerUser::Same);
        assert_eq!(ask(&first), PeerUser::Unknown);
    }
}
