//! Network namespaces of Linux: processes that are started in one, and sockets that are opened in one, have a network of their own.
//!
//! These have no names. So the kernel removes one, however this program ends, once its processes have ended and nobody has it open.

use std::{
    fs::File,
    io,
    net::Ipv4Addr,
    path::PathBuf,
    process::{Command, Stdio},
    sync::Arc,
    thread,
};

/// Why a network could not be made, or changed.
#[derive(Debug, thiserror::Error)]
pub enum NamespaceError {
    #[error("a network namespace cannot be made or entered: {0}")]
    Io(#[from] io::Error),
    #[error("`{line}` cannot be started: {source}")]
    Start { line: String, source: io::Error },
    #[error("`{line}` failed: {said}")]
    Failed { line: String, said: String },
}

/// A network namespace, which is closed with the last copy of this.
#[derive(Debug, Clone)]
pub struct Namespace(Arc<File>);

/// What has a network of its own: its namespace, and its address there.
#[derive(Debug, Clone)]
pub struct NetworkHost {
    pub namespace: Namespace,
    pub address: Ipv4Addr,
}

impl Namespace {
    pub fn create() -> io::Result<Self> {
        let made = on_a_thread(|| {
            unshare()?;
            File::open("/proc/thread-self/ns/net")
        });
        Ok(Self(Arc::new(made??)))
    }

    /// Does something on a thread in this namespace. What it starts and opens there stays there.
    pub fn within<T: Send>(&self, action: impl FnOnce() -> T + Send) -> io::Result<T> {
        on_a_thread(|| {
            enter(&self.0)?;
            Ok(action())
        })?
    }

    /// Where other programs find it.
    pub fn path(&self) -> PathBuf {
        use std::os::fd::AsRawFd;
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd()).into()
    }

    /// Runs a program in this namespace. The words are those of its command line.
    pub fn run(&self, line: &str) -> Result<(), NamespaceError> {
        let mut words = line.split(' ');
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words).stdin(Stdio::null());
        let output = self
            .within(|| command.output())?
            .map_err(|source| NamespaceError::Start {
                line: line.to_owned(),
                source,
            })?;
        match output.status.success() {
            true => Ok(()),
            false => Err(NamespaceError::Failed {
                line: line.to_owned(),
                said: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            }),
        }
    }
}

/// As [`Namespace::within`]; without a namespace on this thread.
pub fn within<T: Send>(namespace: Option<&Namespace>, action: impl FnOnce() -> T + Send) -> io::Result<T> {
    match namespace {
        Some(namespace) => namespace.within(action),
        None => Ok(action()),
    }
}

/// A namespace belongs to a thread, so threads that are already there keep theirs.
fn on_a_thread<T: Send>(action: impl FnOnce() -> T + Send) -> io::Result<T> {
    thread::scope(|scope| {
        let thread = thread::Builder::new()
            .name("namespace".to_owned())
            .spawn_scoped(scope, action)?;
        Ok(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

#[cfg(target_os = "linux")]
#[expect(
    deprecated,
    reason = "it is deprecated for what it does to files of threads, and a network is not among them"
)]
fn unshare() -> io::Result<()> {
    Ok(rustix::thread::unshare(rustix::thread::UnshareFlags::NEWNET)?)
}

#[cfg(target_os = "linux")]
fn enter(namespace: &File) -> io::Result<()> {
    use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
    use std::os::fd::AsFd;
    Ok(move_into_link_name_space(
        namespace.as_fd(),
        Some(LinkNameSpaceType::Network),
    )?)
}

#[cfg(not(target_os = "linux"))]
fn unshare() -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(not(target_os = "linux"))]
fn enter(_: &File) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
