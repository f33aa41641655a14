//! Finds out what became of an attempt, by trying the lock that its supervisor holds while it lives.

use super::{AttemptDir, Lock, SOCKET, record::ExitRecord};
use longhaul_core::AttemptState;
use longhaul_private_dir::{SocketPath, Unfit};
use std::{io, os::unix::net::UnixStream};
use tracing::error;

/// What became of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttemptVerdict {
    /// Its supervisor lives.
    Held,
    /// The command ended, and this is how.
    Finished(ExitRecord),
    /// The supervisor died before it recorded the end. The command may have run.
    Interrupted,
    /// The command ended, but the record of how it ended is damaged.
    Damaged,
    /// Nothing was started, and now nothing will be.
    NeverStarted,
    /// The command may have been started and may still run, but the directory is gone, or a file that was in it before the start.
    Lost,
    /// Another version of Longhaul wrote the directory, in a format that this one does not know.
    UnknownVersion {
        /// That format.
        found: String,
    },
}

/// Judges an attempt that is in `state` in the store. After [`AttemptVerdict::NeverStarted`] a supervisor that starts late does not start the command.
///
/// Supervisors are started after their directory is complete and the start is committed. So a directory that is missing, or not complete,
/// proves that nothing was started only while the attempt is [`AttemptState::Starting`]; later it proves that somebody removed it.
///
/// # Errors
/// When the directory cannot be read, or the file `void` cannot be written. Nothing is decided then: call this again.
pub fn judge(dir: &AttemptDir, state: AttemptState) -> io::Result<AttemptVerdict> {
    match examine(dir, state) {
        Err(error) if state != AttemptState::Starting && Unfit::of(&error).is_some() => {
            error!(%error, "the folder of an attempt is not as its supervisor has left it");
            Ok(AttemptVerdict::Lost)
        }
        judged => judged,
    }
}

/// The same. Of an attempt that is over the files with secrets are removed, which a supervisor that was killed has left.
///
/// # Errors
/// As [`judge`].
pub(in crate::command) fn judge_and_clean(
    dir: &AttemptDir,
    state: AttemptState,
    has_secrets: bool,
) -> io::Result<AttemptVerdict> {
    let verdict = judge(dir, state)?;
    if has_secrets
        && verdict != AttemptVerdict::Held
        && let Err(error) = dir.remove_secret_files()
    {
        error!(%error, "the file of a secret argument could not be removed from {}", dir.path().display());
    }
    Ok(verdict)
}

fn examine(dir: &AttemptDir, state: AttemptState) -> io::Result<AttemptVerdict> {
    let incomplete = match state {
        AttemptState::Starting => AttemptVerdict::NeverStarted,
        AttemptState::Live | AttemptState::Stopping | AttemptState::Ended => AttemptVerdict::Lost,
    };
    if !dir.is_there()? {
        return Ok(incomplete);
    }
    if let Some(found) = dir.foreign_version()? {
        return Ok(AttemptVerdict::UnknownVersion { found });
    }
    // A lock that was made here would not be the one that a supervisor holds.
    if !dir.has_lock()? && (incomplete == AttemptVerdict::Lost || dir.is_started()?) {
        return Ok(AttemptVerdict::Lost);
    }
    let Some(_lock) = Lock::try_take(dir)? else {
        return Ok(AttemptVerdict::Held);
    };
    match dir.exit() {
        Ok(Some(exit)) => return Ok(AttemptVerdict::Finished(exit)),
        Ok(None) => {}
        // It was renamed whole: only a broken disk, or someone who wrote to it, makes it unreadable.
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            error!(%error, "the exit record of an attempt is damaged");
            return Ok(AttemptVerdict::Damaged);
        }
        Err(error) => return Err(error),
    }
    if dir.is_started()? {
        return Ok(AttemptVerdict::Interrupted);
    }
    if incomplete == AttemptVerdict::Lost && !dir.is_complete()? {
        return Ok(AttemptVerdict::Lost);
    }
    if !dir.is_void()? {
        dir.write_void()?;
    }
    Ok(AttemptVerdict::NeverStarted)
}

/// Connects to the supervisor that holds an attempt. A refusal means that it is not listening yet or not any more: judge again.
///
/// # Errors
/// The connection's.
pub fn connect(dir: &AttemptDir) -> io::Result<UnixStream> {
    UnixStream::connect(SocketPath::of(&dir.file(SOCKET))?.as_path())
}
