//! Finding or starting the process that owns a data directory.

use crate::serve::log::owner_log;
use longhaul_core::Millis;
use longhaul_private_dir::{PrivateDir, open_file};
use longhaul_runtime::Ports;
use longhaul_server::stdio;
use rustix::process::Signal;
use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Seek, SeekFrom},
    os::unix::{fs::OpenOptionsExt, process::ExitStatusExt as _},
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};
use tokio::net::UnixStream;

/// How long an owner may take to start: to wait for another one that exits, to recover, to listen.
pub(super) const START_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a service manager may take to start an owner again.
const SERVICE_MANAGER: Duration = Duration::from_secs(3);
const RETRY_INTERVAL: Duration = Duration::from_millis(20);
/// How long the next one waits at most, after several were killed while they started.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// How long an owner may take to send its greeting.
const GREETING_TIMEOUT: Duration = Duration::from_secs(10);
/// How much of its log is shown when an owner cannot start.
const SHOWN_LOG: u64 = 4096;

/// The owner to find or start.
pub(super) struct Target {
    /// Its configuration file.
    pub(super) file: PathBuf,
    /// The data directory.
    pub(super) data_dir: PathBuf,
    /// The digest of the settings in the file.
    pub(super) settings: String,
    /// After how long it exits when idle.
    pub(super) idle_exit: Millis,
    /// A locked file by which `longhaul wrap` claims the data directory. Each owner keeps it open as well, and the lock with it; so another one may be started
    /// when it has exited.
    pub(super) claim: Option<File>,
}

/// No owner could be connected to.
#[derive(Debug, thiserror::Error)]
pub(super) enum OwnerError {
    #[error("cannot use {path}: {source}")]
    DataDir { path: String, source: io::Error },
    #[error("cannot start the server: {0}")]
    Spawn(io::Error),
    #[error("the server could not start ({status}); the end of its log:\n{log}")]
    Failed { status: ExitStatus, log: String },
    #[error("the server did not answer within {} s; the end of its log:\n{log}", START_TIMEOUT.as_secs())]
    Late { log: String },
    #[error(
        "the data directory {path} is in use by a process that accepts no connections; its file `lock` names the process"
    )]
    InUse { path: String },
    #[error("cannot connect to the server that owns {path}: {source}")]
    Connect { path: String, source: io::Error },
}

/// Connects to the owner, and starts one if there is none. If two processes start one at the same time, the lock of the directory
/// decides which of them stays. If one `has_exited`, a service manager may start the next one, which would find its directory in use.
pub(super) async fn find_or_start(target: &Target, has_exited: bool) -> Result<UnixStream, OwnerError> {
    let ports = Ports::system();
    if has_exited && target.claim.is_none() {
        let restarted = async {
            loop {
                if let Ok(stream) = stdio::connect(&target.data_dir).await {
                    return stream;
                }
                ports.clock.sleep(RETRY_INTERVAL).await;
            }
        };
        if let Some(stream) = ports.within(SERVICE_MANAGER, restarted).await {
            return Ok(stream);
        }
    }
    let mut search = Search {
        target,
        started: None,
        log_from: u64::MAX,
        is_in_use: false,
        killed: None,
        pause: RETRY_INTERVAL,
    };
    let found = ports.within(START_TIMEOUT, search.run(&ports)).await;
    found.unwrap_or_else(|| Err(search.late()))
}

struct Search<'a> {
    target: &'a Target,
    /// An owner that this process has started.
    started: Option<Child>,
    /// The length of the log before that start.
    log_from: u64,
    /// Whether the one that was started last found the directory in use.
    is_in_use: bool,
    /// How the one that was started last ended, if somebody has killed it.
    killed: Option<ExitStatus>,
    /// Before the next look.
    pause: Duration,
}

impl Target {
    /// The log file of an owner started by `longhaul stdio`.
    pub(super) fn log(&self) -> PathBuf {
        owner_log::path(&self.data_dir)
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
        let unusable = self.target.unusable();
        PrivateDir::create_data(&self.target.data_dir).map_err(&unusable)?;
        loop {
            let greeted = ports
                .within(GREETING_TIMEOUT, stdio::connect(&self.target.data_dir))
                .await;
            match greeted.unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into())) {
                Ok(stream) => return Ok(stream),
                Err(error) if is_absence(&error) => self.ensure_started()?,
                Err(source) => {
                    return Err(OwnerError::Connect {
                        path: self.target.data_dir.display().to_string(),
                        source,
                    });
                }
            }
            ports.clock.sleep(self.pause).await;
        }
    }

    /// Starts an owner, unless one is already starting.
    fn ensure_started(&mut self) -> Result<(), OwnerError> {
        let Some(child) = &mut self.started else {
            let (child, log_from) = start(self.target)?;
            (self.started, self.log_from) = (Some(child), log_from);
            return Ok(());
        };
        match child.try_wait().map_err(OwnerError::Spawn)? {
            None => Ok(()),
            // Another process owns the directory, and is about to listen or to exit.
            Some(status) if status.code() == Some(crate::serve::IN_USE.into()) || status.success() => {
                self.is_in_use = !status.success();
                (self.started, self.killed) = (None, None);
                Ok(())
            }
            // The next one may start.
            Some(status) if is_kill(status) => {
                (self.started, self.killed) = (None, Some(status));
                self.pause = LONGEST_PAUSE.min(self.pause * 2);
                Ok(())
            }
            Some(status) => Err(OwnerError::Failed {
                status,
                log: self.log(),
            }),
        }
    }

    fn late(&self) -> OwnerError {
        if let Some(status) = self.killed {
            return OwnerError::Failed {
                status,
                log: self.log(),
            };
        }
        match self.is_in_use {
            true => OwnerError::InUse {
                path: self.target.data_dir.display().to_string(),
            },
            false => OwnerError::Late { log: self.log() },
        }
    }

    /// The end of the log that the started owner has written.
    fn log(&self) -> String {
        let from = self.log_from;
        let read = || {
            let mut log = open_file(&self.target.log(), OpenOptions::new().read(true))?;
            let length = log.metadata()?.len();
            log.seek(SeekFrom::Start(from.max(length.saturating_sub(SHOWN_LOG)).min(length)))?;
            let mut bytes = Vec::new();
            log.read_to_end(&mut bytes)?;
            io::Result::Ok(String::from_utf8_lossy(&bytes).trim_end().to_owned())
        };
        read().unwrap_or_default()
    }
}

/// Whether the error means that there is no owner, or one that is about to exit.
fn is_absence(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionRefused, ConnectionReset, NotFound, UnexpectedEof};
    matches!(
        error.kind(),
        NotFound | ConnectionRefused | ConnectionReset | UnexpectedEof | BrokenPipe
    )
}

/// Whether somebody has ended the process: it has not failed by itself.
fn is_kill(status: ExitStatus) -> bool {
    let by_others = [Signal::KILL, Signal::TERM, Signal::INT, Signal::HUP];
    by_others.iter().any(|signal| status.signal() == Some(signal.as_raw()))
}

/// Starts an owner, which outlives this process; beside it the length of the log before.
fn start(target: &Target) -> Result<(Child, u64), OwnerError> {
    let unusable = target.unusable();
    let log = open_log(target).map_err(&unusable)?;
    let log_from = log.metadata().map_err(&unusable)?.len();
    let stdin = match &target.claim {
        Some(claim) => claim.try_clone().map_err(&unusable)?.into(),
        None => Stdio::null(),
    };
    let program = std::env::current_exe().map_err(OwnerError::Spawn)?;
    let child = Command::new(program)
        // A server that is a child of another one is no part of what ends with that.
        .env_remove(longhaul_command::child_supervisor::MARK)
        .arg("serve")
        .arg("--detach")
        .arg("--idle-exit")
        .arg(format!("{}ms", target.idle_exit))
        .arg("--data-dir")
        .arg(&target.data_dir)
        .arg("--")
        .arg(&target.file)
        // A server does not read it.
        .stdin(stdin)
        .stdout(log.try_clone().map_err(&unusable)?)
        .stderr(log)
        .spawn()
        .map_err(OwnerError::Spawn)?;
    Ok((child, log_from))
}

fn open_log(target: &Target) -> io::Result<File> {
    let path = target.log();
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(0o600);
    let log = open_file(&path, &options).map_err(|error| {
        // The server reports errors of the other files itself.
        let text = format!("its file `owner.log`: {error}");
        io::Error::new(error.kind(), text)
    })?;
    owner_log::shorten(&path)?;
    Ok(log)
}
