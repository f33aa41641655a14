//! Where operators connect.

use axum::{extract::connect_info::Connected, serve::IncomingStream};
use longhaul_auth::same_user::SameUser;
use longhaul_core::Clock;
use longhaul_server::{
    auth::{Peer, PeerUser},
    http::is_loopback,
};
use std::{
    fs::{self, Permissions},
    io,
    net::SocketAddr,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

/// After an error that concerns no single connection, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A TCP listener on loopback. Keys would cross a network in the clear, so it listens nowhere else: put a proxy with TLS in front of it.
pub struct AdminListener {
    tcp: TcpListener,
    same_user: Option<SameUser>,
    clock: Arc<dyn Clock>,
}

impl AdminListener {
    /// Binds an address of this machine. With `same_user` each connection is asked whose it is.
    ///
    /// # Errors
    /// The system's; [`io::ErrorKind::AddrNotAvailable`] for an address that other machines can reach.
    pub async fn bind(address: SocketAddr, same_user: Option<SameUser>, clock: &Arc<dyn Clock>) -> io::Result<Self> {
        if !is_loopback(address.ip()) {
            return Err(io::Error::new(
                io::ErrorKind::AddrNotAvailable,
                "the admin address must be on loopback; put a proxy with TLS in front of it",
            ));
        }
        Ok(Self {
            tcp: TcpListener::bind(address).await?,
            same_user,
            clock: Arc::clone(clock),
        })
    }

    /// The address, with the port that the system has chosen if it was 0.
    ///
    /// # Errors
    /// The system's.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.tcp.local_addr()
    }

    fn peer(&self, stream: &TcpStream, remote: SocketAddr) -> io::Result<Peer> {
        let user = self
            .same_user
            .as_ref()
            .map_or(PeerUser::Unknown, |same| same.check(stream));
        Ok(Peer::Tcp {
            local: stream.local_addr()?,
            remote,
            user,
        })
    }
}

/// A Unix socket in the data directory, for `longhaul admin`. Its file is removed when this is dropped.
pub struct AdminSocket {
    unix: UnixListener,
    path: PathBuf,
    clock: Arc<dyn Clock>,
}

impl AdminSocket {
    /// Its name in a data directory.
    pub const NAME: &str = "admin.sock";

    /// Binds it in a data directory of which this process is the owner, so a socket that is there belongs to nobody.
    ///
    /// # Errors
    /// The system's.
    pub fn bind(data_dir: &Path, clock: &Arc<dyn Clock>) -> io::Result<Self> {
        let path = data_dir.join(Self::NAME);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let unix = UnixListener::bind(&path)?;
        fs::set_permissions(&path, Permissions::from_mode(0o600))?;
        Ok(Self {
            unix,
            path,
            clock: Arc::clone(clock),
        })
    }
}

impl Drop for AdminSocket {
    fn drop(&mut self) {
        // A file that stays is replaced by the next owner.
        let _ = fs::remove_file(&self.path);
    }
}

/// Who a connection is from.
#[derive(Clone, Debug)]
pub struct ConnectedPeer(pub(crate) Peer);

impl axum::serve::Listener for AdminListener {
    type Io = TcpStream;
    type Addr = ConnectedPeer;

    async fn accept(&mut self) -> (TcpStream, ConnectedPeer) {
        loop {
            let accepted = self.tcp.accept().await;
            let known = accepted.and_then(|(stream, remote)| Ok((self.peer(&stream, remote)?, stream)));
            match known {
                Ok((peer, stream)) => {
                    let _ = stream.set_nodelay(true);
                    return (stream, ConnectedPeer(peer));
                }
                Err(error) => pause(&*self.clock, error).await,
            }
        }
    }

    fn local_addr(&self) -> io::Result<ConnectedPeer> {
        Ok(ConnectedPeer(Peer::default()))
    }
}

impl axum::serve::Listener for AdminSocket {
    type Io = UnixStream;
    type Addr = ConnectedPeer;

    async fn accept(&mut self) -> (UnixStream, ConnectedPeer) {
        loop {
            let accepted = self.unix.accept().await;
            match accepted.and_then(|(stream, _)| Ok((stream.peer_cred()?.uid(), stream))) {
                Ok((uid, stream)) => return (stream, ConnectedPeer(Peer::Unix { uid })),
                Err(error) => pause(&*self.clock, error).await,
            }
        }
    }

    fn local_addr(&self) -> io::Result<ConnectedPeer> {
        Ok(ConnectedPeer(Peer::default()))
    }
}

async fn pause(clock: &dyn Clock, error: io::Error) {
    tracing::warn!(%error, "a connection to the admin address could not be accepted");
    clock.sleep(ACCEPT_PAUSE).await;
}

impl Connected<IncomingStream<'_, AdminListener>> for ConnectedPeer {
    fn connect_info(stream: IncomingStream<'_, AdminListener>) -> Self {
        stream.remote_addr().clone()
    }
}

impl Connected<IncomingStream<'_, AdminSocket>> for ConnectedPeer {
    fn connect_info(stream: IncomingStream<'_, AdminSocket>) -> Self {
        stream.remote_addr().clone()
    }
}
