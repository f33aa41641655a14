//! The files that the server and a supervisor write for each other.

use super::signal::{self, StopSignal};
use longhaul_core::{Millis, UnixMillis};
use longhaul_runtime::AttemptExit;
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

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
    /// The folder that `cwd`, chosen by a caller, has to lie in. Both are without links.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd_within: Option<PathBuf>,
    /// The supervisor is given more of it by a pipe, in a [`SecretInput`](super::secret_input::SecretInput).
    #[serde(default, skip_serializing_if = "is_default")]
    pub has_secrets: bool,
    /// Bytes of standard output kept for the result.
    pub max_output: u64,
    /// Bytes of the log kept on disk.
    pub max_log: u64,
    /// The log is not written while its disk has less room than this, in bytes.
    #[serde(default)]
    pub least_free: u64,
    /// When the command is stopped by the supervisor itself, in unix milliseconds.
    pub deadline_ms: Option<i64>,
    /// How long the command may run before the supervisor stops it, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<Millis>,
    /// The signal that asks the command to end.
    #[serde(default, skip_serializing_if = "is_default")]
    pub stop_signal: StopSignal,
    /// From that signal to SIGKILL, in milliseconds.
    pub kill_grace_ms: Millis,
    /// The exit codes that count as success.
    #[serde(default, skip_serializing_if = "is_default")]
    pub success: SuccessCodes,
    /// Which files are kept, if any are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifacts: Option<ArtifactSettings>,
}

/// Which files an attempt leaves, as a tool's definition has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArtifactSettings {
    /// Patterns of paths from the folder that the command runs in: see [`ArtifactPattern`](crate::ArtifactPattern).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub patterns: Vec<String>,
    /// The most bytes that the artifacts of an attempt have together.
    pub max_bytes: u64,
}

/// The exit codes of a command that count as success: 0, if nothing else is said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SuccessCodes(BTreeSet<u8>);

impl Default for SuccessCodes {
    fn default() -> Self {
        Self([0].into())
    }
}

impl FromIterator<u8> for SuccessCodes {
    fn from_iter<I: IntoIterator<Item = u8>>(codes: I) -> Self {
        Self(codes.into_iter().collect())
    }
}

impl SuccessCodes {
    /// Whether this exit code is among them.
    pub fn contains(&self, code: u8) -> bool {
        self.0.contains(&code)
    }
}

pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
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
    /// The attempt took longer than its timeout.
    Timeout,
}

/// The end of an attempt: the file `exit`. Where there is one, the outputs beside it are complete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitRecord {
    /// How the command ended.
    pub ended: CommandEnd,
    /// Why it was stopped, if it was; it may have ended by itself in the same moment.
    pub stopped: Option<Stopped>,
    /// Whether the exit code counts as success; `None` if only 0 does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub success: Option<bool>,
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
    /// Why the files that it left could not be kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifacts_error: Option<String>,
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
            success: None,
            killed: false,
            ended_at_ms: ended_at.0,
            stdout_bytes: 0,
            stderr_bytes: 0,
            log_bytes: 0,
            write_error: None,
            stdout_left_open: false,
            stderr_left_open: false,
            stderr_last: false,
            artifacts_error: None,
        }
    }

    /// Records whether the exit code is one of these.
    pub(crate) fn judge(&mut self, success: &SuccessCodes) {
        if !is_default(success) {
            self.success = Some(self.code().is_some_and(|code| success.contains(code)));
        }
    }

    /// The exit code of a command that exited.
    pub(crate) fn code(&self) -> Option<u8> {
        match self.ended {
            CommandEnd::Code(code) => u8::try_from(code).ok(),
            _ => None,
        }
    }

    /// Whether the command did what it was asked to.
    ///
    /// That its output could not be kept or was not what the tool promised is no matter of the command's, so it counts as done.
    pub(crate) fn succeeded(&self) -> bool {
        self.success.unwrap_or(self.ended == CommandEnd::Code(0))
    }

    /// Whether it was stopped because its timeout passed.
    pub(crate) fn timed_out(&self) -> bool {
        self.stopped == Some(Stopped::Timeout)
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
