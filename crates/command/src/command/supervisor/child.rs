//! Starting the command, and being notified of its end.

use super::boot::default_signals;
use crate::command::attempt_dir::record::{CommandEnd, LaunchSpec};
use longhaul_private_dir::open_within;
use rustix::{
    io::Errno,
    process::{Pid, Signal, WaitId, WaitIdOptions, WaitStatus},
};
use std::{
    ffi::OsStr,
    fs::File,
    io,
    os::{
        fd::OwnedFd,
        unix::{ffi::OsStrExt, process::CommandExt},
    },
    process::{Command, Stdio},
    sync::mpsc,
};

/// A running command.
pub(super) struct Child {
    pub(super) pid: Pid,
    pub(super) stdout: OwnedFd,
    pub(super) stderr: OwnedFd,
    pub(super) exits: ExitNotifier,
}

/// Starts the command in a process group of its own.
pub(super) fn start(spec: &LaunchSpec, stdin: Option<File>) -> io::Result<Child> {
    let (program, arguments) = spec.argv.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        .envs(&spec.env)
        .envs(
            spec.env_bytes
                .iter()
                .map(|(name, value)| (name, OsStr::from_bytes(value))),
        )
        .stdin(stdin.map_or_else(Stdio::null, Stdio::from))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    let folder = match &spec.cwd_within {
        Some(within) => Some(open_within(&spec.cwd, within).map_err(|error| not_entered(spec, error))?),
        None => None,
    };
    if folder.is_none() {
        command.current_dir(&spec.cwd);
    }
    let supervisor = rustix::process::getpid();
    let prepare = move || {
        die_with(supervisor)?;
        if let Some(folder) = &folder {
            rustix::process::fchdir(folder)?;
        }
        default_signals();
        Ok(())
    };
    #[expect(
        unsafe_code,
        reason = "between fork and exec: only system calls that are async-signal-safe, no allocation"
    )]
    unsafe {
        command.pre_exec(prepare);
    }
    // Started before the command: if no thread can be created, no command is left running.
    let exits = ExitNotifier::start()?;
    let mut child = command.spawn()?;
    let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
        return Err(io::ErrorKind::BrokenPipe.into());
    };
    let (stdout, stderr) = (OwnedFd::from(stdout), OwnedFd::from(stderr));
    if let Err(error) = prepare_pipe(&stdout).and_then(|()| prepare_pipe(&stderr)) {
        child.kill()?;
        child.wait()?;
        // Without an errno that `is_shortage` knows: the command has run.
        return Err(io::Error::other(error.to_string()));
    }
    exits.rearm();
    // The standard library's handle neither waits nor kills when dropped; from here on the pid is ours to reap.
    Ok(Child {
        pid: Pid::from_child(&child),
        stdout,
        stderr,
        exits,
    })
}

/// Whether a start that failed has failed for want of something that may be there again later: processes, memory, or descriptors.
pub(super) fn is_shortage(error: &io::Error) -> bool {
    let shortages = [Errno::AGAIN, Errno::NOMEM, Errno::MFILE, Errno::NFILE];
    Errno::from_io_error(error).is_some_and(|errno| shortages.contains(&errno))
}

/// Only a shortage is told from other errors by its errno.
fn not_entered(spec: &LaunchSpec, error: io::Error) -> io::Error {
    match is_shortage(&error) {
        true => error,
        false => io::Error::other(format!("its folder {} cannot be entered: {error}", spec.cwd.display())),
    }
}

fn prepare_pipe(pipe: &OwnedFd) -> io::Result<()> {
    // Fewer wake-ups for a command that writes much; a refusal (the user's pipe quota) costs only those.
    #[cfg(target_os = "linux")]
    let _ = rustix::pipe::fcntl_setpipe_size(pipe, 256 * 1024);
    Ok(rustix::io::ioctl_fionbio(pipe, true)?)
}

/// Makes this process, which becomes the command, die when the supervisor does, even by SIGKILL. Holds until the program changes its
/// user; for other systems than Linux there is nothing like it.
#[cfg(target_os = "linux")]
fn die_with(supervisor: Pid) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    // It may have died before we asked.
    if rustix::process::getppid() != Some(supervisor) {
        return Err(Errno::SRCH.into());
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn die_with(_supervisor: Pid) -> io::Result<()> {
    let _ = Signal::KILL;
    Ok(())
}

/// How the command ended, if it has: it is left unreaped, so that its pid and group stay its own.
pub(super) fn peek(pid: Pid) -> Option<CommandEnd> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let status = rustix::process::waitid(WaitId::Pid(pid), options).ok()??;
    Some(match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => CommandEnd::Code(code),
        (None, signal) => CommandEnd::Signal(signal.unwrap_or(0)),
    })
}

/// The same from a status of a reaped child.
pub(super) fn ended(status: WaitStatus) -> CommandEnd {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => CommandEnd::Code(code),
        (None, signal) => CommandEnd::Signal(signal.unwrap_or(0)),
    }
}

/// Makes the end of a child readable for `poll`: a thread that waits, and a pipe. It reaps nothing; only the thread that also
/// signals does, so that neither can be wrong about a pid.
pub(super) struct ExitNotifier {
    pub(super) pipe: OwnedFd,
    again: mpsc::SyncSender<()>,
}

impl ExitNotifier {
    /// One that a test signals.
    #[cfg(test)]
    pub(super) fn signalled_by_test(pipe: OwnedFd) -> Self {
        let (again, _) = mpsc::sync_channel(1);
        Self { pipe, again }
    }

    fn start() -> io::Result<Self> {
        let (pipe, signal) = rustix::pipe::pipe()?;
        for end in [&pipe, &signal] {
            rustix::io::fcntl_setfd(end, rustix::io::FdFlags::CLOEXEC)?;
        }
        rustix::io::ioctl_fionbio(&pipe, true)?;
        let (again, asked) = mpsc::sync_channel(1);
        std::thread::Builder::new()
            .name("exits".into())
            .stack_size(64 * 1024)
            .spawn(move || {
                // An exited child is reported until it is reaped, so each wait has to be requested.
                while asked.recv().is_ok() && wait_for_exit().is_ok() && rustix::io::write(&signal, &[0]).is_ok() {}
            })?;
        Ok(Self { pipe, again })
    }

    /// Empties the pipe.
    pub(super) fn drain(&self) {
        let _ = rustix::io::read(&self.pipe, &mut [0u8; 16]);
    }

    /// Asks to be notified of the next exit. Call it after reaping what has exited.
    pub(super) fn rearm(&self) {
        let _ = self.again.try_send(());
    }
}

fn wait_for_exit() -> Result<(), Errno> {
    loop {
        match rustix::process::waitid(WaitId::All, WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
            Err(Errno::INTR) => {}
            seen => return seen.map(drop),
        }
    }
}
