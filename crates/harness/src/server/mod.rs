//! A server as a child process.

pub mod supervisors;

use crate::clock;
use rustix::process::{Pid, Signal, kill_process};
use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Seek, SeekFrom},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};

/// How long a start may take. Opening a store waits up to two seconds for an earlier owner.
const START: Duration = Duration::from_secs(20);

/// The unit of times in `/proc`: Linux shows all programs 100 ticks per second.
const TICK: Duration = Duration::from_millis(10);

/// How many lines of a log are shown.
const LAST_LINES: usize = 5;

/// Why a server process failed.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    #[error("the server cannot be started or its log cannot be read: {0}")]
    Io(#[from] io::Error),
    #[error("the server ended by itself ({status}); see {log}")]
    Ended { status: ExitStatus, log: PathBuf },
    #[error("the server did not print its address within {} s; see {log}", limit.as_secs())]
    Silent { limit: Duration, log: PathBuf },
    #[error("the server did not stop within {} s of SIGTERM", .0.as_secs())]
    DoesNotStop(Duration),
}

/// `longhaul serve` with this configuration. No fault is planted, whatever the environment says.
pub fn serve(program: &Path, configuration: &Path) -> Command {
    let mut command = Command::new(program);
    command.arg("serve").arg(configuration);
    command.env_remove("LONGHAUL_PLANT").env_remove("LONGHAUL_LOG");
    command
}

/// The processor time of a process, and with `children` also that of those that have ended.
pub fn cpu(pid: u32, children: bool) -> io::Result<Duration> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name in parentheses may contain spaces; `utime` and `stime` are fields 14 and 15, and then come those of children.
    let fields = text.rsplit(')').next().unwrap_or_default().split_ascii_whitespace();
    let times = fields.skip(11).take(if children { 4 } else { 2 });
    Ok(TICK * times.filter_map(|field| field.parse::<u32>().ok()).sum::<u32>())
}

/// A running server. Dropping it kills it.
pub struct Server {
    child: Child,
    log: PathBuf,
    /// The length of the log before this run.
    begin: u64,
}

impl Server {
    /// Starts a server; its output is appended to the log.
    pub fn start(command: &mut Command, log: &Path) -> Result<Self, ServerError> {
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
    pub fn ready(&mut self) -> Result<SocketAddr, ServerError> {
        self.ready_within(START)
    }

    /// As [`ready`](Self::ready), with another limit.
    pub fn ready_within(&mut self, limit: Duration) -> Result<SocketAddr, ServerError> {
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
    pub fn output(&self) -> io::Result<String> {
        let mut file = File::open(&self.log)?;
        file.seek(SeekFrom::Start(self.begin))?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        Ok(text)
    }

    /// The last lines that it has written.
    pub fn last_words(&self) -> io::Result<String> {
        let said = self.output()?;
        let lines: Vec<&str> = said.lines().collect();
        Ok(lines[lines.len().saturating_sub(LAST_LINES)..].join("\n"))
    }

    fn address(&self) -> Result<Option<SocketAddr>, ServerError> {
        let text = self.output()?;
        let address = text.split_once("http://").and_then(|(_, rest)| rest.split_once('/'));
        Ok(address.and_then(|(address, _)| address.parse().ok()))
    }

    /// Kills the server with SIGKILL and waits until it has ended.
    pub fn kill(&mut self) -> Result<(), ServerError> {
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
    pub fn stop(&mut self, timeout: Duration) -> Result<ExitStatus, ServerError> {
        self.stop_process(self.pid(), timeout)
    }

    /// As [`stop`](Self::stop), for a server that is a child of the process that was started.
    pub fn stop_process(&mut self, pid: Pid, timeout: Duration) -> Result<ExitStatus, ServerError> {
        kill_process(pid, Signal::TERM).map_err(io::Error::from)?;
        let ended = clock::wait_for(timeout, || self.child.try_wait().transpose());
        Ok(ended.ok_or(ServerError::DoesNotStop(timeout))??)
    }

    /// Waits until the server has ended by itself.
    pub fn wait(&mut self, timeout: Duration) -> Result<ExitStatus, ServerError> {
        let ended = clock::wait_for(timeout, || self.child.try_wait().transpose());
        Ok(ended.ok_or(ServerError::Silent {
            limit: timeout,
            log: self.log.clone(),
        })??)
    }

    /// Whether the process is running.
    pub fn lives(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// The id of the process, as text has it.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// A number of kibibytes in the status of the process, in bytes: `VmRSS` or `RssAnon`.
    pub fn memory(&self, field: &str) -> io::Result<u64> {
        let text = fs::read_to_string(format!("/proc/{}/status", self.id()))?;
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        let kibibytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
        Ok(kibibytes.unwrap_or_default() * 1024)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
