//! From an inherited process to one that may run the command: lock, socket, `started`.

use super::super::attempt_dir::{AttemptDir, Lock, SOCKET, STDIN};
use crate::command::attempt_dir::{
    record::LaunchSpec,
    secret_input::{SecretInput, pipe_with},
};
use longhaul_private_dir::open_file;
use rustix::{io::Errno, process::Signal};
use std::{
    fs::File,
    io::{self, Write},
    os::{fd::OwnedFd, unix::net::UnixListener},
    path::Path,
};

/// A supervisor that holds its attempt and has recorded that on disk. From here on the command may run.
pub(super) struct BootedSupervisor {
    pub(super) dir: AttemptDir,
    pub(super) lock: Lock,
    pub(super) listener: UnixListener,
    pub(super) spec: LaunchSpec,
    pub(super) stdin: Option<File>,
}

/// Why a supervisor does not start its command. Nothing was started, and the directory says so.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refusal {
    #[error("the attempt is held by another process")]
    Held,
    #[error("the attempt was declared void")]
    Void,
    #[error("the attempt was started before")]
    Started,
    #[error("the attempt's directory has format {0}, which this supervisor does not know")]
    UnknownVersion(String),
    #[error("{doing}: {error}")]
    System { doing: &'static str, error: io::Error },
}

fn failed<E: Into<io::Error>>(doing: &'static str) -> impl FnOnce(E) -> Refusal {
    move |error| Refusal::System {
        doing,
        error: error.into(),
    }
}

pub(super) fn boot(dir: AttemptDir) -> Result<BootedSupervisor, Refusal> {
    // The working directory is the attempt's from here on, so that its files, the socket above all, have short names.
    std::env::set_current_dir(dir.path()).map_err(failed("entering the attempt's directory"))?;
    let dir = AttemptDir::at(".");
    close_inherited().map_err(failed("closing inherited descriptors"))?;
    let lock = Lock::try_take(&dir)
        .map_err(failed("taking the lock"))?
        .ok_or(Refusal::Held)?;
    if let Some(found) = dir.foreign_version().map_err(failed("reading the version"))? {
        return Err(Refusal::UnknownVersion(found));
    }
    if dir.is_void().map_err(failed("looking for void"))? {
        return Err(Refusal::Void);
    }
    if dir.is_started().map_err(failed("looking for started"))? {
        return Err(Refusal::Started);
    }
    let mut spec = dir.read_spec().map_err(failed("reading the spec"))?;
    let secret = match spec.has_secrets {
        true => SecretInput::read(io::stdin()).map_err(failed("reading the secret arguments"))?,
        false => SecretInput::default(),
    };
    let stdin = match open_file(&dir.file(STDIN), File::options().read(true)) {
        Ok(file) => Some(file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(failed("opening the standard input")(error)),
    };
    spec.env.extend(secret.env);
    let secret_stdin = secret.stdin.map(pipe_with).transpose();
    let secret_stdin = secret_stdin.map_err(failed("preparing the standard input"))?;
    let stdin = secret_stdin.map(|pipe| File::from(OwnedFd::from(pipe))).or(stdin);
    detach()?;
    let listener = UnixListener::bind(Path::new(SOCKET)).map_err(failed("binding the socket"))?;
    listener.set_nonblocking(true).map_err(failed("preparing the socket"))?;
    // Best effort: on a disk that is full already the record is tried for until it fits.
    let _ = dir.reserve_exit();
    for (name, contents) in &secret.files {
        let written = dir.write_secret_file(name, contents);
        written.map_err(failed("writing the file of a secret argument"))?;
    }
    dir.write_started().map_err(failed("recording the start"))?;
    Ok(BootedSupervisor {
        dir,
        lock,
        listener,
        spec,
        stdin,
    })
}

/// Leaves the server's session, becomes the parent of what the command orphans, and sees to it that no signal meant for the server,
/// and no disposition inherited from it, has an effect here.
fn detach() -> Result<(), Refusal> {
    match rustix::process::setsid() {
        // A leader already, for example when started by hand: as good.
        Ok(_) | Err(Errno::PERM) => {}
        Err(error) => return Err(failed("leaving the session")(error)),
    }
    #[cfg(target_os = "linux")]
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).map_err(failed("becoming a subreaper"))?;
    // An ignored SIGCHLD would reap the command before its status was seen.
    default_signals();
    // A full quota, or a reader that went away, is an error to note and no reason to die.
    ignore(Signal::XFSZ);
    ignore(Signal::PIPE);
    Ok(())
}

/// Gives every signal its default disposition.
pub(super) fn default_signals() {
    for number in 1..=64 {
        // Fails for signals that cannot be changed or do not exist here.
        #[expect(
            unsafe_code,
            reason = "SIG_DFL installs no handler, and signal(2) is async-signal-safe"
        )]
        unsafe {
            libc::signal(number, libc::SIG_DFL);
        }
    }
}

pub(super) fn ignore(signal: Signal) {
    #[expect(unsafe_code, reason = "SIG_IGN installs no handler")]
    unsafe {
        libc::signal(signal.as_raw(), libc::SIG_IGN);
    }
}

/// Closes what the server left open without close-on-exec: its port, for example, would stay taken as long as we live.
fn close_inherited() -> io::Result<()> {
    let mut open = Vec::new();
    for entry in std::fs::read_dir("/dev/fd")? {
        open.extend(entry?.file_name().to_str().and_then(|name| name.parse::<i32>().ok()));
    }
    for descriptor in open.into_iter().filter(|descriptor| *descriptor > 2) {
        #[expect(
            unsafe_code,
            reason = "first thing in main: nothing in this process owns a descriptor above 2 yet"
        )]
        unsafe {
            libc::close(descriptor);
        }
    }
    Ok(())
}

/// Writes a line to the server, which may be gone, and closes its pipe.
pub(super) fn say(line: &str) {
    let _ = writeln!(io::stdout(), "{line}");
    if let Ok(null) = File::options().read(true).write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(&null);
    }
}
