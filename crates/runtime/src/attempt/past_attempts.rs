//! What is known of a task's attempts, and their logs.

use super::remote_files::{AttemptFilesError, Files};
use crate::{AttemptExit, Engine, LogChunk, LogRange, PastAttempt};
use longhaul_core::{HostId, Task};

impl Engine {
    /// Whether any kind of tool may keep logs.
    pub fn keeps_logs(&self) -> bool {
        self.0.providers.iter().any(|provider| provider.keeps_logs())
    }

    /// What is known of the attempts of a task that the caller has already been found to own: of those after `after`, at most `limit`.
    ///
    /// # Errors
    /// [`AttemptFilesError`].
    pub async fn attempts(&self, task: &Task, after: u32, limit: usize) -> Result<Vec<PastAttempt>, AttemptFilesError> {
        let Some(epoch) = task.attempt.as_ref().map(|attempt| attempt.epoch) else {
            return Ok(Vec::new());
        };
        let Some(kind) = self.0.kind(task).await? else {
            return Ok(Vec::new());
        };
        if let Some(host) = self.other_host(task) {
            let files = Files::of(&task.id, &kind, epoch);
            return files.attempts(&self.0, host, after, limit).await;
        }
        match self.0.provider(&kind) {
            Some(provider) => Ok(provider.attempts(&task.id, epoch, after, limit).await?),
            None => Ok(Vec::new()),
        }
    }

    /// The host that has what the latest attempt has left, if it is another one. A store that only one process can open is one host, whatever it was called.
    fn other_host<'a>(&self, task: &'a Task) -> Option<&'a HostId> {
        let bound = task.attempt.as_ref()?.host.as_ref()?;
        (*bound != self.0.node.registered.host && self.store().capabilities().many_nodes).then_some(bound)
    }

    /// How the latest attempt of a task ended, if its work is a command's and it has ended. A task that was cancelled at once may be over before
    /// that.
    ///
    /// # Errors
    /// [`AttemptFilesError`].
    pub async fn last_exit(&self, task: &Task) -> Result<Option<AttemptExit>, AttemptFilesError> {
        let Some(before) = task.attempt.as_ref().map(|attempt| attempt.epoch.saturating_sub(1)) else {
            return Ok(None);
        };
        let last = self.attempts(task, before, 1).await?.pop();
        Ok(last.and_then(|attempt| attempt.exit))
    }

    /// A part of the log of a task that the caller has already been found to own, of its latest attempt or an `attempt`, by number; `None` if that has
    /// none. Asks the server of the host that has it.
    ///
    /// # Errors
    /// [`AttemptFilesError`].
    pub async fn read_log(
        &self,
        task: &Task,
        attempt: Option<u32>,
        range: LogRange,
    ) -> Result<Option<LogChunk>, AttemptFilesError> {
        let Some(latest) = task.attempt.as_ref().map(|attempt| attempt.epoch) else {
            return Ok(None);
        };
        let epoch = attempt.unwrap_or(latest);
        if epoch == 0 || epoch > latest {
            return Ok(None);
        }
        let Some(kind) = self.0.kind(task).await? else {
            return Ok(None);
        };
        let other_host = self.other_host(task);
        // Another host may have taken the task over after an earlier attempt.
        if (other_host.is_none() || epoch < latest)
            && let Some(provider) = self.0.provider(&kind)
            && let Some(chunk) = provider.read_log(&task.id, epoch, range).await?
        {
            return Ok(Some(chunk));
        }
        match other_host {
            Some(host) => Files::of(&task.id, &kind, epoch).read_log(&self.0, host, range).await,
            None => Ok(None),
        }
    }
}
