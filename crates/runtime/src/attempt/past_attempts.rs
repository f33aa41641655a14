//! What is known of a task's attempts, and their logs.

use super::remote_files::{AttemptFilesError, Files};
use crate::{ArtifactChunk, ArtifactList, AttemptExit, Engine, LogChunk, LogRange, PastAttempt, Provider};
use longhaul_core::{HostId, Task};
use std::sync::Arc;

/// Where the files of an attempt are.
struct Place<'a> {
    epoch: u32,
    kind: Arc<str>,
    /// What reads them here, if they may be here.
    here: Option<&'a Arc<dyn Provider>>,
    /// The host that has them otherwise.
    host: Option<&'a HostId>,
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
        let Some(place) = self.place(task, attempt).await? else {
            return Ok(None);
        };
        if let Some(provider) = place.here
            && let Some(chunk) = provider.read_log(&task.id, place.epoch, range).await?
        {
            return Ok(Some(chunk));
        }
        match place.host {
            Some(host) => place.files(task).read_log(&self.0, host, range).await,
            None => Ok(None),
        }
    }

    /// The files that an attempt of a task has left, the latest or another, by number; the caller has already been found to own the task. `None` if it keeps none, or has
    /// not ended. Asks the server of the host that has them.
    ///
    /// # Errors
    /// [`AttemptFilesError`].
    pub async fn artifacts(
        &self,
        task: &Task,
        attempt: Option<u32>,
    ) -> Result<Option<ArtifactList>, AttemptFilesError> {
        let Some(place) = self.place(task, attempt).await? else {
            return Ok(None);
        };
        if let Some(provider) = place.here
            && let Some(list) = provider.artifacts(&task.id, place.epoch).await?
        {
            return Ok(Some(list));
        }
        match place.host {
            Some(host) => place.files(task).artifacts(&self.0, host).await,
            None => Ok(None),
        }
    }

    /// A part of a file that an attempt has left, from `offset`; see [`Provider::read_artifact`] and [`artifacts`](Self::artifacts).
    ///
    /// # Errors
    /// [`AttemptFilesError`].
    pub async fn read_artifact(
        &self,
        task: &Task,
        attempt: Option<u32>,
        name: &str,
        offset: u64,
        limit: u64,
    ) -> Result<Option<ArtifactChunk>, AttemptFilesError> {
        let Some(place) = self.place(task, attempt).await? else {
            return Ok(None);
        };
        if let Some(provider) = place.here
            && let Some(chunk) = (provider.read_artifact(&task.id, place.epoch, name, offset, limit)).await?
        {
            return Ok(Some(chunk));
        }
        match place.host {
            Some(host) => {
                place
                    .files(task)
                    .read_artifact(&self.0, host, name, offset, limit)
                    .await
            }
            None => Ok(None),
        }
    }

    /// Where the files of an attempt of a task are, of the latest one or of another.
    async fn place<'a>(&'a self, task: &'a Task, attempt: Option<u32>) -> Result<Option<Place<'a>>, AttemptFilesError> {
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
        let host = self.other_host(task);
        // Another host may have taken the task over after an earlier attempt.
        let may_be_here = host.is_none() || epoch < latest;
        Ok(Some(Place {
            epoch,
            here: self.0.provider(&kind).filter(|_| may_be_here),
            kind,
            host,
        }))
    }
}

impl Place<'_> {
    fn files(&self, task: &Task) -> Files {
        Files::of(&task.id, &self.kind, self.epoch)
    }
}
