//! The socket of the owner (the process that has a data directory open). Relays connect to it: each copies its standard input and output to
//! and from one connection.
//!
//! The socket is in the data directory, and only the owner's user can open it. The owner first sends a line of greeting: then it has accepted
//! the connection. Everything after that is as in [`serve`](super::serve).

use crate::transport::protocol_server::ProtocolServer;
use longhaul_private_dir::{PrivateDir, SocketPath, is_socket};
use std::{
    fs::{self, Permissions},
    io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{UnixListener, UnixStream},
    sync::Semaphore,
};
use tracing::{debug, warn};

const NAME: &str = "owner.sock";
/// A relay accepts only this exact line. The number rises with every incompatible change.
const GREETING: &[u8] = b"longhaul relay 1\n";
/// How many connections are served at once. Further ones wait, without a greeting, until one closes.
const MAX_CONNECTIONS: usize = 256;
/// How long plain calls may still take when the server stops: a second longer than over HTTP, since answers go through a relay.
const CALL_TIMEOUT: Duration = Duration::from_secs(6);
/// How long connections may take after that to close.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);
/// When the process has no descriptor left for a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A socket in a data directory that this process owns.
pub struct OwnerSocket {
    listener: UnixListener,
    data_dir: DataDir,
}

impl OwnerSocket {
    /// Binds the socket of `data_dir`, in the place of one that an earlier owner has left there: only the owner of the directory
    /// may do so.
    ///
    /// # Errors
    /// The system's; also if the directory, or what stands in the socket's place, cannot be used.
    pub fn bind(data_dir: &Path) -> io::Result<Self> {
        let data_dir = DataDir::open(data_dir)?;
        data_dir.remove_socket()?;
        let listener = UnixListener::bind(data_dir.short_socket_path()?.as_path())?;
        fs::set_permissions(data_dir.socket_path(), Permissions::from_mode(0o600))?;
        Ok(Self { listener, data_dir })
    }

    /// Serves until `stop` completes; then accepts no more connections and ends subscriptions and other streams. Plain calls get a few
    /// seconds to finish.
    pub async fn serve(self, protocol: Arc<ProtocolServer>, stop: impl Future<Output = ()>) {
        let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let ports = protocol.engine.ports().clone();
        tokio::pin!(stop);
        loop {
            let accepted = async {
                // The semaphore is never closed.
                let permit = Arc::clone(&permits).acquire_owned().await.ok();
                (permit, self.listener.accept().await)
            };
            let (permit, accepted) = tokio::select! {
                accepted = accepted => accepted,
                () = &mut stop => break,
                () = protocol.shutdown.closed() => break,
            };
            match accepted {
                Ok((stream, _)) => {
                    let protocol = Arc::clone(&protocol);
                    ports.spawner.spawn(Box::pin(async move {
                        if let Err(error) = relay(protocol, stream).await {
                            debug!(%error, "a relay's connection ended");
                        }
                        drop(permit);
                    }));
                }
                Err(error) => {
                    warn!(%error, "a relay's connection could not be accepted");
                    ports.clock.sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        if let Err(error) = self.data_dir.remove_socket() {
            debug!(%error, "the socket could not be removed");
        }
        drop(self.listener);
        protocol.drain();
        let all_closed = async {
            let _ = permits.acquire_many(MAX_CONNECTIONS as u32).await;
        };
        tokio::pin!(all_closed);
        if ports.within(CALL_TIMEOUT, &mut all_closed).await.is_some() {
            return;
        }
        protocol.close();
        if ports.within(DRAIN_TIMEOUT, all_closed).await.is_none() {
            warn!("some relays did not finish in time");
        }
    }
}

async fn relay(protocol: Arc<ProtocolServer>, mut stream: UnixStream) -> io::Result<()> {
    check_user(&stream)?;
    let Some(_present) = protocol.admission.connections.enter() else {
        return Ok(());
    };
    stream.write_all(GREETING).await?;
    let (reader, writer) = stream.into_split();
    super::serve(protocol, reader, writer).await
}

/// Connects to the owner of `data_dir`, which has accepted the connection when this returns.
///
/// # Errors
/// `NotFound` or `ConnectionRefused` if there is no owner, `UnexpectedEof` or `ConnectionReset` if it is about to exit,
/// `InvalidData` if it is of another version, and other errors of the system.
pub async fn connect(data_dir: &Path) -> io::Result<UnixStream> {
    let data_dir = DataDir::open(data_dir)?;
    is_socket(&data_dir.socket_path())?;
    let mut stream = UnixStream::connect(data_dir.short_socket_path()?.as_path()).await?;
    check_user(&stream)?;
    let mut greeting = [0; GREETING.len()];
    stream.read_exact(&mut greeting).await?;
    if greeting != GREETING {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "the data directory is in use by a server of another version. Stop that server and connect again; a server of this version then starts",
        ));
    }
    Ok(stream)
}

/// An open data directory.
struct DataDir(PrivateDir);

impl DataDir {
    fn open(path: &Path) -> io::Result<Self> {
        PrivateDir::open(path).map(Self)
    }

    fn short_socket_path(&self) -> io::Result<SocketPath> {
        SocketPath::of(&self.socket_path())
    }

    fn socket_path(&self) -> PathBuf {
        self.0.path().join(NAME)
    }

    fn remove_socket(&self) -> io::Result<()> {
        let is_there = is_socket(&self.socket_path()).map_err(|error| {
            let text = format!("its file `{NAME}`: {error}");
            io::Error::new(error.kind(), text)
        })?;
        if !is_there {
            return Ok(());
        }
        match fs::remove_file(self.socket_path()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// The directory's mode keeps other users out; this check also holds where a file system ignores modes.
fn check_user(stream: &UnixStream) -> io::Result<()> {
    if stream.peer_cred()?.uid() != rustix::process::geteuid().as_raw() {
        return Err(io::Error::other("the process on the other side is another user's"));
    }
    Ok(())
}
