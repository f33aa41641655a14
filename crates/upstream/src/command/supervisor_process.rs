//! The process at the other end of a connection to a supervisor.

use tokio::net::UnixStream;

/// A handle of a supervisor's process that no later process with the same number can be mistaken for.
pub(super) struct SupervisorProcess {
    id: Option<i32>,
    #[cfg(target_os = "linux")]
    handle: Option<std::os::fd::OwnedFd>,
}

impl SupervisorProcess {
    /// The process that listens at the other end. If the connection can be written to afterwards, that process was alive when it was looked up.
    pub(super) fn behind(stream: &UnixStream) -> Self {
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
    pub(super) fn id(&self) -> Option<i32> {
        self.id
    }

    /// Continues it if it was suspended (SIGSTOP). Without effect on one that runs, and on one in a frozen cgroup.
    pub(super) fn resume(&self) {
        #[cfg(target_os = "linux")]
        if let Some(handle) = &self.handle {
            let _ = rustix::process::pidfd_send_signal(handle, rustix::process::Signal::CONT);
        }
    }
}
