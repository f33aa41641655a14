//! A Unix socket to listen on: made, replaced and removed as a file.

use longhaul_private_dir::SocketPath;
use std::{
    fs::{self, Permissions},
    io,
    os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
};
use tokio::net::{UnixListener, UnixStream};

/// The server cannot listen on a Unix socket.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UnixSocketError {
    /// Something else than a socket has the path.
    #[error("{path} is not a socket, so it is not replaced: give another path, or remove it")]
    NotASocket {
        /// The path.
        path: PathBuf,
    },
    /// A process answers there.
    #[error("{path} is in use by {by}")]
    InUse {
        /// The path.
        path: PathBuf,
        /// Which process, as far as the system tells.
        by: String,
    },
    /// The system refuses.
    #[error("cannot listen on {path}: {source}")]
    Bind {
        /// The path.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
}

/// A bound socket. Its file is removed when this is dropped, unless another server has replaced it.
#[derive(Debug)]
pub(super) struct UnixSocket {
    pub(super) listener: UnixListener,
    pub(super) path: PathBuf,
    /// The device and the number of its file.
    file: (u64, u64),
}

impl UnixSocket {
    pub(super) async fn bind(path: &Path, mode: u32) -> Result<Self, UnixSocketError> {
        let failed = |source| UnixSocketError::Bind {
            path: path.to_owned(),
            source,
        };
        match fs::symlink_metadata(path) {
            Ok(found) if !found.file_type().is_socket() => {
                return Err(UnixSocketError::NotASocket { path: path.to_owned() });
            }
            Ok(_) => match UnixStream::connect(SocketPath::of(path).map_err(failed)?.as_path()).await {
                Ok(answered) => {
                    return Err(UnixSocketError::InUse {
                        path: path.to_owned(),
                        by: owner(&answered),
                    });
                }
                // Nobody answers: a server was killed there. Or it was removed meanwhile.
                Err(error) if matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound) => {}
                Err(error) => return Err(failed(error)),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
        }
        Self::put(path, mode).map_err(failed)
    }

    /// Makes the socket where only this user can reach it, and moves it when it has its mode: at its path it never has another one.
    fn put(path: &Path, mode: u32) -> io::Result<Self> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let folder = path.with_file_name(format!(".{}.{}", name.to_string_lossy(), std::process::id()));
        // Of an earlier process with this id.
        let _ = fs::remove_dir_all(&folder);
        fs::DirBuilder::new().mode(0o700).create(&folder)?;
        let made = || {
            let private = folder.join("s");
            let listener = UnixListener::bind(SocketPath::of(&private)?.as_path())?;
            fs::set_permissions(&private, Permissions::from_mode(mode))?;
            let file = identity(&private)?;
            fs::rename(&private, path)?;
            Ok(Self {
                listener,
                path: path.to_owned(),
                file,
            })
        };
        let made = made();
        let _ = fs::remove_dir_all(&folder);
        made
    }
}

impl Drop for UnixSocket {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|file| file == self.file)
            && let Err(error) = fs::remove_file(&self.path)
        {
            tracing::debug!(%error, path = %self.path.display(), "the socket could not be removed");
        }
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let found = fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino()))
}

/// Who has the other end.
fn owner(stream: &UnixStream) -> String {
    match stream.peer_cred() {
        Ok(peer) => match peer.pid() {
            Some(pid) => format!("process {pid} of user {}", peer.uid()),
            None => format!("a process of user {}", peer.uid()),
        },
        Err(_) => "another process".to_owned(),
    }
}
