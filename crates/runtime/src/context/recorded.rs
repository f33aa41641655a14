//! What is drawn once and stays: time, randomness, the winner of a race, the version of the code. And what is given out on the way.

use super::TaskContext;
use crate::journal::{JournalError, MAX_ENTRY_BYTES};
use longhaul_core::{EntryKind, Json, UnixMillis};
use std::sync::Arc;

impl TaskContext {
    /// What the world's clock said when this was first reached.
    ///
    /// # Errors
    /// [`JournalError`].
    pub async fn draw_now(&self) -> Result<UnixMillis, JournalError> {
        let draw = || Json::trusted(self.wall().0.to_string());
        Ok(UnixMillis(self.draw(EntryKind::Now, "", draw).await?))
    }

    /// Random bytes, the same each time this is reached.
    ///
    /// # Errors
    /// [`JournalError`].
    pub async fn draw_random<const N: usize>(&self) -> Result<[u8; N], JournalError> {
        let draw = || {
            let mut bytes = [0; N];
            self.ports().entropy.fill(&mut bytes);
            Json::from(serde_json::Value::from(bytes.as_slice()))
        };
        let bytes: Vec<u8> = self.draw(EntryKind::Random, "", draw).await?;
        let mut drawn = [0; N];
        for (to, from) in drawn.iter_mut().zip(bytes) {
            *to = from;
        }
        Ok(drawn)
    }

    /// Whether the task runs the code that was written under `name`: true for every task that had not passed this point when that code
    /// came, and false for those that had. Decided when this is first reached in a branch, for all of the branch.
    ///
    /// # Errors
    /// [`JournalError`].
    pub async fn version(&self, name: &str) -> Result<bool, JournalError> {
        let journal = self.shared.journal.as_ref().ok_or(JournalError::None)?;
        if let Some(decided) = journal.version(&self.path, name) {
            return Ok(decided);
        }
        let is_new = self.draw(EntryKind::Version, name, || Json::trusted("true")).await?;
        journal.decide_version(&self.path, name, is_new);
        Ok(is_new)
    }

    /// Appends to the task's output. Once, however often the code is run.
    ///
    /// # Errors
    /// [`JournalError`].
    pub async fn emit(&self, content: Json) -> Result<(), JournalError> {
        let bytes = content.as_str().len();
        if bytes > MAX_ENTRY_BYTES {
            // Before it has a place, since it will never have an entry.
            return Err(JournalError::TooMuch { bytes });
        }
        let _: serde::de::IgnoredAny = self.draw(EntryKind::Emit, "", || content).await?;
        Ok(())
    }

    /// What was drawn before, or is now.
    async fn draw<T: serde::de::DeserializeOwned>(
        &self,
        kind: EntryKind,
        name: &str,
        draw: impl FnOnce() -> Json,
    ) -> Result<T, JournalError> {
        let mut place = self.begin(kind, &Arc::from(name))?;
        if let Some((_, value)) = &place.found {
            return place.read(value);
        }
        let value = draw();
        self.settle(&mut place, value.clone()).await?;
        place.read(&value)
    }
}
