//! What is known of a task's attempts, and their logs.

use crate::{AttemptExit, Engine, LogChunk, LogError, LogRange, PastAttempt};
use longhaul_core::{HostId, Task, store::StoreError};

/// What the attempts of a task have left cannot be read. The texts are for the server's own log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AttemptFilesError {
    /// It is on the disk of another host, whose servers can read it.
    #[error("it is on the host {}", .0.0)]
    OnHost(HostId),
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The disk cannot be read.
    #[error(transparent)]
    Log(#[from] LogError),
}

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
        self.check_host(task)?;
        let kind = self.0.kind(task).await?;
        match kind.and_then(|kind| self.0.provider(&kind)) {
            Some(provider) => Ok(provider.attempts(&task.id, epoch, after, limit).await?),
            None => Ok(Vec::new()),
        }
    }

    /// What the latest attempt has left must be on this host. A store that only one process can open is one host, whatever it was called.
    fn check_host(&self, task: &Task) -> Result<(), AttemptFilesError> {
        let bound = task.attempt.as_ref().and_then(|attempt| attempt.host.as_ref());
        match bound {
            Some(host) if *host != self.0.node.registered.host && self.store().capabilities().many_nodes => {
                Err(AttemptFilesError::OnHost(host.clone()))
            }
            _ => Ok(()),
        }
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

    /// A part of the log of a task that the caller has already been found to own; `None` if it has none.
    ///
    /// # Errors
    /// [`AttemptFilesError`].
    pub async fn read_log(&self, task: &Task, range: LogRange) -> Result<Option<LogChunk>, AttemptFilesError> {
        let Some(epoch) = task.attempt.as_ref().map(|attempt| attempt.epoch) else {
            return Ok(None);
        };
        self.check_host(task)?;
        let kind = self.0.kind(task).await?;
        match kind.and_then(|kind| self.0.provider(&kind)) {
            Some(provider) => Ok(provider.read_log(&task.id, epoch, range).await?),
            None => Ok(None),
        }
    }
}
