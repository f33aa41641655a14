//! The process at the other end of a connection to a supervisor.

use crate::command::{
    attempt_dir::{AttemptDir, Attempts},
    supervisor::read_stat,
};
use longhaul_core::TaskId;
use std::{fs, io, os::unix::fs::MetadataExt, path::Path};
use tokio::net::UnixStream;

/// A handle of a supervisor's process that no later process with the same number can be mistaken for.
pub(crate) struct SupervisorProcess {
    id: Option<i32>,
    #[cfg(target_os = "linux")]
    handle: Option<std::os::fd::OwnedFd>,
}

impl SupervisorProcess {
    /// The process that listens at the other end. If the connection can be written to afterwards, that process was alive when it was looked up.
    pub(crate) fn behind(stream: &UnixStream) -> Self {
        let id = stream.peer_cred().ok().and_then(|peer| peer.pid());
        Self {
            id,
            #[cfg(target_os = "linux")]
            handle: id
                .and_then(rustix::process::Pid::from_raw)
                .and_then(|pid| rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).ok()),
        }
    }

    /// Its process id, for the log.
    pub(crate) fn id(&self) -> Option<i32> {
        self.id
    }

    /// Continues it if it was suspended (SIGSTOP). Without effect on one that runs, and on one in a frozen cgroup.
    pub(crate) fn resume(&self) {
        #[cfg(target_os = "linux")]
        if let Some(handle) = &self.handle {
            let _ = rustix::process::pidfd_send_signal(handle, rustix::process::Signal::CONT);
        }
    }
}

/// The supervisors of attempts in this folder that are suspended (SIGSTOP), each with its task and its process. Their commands run on until their output is not
/// read any more, and nobody learns of their ends. Nothing is changed. None without a proc file system.
///
/// # Errors
/// When a folder cannot be read.
pub fn suspended_supervisors(attempts: &Path) -> io::Result<Vec<(TaskId, i32)>> {
    let attempts = Attempts::at(attempts);
    let mut suspended = Vec::new();
    for task in attempts.tasks()? {
        for epoch in attempts.epochs(&task)? {
            let process = suspended_supervisor(&attempts.dir(&task, epoch));
            suspended.extend(process.map(|process| (task.clone(), process)));
        }
    }
    Ok(suspended)
}

fn suspended_supervisor(dir: &AttemptDir) -> Option<i32> {
    if dir.has_exit().unwrap_or(true) {
        return None;
    }
    let command = read_stat(i32::try_from(dir.pid()?).ok()?)?;
    let supervisor = read_stat(command.parent)?;
    // Process ids are used again. A supervisor works in the folder of its attempt.
    let place = |path: &Path| fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
    let works_in = place(Path::new(&format!("/proc/{}/cwd", supervisor.pid)))?;
    let is_suspended = supervisor.state.eq_ignore_ascii_case(&b'T');
    (is_suspended && place(dir.path()) == Some(works_in)).then_some(supervisor.pid)
}
