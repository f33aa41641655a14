//! The files that the server and a supervisor write for each other.

use super::signal;
use longhaul_core::{Millis, StopReason, UnixMillis};
use longhaul_runtime::AttemptExit;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, path::PathBuf};

/// What a supervisor is to do: the file `spec` of an attempt's directory. It may hold secrets.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct LaunchSpec {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// The environment.
    pub env: BTreeMap<String, String>,
    /// The rest of it: variables whose values are not UTF-8.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env_bytes: BTreeMap<String, Vec<u8>>,
    /// Absolute folder to run in.
    pub cwd: PathBuf,
    /// Bytes of standard output kept for the result.
    pub max_output: u64,
    /// Bytes of the log kept on disk.
    pub max_log: u64,
    /// The log is not written while its disk has less room than this, in bytes.
    #[serde(default)]
    pub least_free: u64,
    /// When the command is stopped by the supervisor itself, in unix milliseconds.
    pub deadline_ms: Option<i64>,
    /// From SIGTERM to SIGKILL, in milliseconds.
    pub kill_grace_ms: Millis,
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommandEnd {
    /// It exited with this code.
    Code(i32),
    /// A signal of this number killed it.
    Signal(i32),
    /// It could not be started, for this reason.
    NotStarted(String),
}

impl From<&CommandEnd> for AttemptExit {
    fn from(ended: &CommandEnd) -> Self {
        match ended {
            CommandEnd::Code(code) => Self::Code(*code),
            CommandEnd::Signal(signal) => Self::Signal(signal::name(*signal)),
            CommandEnd::NotStarted(why) => Self::NotStarted(why.clone()),
        }
    }
}

/// Why a supervisor stopped its command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stopped {
    /// It was asked to.
    Cancel,
    /// The deadline passed.
    Deadline,
}

impl From<StopReason> for Stopped {
    fn from(reason: StopReason) -> Self {
        match reason {
            StopReason::Cancel => Self::Cancel,
            StopReason::Deadline => Self::Deadline,
        }
    }
}

impl From<Stopped> for StopReason {
    fn from(stopped: Stopped) -> Self {
        match stopped {
            Stopped::Cancel => Self::Cancel,
            Stopped::Deadline => Self::Deadline,
        }
    }
}

/// The end of an attempt: the file `exit`. Where there is one, the outputs beside it are complete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitRecord {
    /// How the command ended.
    pub ended: CommandEnd,
    /// Why it was stopped, if it was; it may have ended by itself in the same moment.
    pub stopped: Option<Stopped>,
    /// Whether a SIGKILL was sent.
    pub killed: bool,
    /// When it ended, in unix milliseconds.
    pub ended_at_ms: i64,
    /// All it wrote to standard output, kept or not.
    pub stdout_bytes: u64,
    /// All it wrote to standard error.
    pub stderr_bytes: u64,
    /// Length of the log's stream, kept or not.
    pub log_bytes: u64,
    /// The first thing that could not be written, for example because the disk was full.
    pub write_error: Option<String>,
    /// A process that the command left behind still had standard output open when reading ended. What it wrote later is neither counted nor
    /// kept.
    #[serde(default, skip_serializing_if = "is_false")]
    pub stdout_left_open: bool,
    /// The same of standard error.
    #[serde(default, skip_serializing_if = "is_false")]
    pub stderr_left_open: bool,
    /// Standard error was written to last.
    #[serde(default, skip_serializing_if = "is_false")]
    pub stderr_last: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands it over like this")]
fn is_false(value: &bool) -> bool {
    !value
}

impl ExitRecord {
    /// A command that ended with `ended`, without output.
    pub(crate) fn without_output(ended: CommandEnd, ended_at: UnixMillis) -> Self {
        Self {
            ended,
            stopped: None,
            killed: false,
            ended_at_ms: ended_at.0,
            stdout_bytes: 0,
            stderr_bytes: 0,
            log_bytes: 0,
            write_error: None,
            stdout_left_open: false,
            stderr_left_open: false,
            stderr_last: false,
        }
    }
}

/// A line from a supervisor to its clients.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SupervisorEvent {
    /// The newest output, the last 2 KiB of the stream that was written to last. From a supervisor of an earlier release, of both streams.
    pub(crate) tail: String,
    /// The same of the other stream.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) other: String,
    /// Whether `tail` is of standard error, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) is_stderr: Option<bool>,
}

/// Bytes of each output that are read for its status.
pub(crate) const EVENT_TAIL: usize = 2 * 1024;
/// Bytes of each output that are kept for a result that says what went wrong.
pub(crate) const QUOTED: usize = 8 * 1024;
