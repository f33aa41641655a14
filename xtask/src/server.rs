//! A server as a child process.

use crate::clock;
use rustix::process::{Pid, Signal, kill_process};
use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Seek, SeekFrom},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};

/// How long a start may take. Opening a store waits up to two seconds for an earlier owner.
const START: Duration = Duration::from_secs(20);

/// How many lines of a log are shown.
const LAST_LINES: usize = 5;

/// Why a server process failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServerError {
    #[error("the server cannot be started or its log cannot be read: {0}")]
    Io(#[from] io::Error),
    #[error("the server ended by itself ({status}); see {log}")]
    Ended { status: ExitStatus, log: PathBuf },
    #[error("the server did not print its address within {} s; see {log}", limit.as_secs())]
    Silent { limit: Duration, log: PathBuf },
    #[error("the server did not stop within {} s of SIGTERM", .0.as_secs())]
    DoesNotStop(Duration),
}

/// A running server. Dropping it kills it.
pub(crate) struct Server {
    child: Child,
    log: PathBuf,
    /// The length of the log before this run.
    begin: u64,
}

impl Server {
    /// Starts a server; its output is appended to the log.
    pub(crate) fn start(command: &mut Command, log: &Path) -> Result<Self, ServerError> {
        let file = OpenOptions::new().create(true).append(true).open(log)?;
        let begin = file.metadata()?.len();
        let child = command
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()?;
        Ok(Self {
            child,
            log: log.to_owned(),
            begin,
        })
    }

    /// Waits until the server prints its address, the last step before it serves.
    pub(crate) fn ready(&mut self) -> Result<SocketAddr, ServerError> {
        self.ready_within(START)
    }

    /// As [`ready`](Self::ready), with another limit.
    pub(crate) fn ready_within(&mut self, limit: Duration) -> Result<SocketAddr, ServerError> {
        let address = clock::wait_for(limit, || match self.child.try_wait() {
            Ok(Some(status)) => Some(Err(ServerError::Ended {
                status,
                log: self.log.clone(),
            })),
            Err(error) => Some(Err(error.into())),
            Ok(None) => self.address().transpose(),
        });
        address.unwrap_or_else(|| {
            Err(ServerError::Silent {
                limit,
                log: self.log.clone(),
            })
        })
    }

    /// What it has written.
    fn said(&self) -> io::Result<String> {
        let mut file = File::open(&self.log)?;
        file.seek(SeekFrom::Start(self.begin))?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        Ok(text)
    }

    /// The last lines that it has written.
    pub(crate) fn last_words(&self) -> io::Result<String> {
        let said = self.said()?;
        let lines: Vec<&str> = said.lines().collect();
        Ok(lines[lines.len().saturating_sub(LAST_LINES)..].join("\n"))
    }

    fn address(&self) -> Result<Option<SocketAddr>, ServerError> {
        let text = self.said()?;
        let address = text.split_once("http://").and_then(|(_, rest)| rest.split_once('/'));
        Ok(address.and_then(|(address, _)| address.parse().ok()))
    }

    /// Kills the server with SIGKILL and waits until it has ended.
    pub(crate) fn kill(&mut self) -> Result<(), ServerError> {
        if let Some(status) = self.child.try_wait()? {
            return Err(ServerError::Ended {
                status,
                log: self.log.clone(),
            });
        }
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Sends SIGTERM and waits until the server has ended.
    pub(crate) fn stop(&mut self, pid: Pid, timeout: Duration) -> Result<ExitStatus, ServerError> {
        kill_process(pid, Signal::TERM).map_err(io::Error::from)?;
        let ended = clock::wait_for(timeout, || self.child.try_wait().transpose());
        Ok(ended.ok_or(ServerError::DoesNotStop(timeout))??)
    }

    /// Waits until the server has ended by itself.
    pub(crate) fn wait(&mut self, timeout: Duration) -> Result<ExitStatus, ServerError> {
        let ended = clock::wait_for(timeout, || self.child.try_wait().transpose());
        Ok(ended.ok_or(ServerError::Silent {
            limit: timeout,
            log: self.log.clone(),
        })??)
    }

    /// Whether the process is running.
    pub(crate) fn lives(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
