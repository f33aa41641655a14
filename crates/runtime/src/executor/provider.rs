//! The port that rebuilds executors of one kind from stored definitions, and reads what their attempts left.

use super::{
    Executor,
    artifact::{ArtifactChunk, ArtifactList},
};
use longhaul_core::{BoxFuture, Json, TaskId, UnixMillis};
use serde_json::{Value, json};
use std::{fmt, sync::Arc};

/// A part of a task's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogChunk {
    /// The text; what was not UTF-8 is replaced.
    pub text: String,
    /// Where the text begins, in bytes of the whole log.
    pub offset: u64,
    /// Where the next chunk begins.
    pub next: u64,
    /// Bytes written so far.
    pub total: u64,
}

/// Which part of a log is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LogRange {
    /// Where to begin, in bytes of the whole log. Without it, the range ends with the log.
    pub offset: Option<u64>,
    /// At most so many bytes. Default 64 KiB.
    pub limit: Option<u64>,
}

/// What attempts have left cannot be read. The text is for the server's own log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("it cannot be read: {0}")]
pub struct LogError(pub String);

/// What is known of one attempt of work that keeps no journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PastAttempt {
    /// Which attempt.
    pub epoch: u32,
    /// When its work began, by the system's clock.
    pub began: Option<UnixMillis>,
    /// When it ended.
    pub ended: Option<UnixMillis>,
    /// How it ended, if that is known.
    pub exit: Option<AttemptExit>,
    /// Whether it ended with success.
    pub succeeded: bool,
    /// Whether it was stopped because it took longer than its tool's timeout.
    pub timed_out: bool,
    /// The last line that it wrote, if it failed.
    pub last_line: Option<String>,
    /// The words of the command that it runs, without the secrets in them as far as they can be told; empty if it runs none, or that is not known.
    pub command: Vec<String>,
    /// The process of the command on its host, while it runs.
    pub pid: Option<u32>,
}

impl PastAttempt {
    /// Why it failed: how it ended, and the last line that it wrote; `None` if it did not fail, or that is not known.
    pub fn failure(&self) -> Option<String> {
        let exit = self.exit_words().filter(|_| !self.succeeded)?;
        Some(match &self.last_line {
            Some(line) => format!("{exit}: {line}"),
            None => exit,
        })
    }

    /// How it ended, for people.
    pub fn exit_words(&self) -> Option<String> {
        let exit = self.exit.as_ref()?;
        Some(match self.timed_out {
            true => format!("its timeout passed, {exit}"),
            false => exit.to_string(),
        })
    }

    /// How it ended, for programs.
    pub fn exit_json(&self) -> Option<Value> {
        self.exit.as_ref().and_then(|exit| match self.timed_out {
            true => exit.to_json_after_timeout(),
            false => exit.to_json(),
        })
    }
}

/// How the work of an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttemptExit {
    /// With this exit code.
    Code(i32),
    /// By the signal of this name, without `SIG`.
    Signal(String),
    /// It could not be started, for this reason.
    NotStarted(String),
}

impl AttemptExit {
    /// As programs read it: `{"code": 3}` or `{"signal": "TERM"}`; `None` of what was not started.
    pub fn to_json(&self) -> Option<Value> {
        match self {
            Self::Code(code) => Some(json!({"code": code})),
            Self::Signal(name) => Some(json!({"signal": name})),
            Self::NotStarted(_) => None,
        }
    }

    /// The same of an attempt whose timeout passed: `{"signal": "TERM", "timedOut": true}`.
    pub fn to_json_after_timeout(&self) -> Option<Value> {
        let mut exit = self.to_json()?;
        exit["timedOut"] = true.into();
        Some(exit)
    }
}

impl fmt::Display for AttemptExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(name) => write!(f, "killed by signal {name}"),
            Self::NotStarted(why) => write!(f, "not started: {why}"),
        }
    }
}

/// A kind of executor.
pub trait Provider: Send + Sync + 'static {
    /// The name of the kind, stored with each tool's definition.
    fn kind(&self) -> &'static str;

    /// Makes an executor from a definition that was stored with a task, whose tool may since have been changed or removed.
    ///
    /// # Errors
    /// Why it cannot, for the caller to read.
    fn revive(&self, definition: &Json) -> Result<Arc<dyn Executor>, String>;

    /// Whether its executors leave logs that [`read_log`](Self::read_log) finds.
    fn keeps_logs(&self) -> bool {
        true
    }

    /// Those of `tasks` whose attempts left something outside the store. Called before tasks are deleted, and answered at once for a kind that
    /// leaves nothing.
    fn left_by(&self, tasks: Vec<TaskId>) -> BoxFuture<'_, Vec<TaskId>> {
        let _ = tasks;
        Box::pin(async { Vec::new() })
    }

    /// Removes what attempts of this task left outside the store. Called before the task is deleted, perhaps more than once, for tasks that
    /// [`left_by`](Self::left_by) names.
    ///
    /// # Errors
    /// Why not all could be removed. The task is kept until it can.
    fn forget(&self, task: &TaskId) -> BoxFuture<'_, Result<(), String>> {
        let _ = task;
        Box::pin(async { Ok(()) })
    }

    /// The attempts, by their tasks and epochs, whose work goes on outside of this process on this host. Asked where many nodes share the store: at a start, and by a node
    /// that runs no tasks from time to time.
    fn running_outside(&self) -> BoxFuture<'_, Result<Vec<(TaskId, u32)>, LogError>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    /// Ends work that [`running_outside`](Self::running_outside) has named, and completes when it has ended. Its outcome counts for nothing: the attempt was given up.
    fn end_outside(&self, task: &TaskId, epoch: u32) -> BoxFuture<'_, ()> {
        let _ = (task, epoch);
        Box::pin(async {})
    }

    /// What is known of a task's attempts up to `epoch`, the latest, and at most `limit` of them, those after `after`; of kinds that keep
    /// journals nothing.
    fn attempts(
        &self,
        task: &TaskId,
        epoch: u32,
        after: u32,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<PastAttempt>, LogError>> {
        let _ = (task, epoch, after, limit);
        Box::pin(async { Ok(Vec::new()) })
    }

    /// A part of the log of an attempt; `None` if the kind keeps no logs or there is none yet.
    fn read_log(
        &self,
        task: &TaskId,
        epoch: u32,
        range: LogRange,
    ) -> BoxFuture<'_, Result<Option<LogChunk>, LogError>> {
        let _ = (task, epoch, range);
        Box::pin(async { Ok(None) })
    }

    /// The files that an attempt has left; `None` if the kind keeps none, or the attempt has not ended.
    fn artifacts(&self, task: &TaskId, epoch: u32) -> BoxFuture<'_, Result<Option<ArtifactList>, LogError>> {
        let _ = (task, epoch);
        Box::pin(async { Ok(None) })
    }

    /// At most `limit` bytes of a file that an attempt has left, from `offset`, and no more than [`MAX_ARTIFACT_READ`](crate::MAX_ARTIFACT_READ);
    /// `None` if there is none of this name.
    fn read_artifact(
        &self,
        task: &TaskId,
        epoch: u32,
        name: &str,
        offset: u64,
        limit: u64,
    ) -> BoxFuture<'_, Result<Option<ArtifactChunk>, LogError>> {
        let _ = (task, epoch, name, offset, limit);
        Box::pin(async { Ok(None) })
    }
}
