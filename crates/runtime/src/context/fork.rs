//! Branches of a task's code that run concurrently, and races between them.

use super::TaskContext;
use crate::journal::{JournalError, Operation};
use longhaul_core::{EntryKind, Json};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

impl TaskContext {
    /// Forks into `count` branches, none of which has begun.
    ///
    /// # Errors
    /// [`JournalError::None`], [`JournalError::Forked`].
    pub fn fork(&self, count: usize) -> Result<Fork, JournalError> {
        let journal = self.shared.journal.as_ref().ok_or(JournalError::None)?;
        self.is_its_own()?;
        Ok(Fork {
            trunk: self.clone(),
            paths: journal.fork(&self.path, count),
        })
    }
}

/// Branches of the code that run beside each other; made by [`TaskContext::fork`]. The branch that has forked waits for all that have
/// begun until they are over, or this is dropped.
pub struct Fork {
    trunk: TaskContext,
    paths: Vec<Arc<str>>,
}

impl Fork {
    /// Begins a branch; `None` if there is none of this number. To be called once for each, and before another's [`over`](Self::over)
    /// which it takes the place of.
    pub fn begin(&self, nth: usize) -> Option<TaskContext> {
        let path = self.paths.get(nth)?;
        let change = self.trunk.shared.activity.fork(&self.trunk.path, path);
        self.trunk.turned(change);
        Some(self.branch(path))
    }

    /// Says that a branch has come to its end: it is not waited for any more.
    pub fn over(&self, nth: usize) {
        if let Some(path) = self.paths.get(nth) {
            self.end(std::slice::from_ref(path));
        }
    }

    fn end(&self, paths: &[Arc<str>]) {
        let change = self.trunk.shared.activity.over(&self.trunk.path, paths);
        self.trunk.turned(change);
    }

    fn branch(&self, path: &Arc<str>) -> TaskContext {
        TaskContext {
            shared: Arc::clone(&self.trunk.shared),
            path: Arc::clone(path),
        }
    }

    /// Which branch won, if that was decided before.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn winner(&self) -> Result<Race, JournalError> {
        let place = self.trunk.begin(EntryKind::Select, &Arc::from(""))?;
        let winner = match &place.found {
            Some((_, value)) => Some(place.read::<Decided>(value)?.nth()),
            None => None,
        };
        Ok(Race {
            place,
            winner,
            is_join: false,
        })
    }

    /// As [`winner`](Self::winner), for branches that are all waited for unless one fails: the history calls it a join.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn first_failed(&self) -> Result<Race, JournalError> {
        let race = self.winner()?;
        Ok(Race { is_join: true, ..race })
    }

    /// Writes down that branch `nth` won, and gives up what the others wait for: their questions are withdrawn, their children cancelled.
    /// A number beyond the branches says that none did, and nothing is given up.
    ///
    /// Their futures are to be dropped after this, not before: what they give up while nothing is decided yet could win the race in the
    /// next attempt.
    ///
    /// # Errors
    /// [`JournalError`].
    pub async fn decide(&self, mut race: Race, nth: usize) -> Result<(), JournalError> {
        if race.winner.is_none() {
            let decided = match race.is_join {
                true => Decided::Join { join: nth },
                false => Decided::Race(nth),
            };
            let value = Json::trusted(serde_json::to_string(&decided).unwrap_or_default());
            self.trunk.settle(&mut race.place, value).await?;
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

/// A race of branches, decided or not.
pub struct Race {
    place: Operation,
    /// Who won, if it is decided.
    pub winner: Option<usize>,
    is_join: bool,
}

/// What the entry of a race says: which branch won, or which of a join has failed.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Decided {
    Race(usize),
    Join { join: usize },
}

impl Decided {
    fn nth(&self) -> usize {
        match self {
            Self::Race(nth) | Self::Join { join: nth } => *nth,
        }
    }
}

/// Whether the entry of a race is that of a join.
pub(crate) fn is_join(value: &Json) -> bool {
    matches!(serde_json::from_str(value.as_str()), Ok(Decided::Join { .. }))
}
