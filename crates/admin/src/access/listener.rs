//! Where operators connect.

use longhaul_auth::same_user::SameUser;
use longhaul_core::Clock;
use longhaul_private_dir::SocketPath;
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
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream, UnixListener, UnixStream},
};

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
        let unix = UnixListener::bind(SocketPath::of(&path)?.as_path())?;
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
pub(crate) struct ConnectedPeer(pub(crate) Peer);

/// Where connections come from.
pub(crate) trait Connections: Send + Sync {
    /// A connection.
    type Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static;

    /// The next one. What concerns no single connection is waited out.
    fn next(&self) -> impl Future<Output = (Self::Stream, Peer)> + Send;
}

impl Connections for AdminListener {
    type Stream = TcpStream;

    async fn next(&self) -> (TcpStream, Peer) {
        loop {
            let accepted = self.tcp.accept().await;
            let known = accepted.and_then(|(stream, remote)| Ok((self.peer(&stream, remote)?, stream)));
            match known {
                Ok((peer, stream)) => {
                    // Without this a small answer would wait for the acknowledgement of the one before.
                    let _ = stream.set_nodelay(true);
                    return (stream, peer);
                }
                Err(error) => pause(&*self.clock, error).await,
            }
        }
    }
}

impl Connections for AdminSocket {
    type Stream = UnixStream;

    async fn next(&self) -> (UnixStream, Peer) {
        loop {
            let accepted = self.unix.accept().await;
            match accepted.and_then(|(stream, _)| Ok((stream.peer_cred()?.uid(), stream))) {
                Ok((uid, stream)) => return (stream, Peer::Unix { uid }),
                Err(error) => pause(&*self.clock, error).await,
            }
        }
    }
}

async fn pause(clock: &dyn Clock, error: io::Error) {
    tracing::warn!(%error, "a connection to the admin address could not be accepted");
    clock.sleep(ACCEPT_PAUSE).await;
}
