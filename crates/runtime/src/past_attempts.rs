//! What is known of a task's attempts, and their logs.

use crate::{AttemptExit, Engine, LogChunk, LogRange, PastAttempt};
use longhaul_core::Task;

impl Engine {
    /// Whether any kind of tool may keep logs.
    pub fn keeps_logs(&self) -> bool {
        self.0.providers.iter().any(|provider| provider.keeps_logs())
    }

    /// What is known of the attempts of a task that the caller has already been found to own: of those after `after`, at most `limit`.
    ///
    /// # Errors
    /// A text for the server's own log.
    pub async fn attempts(&self, task: &Task, after: u32, limit: usize) -> Result<Vec<PastAttempt>, String> {
        let Some(epoch) = task.attempt.as_ref().map(|attempt| attempt.epoch) else {
            return Ok(Vec::new());
        };
        let kind = self.0.kind(task).await.map_err(|error| error.to_string())?;
        match kind.and_then(|kind| self.0.provider(&kind)) {
            Some(provider) => provider
                .attempts(&task.id, epoch, after, limit)
                .await
                .map_err(|error| error.to_string()),
            None => Ok(Vec::new()),
        }
    }

    /// How the latest attempt of a task ended, if its work is a command's and it has ended. A task that was cancelled at once may be over before
    /// that.
    ///
    /// # Errors
    /// A text for the server's own log.
    pub async fn last_exit(&self, task: &Task) -> Result<Option<AttemptExit>, String> {
        let Some(before) = task.attempt.as_ref().map(|attempt| attempt.epoch.saturating_sub(1)) else {
            return Ok(None);
        };
        let last = self.attempts(task, before, 1).await?.pop();
        Ok(last.and_then(|attempt| attempt.exit))
    }

    /// A part of the log of a task that the caller has already been found to own; `None` if it has none.
    ///
    /// # Errors
    /// A text for the server's own log.
    pub async fn read_log(&self, task: &Task, range: LogRange) -> Result<Option<LogChunk>, String> {
        let Some(epoch) = task.attempt.as_ref().map(|attempt| attempt.epoch) else {
            return Ok(None);
        };
        let kind = self.0.kind(task).await.map_err(|error| error.to_string())?;
        let provider = kind.and_then(|kind| self.0.provider(&kind));
        match provider {
            Some(provider) => provider
                .read_log(&task.id, epoch, range)
                .await
                .map_err(|error| error.to_string()),
            None => Ok(None),
        }
    }
}
