//! Finds supervisors in `/proc`: processes whose command line names an attempt's directory.

use rustix::process::{Pid, Signal, kill_process};
use std::{
    collections::HashMap,
    ffi::OsStr,
    fmt, fs,
    ops::RangeInclusive,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// The first argument of every supervisor.
const WORD: &[u8] = b"__longhaul-supervisor";

/// An attempt of a task, as in the name of its directory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommandAttempt {
    pub task: String,
    pub epoch: u32,
}

impl CommandAttempt {
    /// From `…/attempts/<task>/<epoch>`.
    fn of(directory: &Path) -> Option<Self> {
        let task = directory.parent()?.file_name()?.to_str()?;
        Self::named(task, directory.file_name()?.to_str()?)
    }

    /// From the words of a line.
    pub fn named(task: &str, epoch: &str) -> Option<Self> {
        let task = task.to_owned();
        Some(Self {
            task,
            epoch: epoch.parse().ok()?,
        })
    }

    /// The range of all attempts of a task.
    pub fn all_of(task: &str) -> RangeInclusive<Self> {
        let nth = |epoch| Self {
            task: task.to_owned(),
            epoch,
        };
        nth(0)..=nth(u32::MAX)
    }

    /// Its directory below `attempts`.
    pub fn directory(&self, attempts: &Path) -> PathBuf {
        attempts.join(&self.task).join(self.epoch.to_string())
    }
}

impl fmt::Display for CommandAttempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "attempt {} of task {}", self.epoch, self.task)
    }
}

/// A running supervisor.
pub struct RunningSupervisor {
    pid: Pid,
    pub attempt: CommandAttempt,
}

impl RunningSupervisor {
    /// Kills it. Returns whether it was still running.
    pub fn kill(&self) -> bool {
        kill_process(self.pid, Signal::KILL).is_ok()
    }

    /// Suspends it with SIGSTOP.
    pub fn suspend(self) -> Option<SuspendedSupervisor> {
        kill_process(self.pid, Signal::STOP).ok()?;
        Some(SuspendedSupervisor(self))
    }
}

/// A suspended supervisor. Dropping this resumes it.
pub struct SuspendedSupervisor(RunningSupervisor);

impl SuspendedSupervisor {
    pub fn attempt(&self) -> &CommandAttempt {
        &self.0.attempt
    }
}

impl Drop for SuspendedSupervisor {
    fn drop(&mut self) {
        // It can only have ended if it was killed.
        let _ = kill_process(self.0.pid, Signal::CONT);
    }
}

/// All running supervisors of attempts below `attempts`, in the order of the attempts.
pub fn running(attempts: &Path) -> Vec<RunningSupervisor> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let found: HashMap<u32, CommandAttempt> = pids
        .filter_map(|pid| {
            let directory = supervised_by(pid).filter(|directory| directory.starts_with(attempts))?;
            Some((pid, CommandAttempt::of(&directory)?))
        })
        .collect();
    // Between fork and exec a command has the command line of its supervisor.
    let is_command = |pid: u32| parent_of(pid).is_none_or(|parent| found.contains_key(&parent));
    let mut running: Vec<_> = found
        .iter()
        .filter(|(pid, _)| !is_command(**pid))
        .filter_map(|(pid, attempt)| {
            Some(RunningSupervisor {
                pid: Pid::from_raw(pid.cast_signed())?,
                attempt: attempt.clone(),
            })
        })
        .collect();
    running.sort_by(|one, other| one.attempt.cmp(&other.attempt));
    running
}

/// Kills the supervisors of all attempts below a folder.
pub fn kill_all(folder: &Path) {
    for supervisor in running(folder) {
        supervisor.kill();
    }
}

fn parent_of(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status
        .lines()
        .find_map(|line| line.strip_prefix("PPid:")?.trim().parse().ok())
}

/// Whether the command line of any process names `folder`: a server, a supervisor, or a command that outlives its supervisor shortly.
pub fn is_in_use(folder: &Path) -> bool {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut lines = processes.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    lines.any(|line| {
        let mut words = line.split(|byte| *byte == 0);
        words.any(|word| Path::new(OsStr::from_bytes(word)).starts_with(folder))
    })
}

/// The attempt that the process `pid` supervises.
pub fn attempt_of(pid: u32) -> Option<CommandAttempt> {
    CommandAttempt::of(&supervised_by(pid)?)
}

/// The attempt directory in a supervisor's command line. A zombie has no command line.
fn supervised_by(pid: u32) -> Option<PathBuf> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let mut words = line.split(|byte| *byte == 0).skip(1);
    let word = words.next()?;
    let directory = words.next()?;
    (word == WORD).then(|| PathBuf::from(OsStr::from_bytes(directory)))
}
