//! Paths of Unix sockets, which may be longer than the system takes.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
};

/// The longest path that an address of a Unix socket has room for, with the NUL behind it left out.
const LONGEST: usize = if cfg!(target_os = "linux") { 107 } else { 103 };

/// A path by which a Unix socket can be bound and connected to, however long the path of its folder is. Keep it as long as the path is used.
///
/// ```
/// # fn main() -> std::io::Result<()> {
/// # let folder = std::env::temp_dir();
/// use longhaul_private_dir::SocketPath;
/// let path = SocketPath::of(&folder.join("admin.sock"))?;
/// assert!(path.as_path().ends_with("admin.sock"));
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct SocketPath {
    path: PathBuf,
    /// The folder that `path` leads through.
    _folder: Option<File>,
}

impl SocketPath {
    /// For a socket at `path`. Its folder must exist if the path is too long.
    ///
    /// # Errors
    /// The system's, for the folder of a path that is too long.
    pub fn of(path: &Path) -> io::Result<Self> {
        if path.as_os_str().len() <= LONGEST {
            return Ok(Self {
                path: path.to_owned(),
                _folder: None,
            });
        }
        Self::through_folder(path)
    }

    #[cfg(target_os = "linux")]
    fn through_folder(path: &Path) -> io::Result<Self> {
        use rustix::fs::{Mode, OFlags};
        use std::os::fd::AsRawFd as _;
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = File::from(rustix::fs::open(folder, flags, Mode::empty())?);
        let path = Path::new("/proc/self/fd")
            .join(folder.as_raw_fd().to_string())
            .join(name);
        Ok(Self {
            path,
            _folder: Some(folder),
        })
    }

    #[cfg(not(target_os = "linux"))]
    fn through_folder(path: &Path) -> io::Result<Self> {
        let text = format!(
            "the path {} has {} bytes, and a socket's may have {LONGEST} on this system: choose a shorter one",
            path.display(),
            path.as_os_str().len()
        );
        Err(io::Error::new(io::ErrorKind::InvalidInput, text))
    }

    /// The path to give to the system. It leads nowhere once this is dropped: so it is only borrowed.
    pub fn as_path(&self) -> &Path {
        &self.path
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::os::unix::net::{UnixListener, UnixStream};

    /// Around the limit, and far beyond it, as a whole path and as single folders allow.
    #[test]
    fn sockets_are_bound_and_reached_at_paths_of_any_length() {
        let folder = tempfile::tempdir().unwrap();
        for length in (90..125).chain([300, 2_000]) {
            let mut path = folder.path().to_owned();
            while path.as_os_str().len() + 8 < length {
                let rest = length - path.as_os_str().len() - 8;
                path.push("d".repeat(rest.min(200)));
            }
            std::fs::create_dir_all(&path).unwrap();
            let path = path.join("sock");
            let listener = UnixListener::bind(SocketPath::of(&path).unwrap().as_path()).unwrap();
            UnixStream::connect(SocketPath::of(&path).unwrap().as_path()).unwrap();
            listener.accept().unwrap();
            assert!(path.exists(), "{length}");
            std::fs::remove_file(path).unwrap();
        }
    }
}
