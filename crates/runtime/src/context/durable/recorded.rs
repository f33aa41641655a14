//! Values that are recorded when they are first needed: the time, random bytes, the version of the code. And the task's output.

use crate::{
    context::TaskContext,
    journal::{JournalError, MAX_ENTRY_BYTES},
};
use longhaul_core::{EntryKind, Json, UnixMillis};
use std::sync::Arc;

impl TaskContext {
    /// The system's clock when this was first reached.
    ///
    /// # Errors
    /// [`JournalError`].
    pub async fn draw_now(&self) -> Result<UnixMillis, JournalError> {
        let make = || Json::trusted(self.wall().0.to_string());
        Ok(UnixMillis(self.recorded(EntryKind::Now, "", make).await?))
    }

    /// Random bytes, the same in each replay.
    ///
    /// # Errors
    /// [`JournalError`].
    pub async fn draw_random<const N: usize>(&self) -> Result<[u8; N], JournalError> {
        let make = || {
            let mut bytes = [0; N];
            self.ports().entropy.fill(&mut bytes);
            Json::from(serde_json::Value::from(bytes.as_slice()))
        };
        let bytes: Vec<u8> = self.recorded(EntryKind::Random, "", make).await?;
        let mut drawn = [0; N];
        for (to, from) in drawn.iter_mut().zip(bytes) {
            *to = from;
        }
        Ok(drawn)
    }

    /// Whether the task runs the change of its code called `name`: not if it had passed this point before the change was deployed. Decided
    /// when this is first reached in a branch, for the whole branch.
    ///
    /// # Errors
    /// [`JournalError`].
    pub async fn version(&self, name: &str) -> Result<bool, JournalError> {
        let journal = self.shared.journal.as_ref().ok_or(JournalError::None)?;
        if let Some(decided) = journal.version(&self.path, name) {
            return Ok(decided);
        }
        let is_new = self
            .recorded(EntryKind::Version, name, || Json::trusted("true"))
            .await?;
        journal.decide_version(&self.path, name, is_new);
        Ok(is_new)
    }

    /// Appends to the task's output, once for all replays.
    ///
    /// # Errors
    /// [`JournalError`].
    pub async fn emit(&self, content: Json) -> Result<(), JournalError> {
        let bytes = content.as_str().len();
        if bytes > MAX_ENTRY_BYTES {
            // Checked before the operation begins, since it will never have an entry.
            return Err(JournalError::OutputTooLarge { bytes });
        }
        let _: serde::de::IgnoredAny = self.recorded(EntryKind::Emit, "", || content).await?;
        Ok(())
    }

    /// The recorded value, or a new one from `make`.
    async fn recorded<T: serde::de::DeserializeOwned>(
        &self,
        kind: EntryKind,
        name: &str,
        make: impl FnOnce() -> Json,
    ) -> Result<T, JournalError> {
        let mut operation = self.begin(kind, &Arc::from(name))?;
        if let Some((_, value)) = &operation.found {
            return operation.read(value);
        }
        let value = make();
        self.record(&mut operation, value.clone()).await?;
        operation.read(&value)
    }
}
