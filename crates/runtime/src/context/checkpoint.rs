//! Checkpoints: what work outside of this process is found again by.

use super::{TaskContext, writer::Draft};
use crate::journal::{EntryDraft, JournalError};
use longhaul_core::{Entry, EntryKey, EntryKind, Json, MAX_ENTRY_BYTES};
use std::sync::Arc;

/// The position of the checkpoint among the entries of a task without a journal.
const POSITION: u32 = 1;

fn key() -> EntryKey {
    EntryKey {
        path: Arc::from(""),
        kind: EntryKind::Checkpoint,
        name: Arc::from(""),
        nth: 1,
    }
}

impl TaskContext {
    /// Stores what work outside of this process is found again by, such as the id of a job on another server, in place of what this attempt has stored
    /// before. When this completes it is on disk. If the process dies, the next one gets it in
    /// [`ExecutorAttempt::checkpoint`](crate::ExecutorAttempt::checkpoint) of [`Executor::resume`](crate::Executor::resume).
    ///
    /// A plain call in memory is written by its first checkpoint.
    ///
    /// # Errors
    /// [`JournalError::Journaled`] for a durable tool, whose results are in its journal: it uses a step. [`JournalError::TooLarge`] above [`MAX_ENTRY_BYTES`].
    /// [`JournalError::Task`] if the attempt has ended, or belongs to another node by now.
    pub async fn checkpoint(&self, value: Json) -> Result<(), JournalError> {
        if self.keeps_journal() {
            return Err(JournalError::Journaled);
        }
        let bytes = value.as_str().len();
        if bytes > MAX_ENTRY_BYTES {
            return Err(JournalError::TooLarge { asked: key(), bytes });
        }
        let draft = EntryDraft {
            key: key(),
            beside: false,
            seq: Some(POSITION),
            is_second_write: false,
            value,
        };
        self.write(Draft::Entry(draft)).await?;
        Ok(())
    }
}

/// The checkpoint that the attempt of this epoch has stored, if it has. One of an earlier attempt is that of other work.
pub(crate) fn of_attempt(entry: Entry, epoch: u32) -> Option<Json> {
    (entry.key.kind == EntryKind::Checkpoint && entry.epoch == epoch).then_some(entry.value)
}
