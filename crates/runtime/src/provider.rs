//! The port behind which executors of one kind come from and leave their traces.

use crate::Executor;
use longhaul_core::{BoxFuture, Json, TaskId};
use std::sync::Arc;

/// A part of a task's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogChunk {
    /// The text; what was not UTF-8 is replaced.
    pub text: String,
    /// Where the text begins, in bytes of the whole log.
    pub offset: u64,
    /// Where to go on reading.
    pub next: u64,
    /// Bytes written so far.
    pub total: u64,
}

/// Which part of a log is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LogRange {
    /// Where to begin, in bytes of the whole log. Without it: so that the end is reached.
    pub offset: Option<u64>,
    /// At most so many bytes. Default 64 KiB.
    pub limit: Option<u64>,
}

/// A log cannot be read. The text is for the server's own log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the log cannot be read: {0}")]
pub struct LogError(pub String);

/// A kind of executor.
pub trait Provider: Send + Sync + 'static {
    /// The word for the kind, kept with each tool's definition.
    fn kind(&self) -> &'static str;

    /// Makes an executor from a definition that was frozen with a task, whose tool may since have been changed or removed.
    ///
    /// # Errors
    /// Why it cannot, for the caller to read.
    fn revive(&self, definition: &Json) -> Result<Arc<dyn Executor>, String>;

    /// Whether its executors leave logs that [`read_log`](Self::read_log) finds.
    fn keeps_logs(&self) -> bool {
        true
    }

    /// Removes what attempts of this task left outside the store. Called before the task is deleted, perhaps more than once, also
    /// for tasks that left nothing.
    fn forget(&self, task: &TaskId) -> BoxFuture<'_, Result<(), String>> {
        let _ = task;
        Box::pin(async { Ok(()) })
    }

    /// A part of the log of the task's latest attempt; `None` if the kind keeps no logs or there is none yet.
    fn read_log(
        &self,
        task: &TaskId,
        epoch: u32,
        range: LogRange,
    ) -> BoxFuture<'_, Result<Option<LogChunk>, LogError>> {
        let _ = (task, epoch, range);
        Box::pin(async { Ok(None) })
    }
}
