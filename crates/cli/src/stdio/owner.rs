//! The owner of a data directory: found, or started.

use longhaul_core::Millis;
use longhaul_private_dir::{PrivateDir, open_file};
use longhaul_runtime::Ports;
use longhaul_server::stdio;
use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Seek, SeekFrom},
    os::unix::fs::OpenOptionsExt,
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};
use tokio::net::UnixStream;

/// How long an owner may take to come up: to take over from one that leaves, to recover, to listen.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How long an owner may take to greet.
const GREETING_PATIENCE: Duration = Duration::from_secs(10);
/// A log longer than this is put aside when the next owner starts.
const LONGEST_LOG: u64 = 4 << 20;
/// How much of its log is shown when an owner cannot start.
const SHOWN: u64 = 4096;

/// Whom to look for.
pub(super) struct Wanted {
    /// The configuration to start with.
    pub(super) file: PathBuf,
    /// What it owns.
    pub(super) data_dir: PathBuf,
    /// How long it stays with nothing to do.
    pub(super) idle_exit: Millis,
}

/// There is no owner to talk to.
#[derive(Debug, thiserror::Error)]
pub(super) enum OwnerError {
    #[error("cannot use {path}: {source}")]
    DataDir { path: String, source: io::Error },
    #[error("cannot start the server: {0}")]
    Spawn(io::Error),
    #[error("the server could not start ({status}); its log ends:\n{log}")]
    Failed { status: ExitStatus, log: String },
    #[error("the server did not answer within {} s; its log ends:\n{log}", PATIENCE.as_secs())]
    Late { log: String },
    #[error("cannot talk to the server that owns {path}: {source}")]
    Connect { path: String, source: io::Error },
}

/// Connects to the owner, starting one if there is none. Two that start one at once end up with the same: the lock of the directory
/// decides, and the other one's leaves.
pub(super) async fn find_or_start(wanted: &Wanted) -> Result<UnixStream, OwnerError> {
    let ports = Ports::system();
    let mut search = Search { wanted, started: None };
    let found = ports.within(PATIENCE, search.run(&ports)).await;
    found.unwrap_or_else(|| Err(OwnerError::Late { log: search.log() }))
}

struct Search<'a> {
    wanted: &'a Wanted,
    started: Option<Started>,
}

/// An owner that we have started.
struct Started {
    child: Child,
    /// How long the log was before.
    log_from: u64,
}

impl Wanted {
    /// Where an owner that a relay has started writes its log.
    pub(super) fn log(&self) -> PathBuf {
        self.data_dir.join("owner.log")
    }

    fn unusable(&self) -> impl Fn(io::Error) -> OwnerError {
        |source| OwnerError::DataDir {
            path: self.data_dir.display().to_string(),
            source,
        }
    }
}

impl Search<'_> {
    async fn run(&mut self, ports: &Ports) -> Result<UnixStream, OwnerError> {
        let unusable = self.wanted.unusable();
        PrivateDir::create(&self.wanted.data_dir).map_err(&unusable)?;
        loop {
            let greeted = ports
                .within(GREETING_PATIENCE, stdio::connect(&self.wanted.data_dir))
                .await;
            match greeted.unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into())) {
                Ok(stream) => return Ok(stream),
                Err(error) if is_absence(&error) => self.see_to_it()?,
                Err(source) => {
                    return Err(OwnerError::Connect {
                        path: self.wanted.data_dir.display().to_string(),
                        source,
                    });
                }
            }
            ports.clock.sleep(LOOK_EVERY).await;
        }
    }

    /// Starts an owner, unless one is on its way.
    fn see_to_it(&mut self) -> Result<(), OwnerError> {
        let Some(started) = &mut self.started else {
            self.started = Some(start(self.wanted)?);
            return Ok(());
        };
        match started.child.try_wait().map_err(OwnerError::Spawn)? {
            None => Ok(()),
            // Somebody else owns the directory: one that is about to listen, or about to leave.
            Some(status) if status.code() == Some(crate::serve::IN_USE.into()) || status.success() => {
                self.started = None;
                Ok(())
            }
            Some(status) => Err(OwnerError::Failed {
                status,
                log: self.log(),
            }),
        }
    }

    /// The end of what our owner has logged.
    fn log(&self) -> String {
        let from = self.started.as_ref().map_or(u64::MAX, |started| started.log_from);
        let read = || {
            let mut log = open_file(&self.wanted.log(), OpenOptions::new().read(true))?;
            let length = log.metadata()?.len();
            log.seek(SeekFrom::Start(from.max(length.saturating_sub(SHOWN)).min(length)))?;
            let mut bytes = Vec::new();
            log.read_to_end(&mut bytes)?;
            io::Result::Ok(String::from_utf8_lossy(&bytes).trim_end().to_owned())
        };
        read().unwrap_or_default()
    }
}

/// Nobody is there, or somebody who is about to leave.
fn is_absence(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionRefused, ConnectionReset, NotFound, UnexpectedEof};
    matches!(
        error.kind(),
        NotFound | ConnectionRefused | ConnectionReset | UnexpectedEof | BrokenPipe
    )
}

/// Starts an owner that outlives us.
fn start(wanted: &Wanted) -> Result<Started, OwnerError> {
    let unusable = wanted.unusable();
    let log = open_log(wanted).map_err(&unusable)?;
    let log_from = log.metadata().map_err(&unusable)?.len();
    let program = std::env::current_exe().map_err(OwnerError::Spawn)?;
    let child = Command::new(program)
        .arg("serve")
        .arg("--detach")
        .arg("--idle-exit")
        .arg(format!("{}ms", wanted.idle_exit))
        .arg("--data-dir")
        .arg(&wanted.data_dir)
        .arg("--")
        .arg(&wanted.file)
        .stdin(Stdio::null())
        .stdout(log.try_clone().map_err(&unusable)?)
        .stderr(log)
        .spawn()
        .map_err(OwnerError::Spawn)?;
    Ok(Started { child, log_from })
}

fn open_log(wanted: &Wanted) -> io::Result<File> {
    let path = wanted.log();
    let open = || {
        let mut options = OpenOptions::new();
        options.append(true).create(true).mode(0o600);
        open_file(&path, &options).map_err(|error| {
            // Of the other files in the directory, the server says it.
            let text = format!("its file `owner.log`: {error}");
            io::Error::new(error.kind(), text)
        })
    };
    let log = open()?;
    if log.metadata()?.len() <= LONGEST_LOG {
        return Ok(log);
    }
    fs::rename(&path, path.with_extension("log.1"))?;
    open()
}
