//! A journaled operation, from the lookup of its entry to the write of it.

use super::{Journal, JournalError, MAX_ENTRY_BYTES};
use longhaul_core::{EntryKey, Json};
use serde::de::DeserializeOwned;
use std::sync::Arc;

/// An entry to be written.
#[derive(Clone)]
pub(crate) struct EntryDraft {
    pub(crate) key: EntryKey,
    pub(crate) beside: bool,
    /// Its position, if it overwrites an entry.
    pub(crate) seq: Option<u32>,
    /// Whether this attempt has written it before. That is forward progress without a new entry, as when a poll polls a second time; the first
    /// write may only repeat what the attempt before it did.
    pub(crate) is_second_write: bool,
    /// Its value; for a question the writer fills it in.
    pub(crate) value: Json,
}

/// An operation that has begun. Dropping it ends it.
pub(crate) struct Operation {
    pub(super) journal: Arc<Journal>,
    pub(crate) key: EntryKey,
    /// Whether another operation of its branch was open when it began.
    pub(crate) beside: bool,
    /// The position and the value of its entry, if there is one.
    pub(crate) found: Option<(u32, Json)>,
    /// Whether this attempt has written it.
    pub(super) is_written: bool,
}

impl Operation {
    /// Whether it has an entry or can have one. Check this before an effect that only the entry keeps from happening again.
    ///
    /// # Errors
    /// [`JournalError::TooManyEntries`].
    pub(crate) fn has_room(&self) -> Result<(), JournalError> {
        match self.found {
            Some(_) => Ok(()),
            None => self.journal.has_room(self.journal.next(), &self.key),
        }
    }

    /// Notes that its entry was written.
    pub(crate) fn written(&mut self, seq: u32, value: Json) {
        self.found = Some((seq, value));
        self.is_written = true;
    }

    /// A draft of its entry.
    pub(crate) fn draft(&self, value: Json) -> Result<EntryDraft, JournalError> {
        let bytes = value.as_str().len();
        if bytes > MAX_ENTRY_BYTES {
            return Err(JournalError::TooLarge {
                asked: self.key.clone(),
                bytes,
            });
        }
        Ok(self.entry(value))
    }

    /// The same for a value that is known to be short.
    pub(crate) fn entry(&self, value: Json) -> EntryDraft {
        EntryDraft {
            key: self.key.clone(),
            beside: self.beside,
            seq: self.found.as_ref().map(|(seq, _)| *seq),
            is_second_write: self.is_written,
            value,
        }
    }

    /// Reads the value of its entry.
    pub(crate) fn read<T: DeserializeOwned>(&self, value: &Json) -> Result<T, JournalError> {
        self.read_with(value, |value| serde_json::from_str(value.as_str()))
    }

    /// Reads the value of its entry with `read`.
    pub(crate) fn read_with<T, E: std::fmt::Display>(
        &self,
        value: &Json,
        read: impl FnOnce(&Json) -> Result<T, E>,
    ) -> Result<T, JournalError> {
        read(value).map_err(|error| JournalError::Unreadable {
            asked: self.key.clone(),
            why: error.to_string(),
        })
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        if let Some(branch) = self.journal.state.lock().branches.get_mut(&self.key.path) {
            branch.open -= 1;
        }
    }
}
