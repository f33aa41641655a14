//! Branches of a task's code that run concurrently, and races between them.

use crate::{
    context::TaskContext,
    journal::{JournalError, Operation},
};
use longhaul_core::{EntryKind, Json};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

impl TaskContext {
    /// Forks into `count` branches, none of which has started.
    ///
    /// # Errors
    /// [`JournalError::None`], [`JournalError::Forked`].
    pub fn fork(&self, count: usize) -> Result<Fork, JournalError> {
        let journal = self.shared.journal.as_ref().ok_or(JournalError::None)?;
        self.check_not_forked()?;
        Ok(Fork {
            trunk: self.clone(),
            paths: journal.fork(&self.path, count),
        })
    }
}

/// Concurrent branches of the code, made by [`TaskContext::fork`]. The branch that forked waits until all that have started are over, or
/// this is dropped.
pub struct Fork {
    trunk: TaskContext,
    paths: Vec<Arc<str>>,
}

impl Fork {
    /// Starts a branch; `None` if there is none of this number. Call it once for each; a branch that replaces another one must start before
    /// the other is [`over`](Self::over).
    pub fn begin(&self, nth: usize) -> Option<TaskContext> {
        let path = self.paths.get(nth)?;
        let change = self.trunk.shared.activity.fork(&self.trunk.path, path);
        self.trunk.activity_changed(change);
        Some(self.branch(path))
    }

    /// Ends a branch: it is not waited for any more.
    pub fn over(&self, nth: usize) {
        if let Some(path) = self.paths.get(nth) {
            self.end(std::slice::from_ref(path));
        }
    }

    fn end(&self, paths: &[Arc<str>]) {
        let change = self.trunk.shared.activity.over(&self.trunk.path, paths);
        self.trunk.activity_changed(change);
    }

    fn branch(&self, path: &Arc<str>) -> TaskContext {
        TaskContext {
            shared: Arc::clone(&self.trunk.shared),
            path: Arc::clone(path),
        }
    }

    /// The winner, if it is recorded already.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn winner(&self) -> Result<Race, JournalError> {
        let operation = self.trunk.begin(EntryKind::Select, &Arc::from(""))?;
        let winner = match &operation.found {
            Some((_, value)) => Some(operation.read::<ForkDecision>(value)?.nth()),
            None => None,
        };
        Ok(Race {
            operation,
            winner,
            is_join: false,
        })
    }

    /// The same for branches that are all waited for unless one fails: the history shows it as a join.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn first_failed(&self) -> Result<Race, JournalError> {
        let race = self.winner()?;
        Ok(Race { is_join: true, ..race })
    }

    /// Records that branch `nth` won, withdraws the questions of the others, and cancels their children. A number beyond the branches records
    /// that none won, and changes nothing else.
    ///
    /// Drop the futures of the others after this, not before: while the winner is not recorded, a branch that was dropped could win in the
    /// next attempt.
    ///
    /// # Errors
    /// [`JournalError`].
    pub async fn decide(&self, mut race: Race, nth: usize) -> Result<(), JournalError> {
        if race.winner.is_none() {
            let decided = match race.is_join {
                true => ForkDecision::Join { join: nth },
                false => ForkDecision::Race(nth),
            };
            let value = Json::trusted(serde_json::to_string(&decided).unwrap_or_default());
            self.trunk.record(&mut race.operation, value).await?;
        }
        if nth < self.paths.len() {
            for (_, loser) in self.paths.iter().enumerate().filter(|(other, _)| *other != nth) {
                self.branch(loser).abandon().await?;
            }
        }
        Ok(())
    }
}

impl Drop for Fork {
    fn drop(&mut self) {
        self.end(&self.paths);
    }
}

/// A race between branches, decided or not.
pub struct Race {
    operation: Operation,
    /// The winner, if the race is decided.
    pub winner: Option<usize>,
    is_join: bool,
}

/// The entry of a race: the branch that won, or of a join the one that failed.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum ForkDecision {
    Race(usize),
    Join { join: usize },
}

impl ForkDecision {
    fn nth(&self) -> usize {
        match self {
            Self::Race(nth) | Self::Join { join: nth } => *nth,
        }
    }
}

/// Whether the entry of a race is that of a join.
pub(crate) fn is_join(value: &Json) -> bool {
    matches!(serde_json::from_str(value.as_str()), Ok(ForkDecision::Join { .. }))
}
