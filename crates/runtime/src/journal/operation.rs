//! An operation of the code, from the lookup of its entry to the write of it.

use super::{Journal, JournalError, MAX_ENTRY_BYTES};
use longhaul_core::{EntryKey, Json};
use serde::de::DeserializeOwned;
use std::sync::Arc;

/// An entry to be written.
#[derive(Clone)]
pub(crate) struct EntryDraft {
    pub(crate) key: EntryKey,
    pub(crate) beside: bool,
    /// Where it stands already.
    pub(crate) seq: Option<u32>,
    /// Whether this attempt has written it before. The first time it may only have come to where the one before it ended; the second time
    /// it has come further, though to no new place: so does a poll at each of its looks.
    pub(crate) again: bool,
    /// What it says, of a question's entry without the key.
    pub(crate) value: Json,
}

/// A place in the code that was begun. Dropping it settles it.
pub(crate) struct Operation {
    pub(super) journal: Arc<Journal>,
    pub(crate) key: EntryKey,
    /// Whether something else in its branch was open when it was begun.
    pub(crate) beside: bool,
    /// Where it stands in the journal, and what it came to, if it has been written.
    pub(crate) found: Option<(u32, Json)>,
    /// Whether this attempt has written it.
    pub(super) is_written: bool,
}

impl Operation {
    /// Whether it has its entry or can have one: to be asked before anything is done that only an entry keeps from being done again.
    ///
    /// # Errors
    /// [`JournalError::TooManyEntries`].
    pub(crate) fn has_room(&self) -> Result<(), JournalError> {
        match self.found {
            Some(_) => Ok(()),
            None => self.journal.has_room(self.journal.next(), &self.key),
        }
    }

    /// Notes that it has been written.
    pub(crate) fn written(&mut self, seq: u32, value: Json) {
        self.found = Some((seq, value));
        self.is_written = true;
    }

    /// What is to be written here.
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

    /// The same, of a value that is known to be short.
    pub(crate) fn entry(&self, value: Json) -> EntryDraft {
        EntryDraft {
            key: self.key.clone(),
            beside: self.beside,
            seq: self.found.as_ref().map(|(seq, _)| *seq),
            again: self.is_written,
            value,
        }
    }

    /// Reads what was written here.
    pub(crate) fn read<T: DeserializeOwned>(&self, value: &Json) -> Result<T, JournalError> {
        self.read_with(value, |value| serde_json::from_str(value.as_str()))
    }

    /// Reads what was written here in a layout of its own.
    pub(crate) fn read_with<T, E: std::fmt::Display>(
        &self,
        value: &Json,
        read: impl FnOnce(&Json) -> Result<T, E>,
    ) -> Result<T, JournalError> {
        read(value).map_err(|error| JournalError::Garbled {
            asked: self.key.clone(),
            why: error.to_string(),
        })
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        if let Some(branch) = self.journal.lock().branches.get_mut(&self.key.path) {
            branch.open -= 1;
        }
    }
}
