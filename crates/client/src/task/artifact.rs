//! The files that a task has left.

use super::log::{bytes, invalid};
use crate::{RequestError, TaskHandle};
use longhaul_wire::{TaskPart, TaskUri, meta};
use serde::{Deserialize, Serialize};

/// A file that a task has left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Artifact {
    /// Its name, which may have slashes in it. It comes from the server: do not write to a file of this name unchecked.
    pub name: String,
    /// Its length in bytes.
    pub size: u64,
    /// Its media type.
    pub mime_type: String,
    /// The SHA-256 of its content, in hexadecimal digits.
    pub sha256: String,
    /// The resource that it is.
    pub uri: String,
}

/// The files that a task has left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ArtifactList {
    /// The files.
    pub artifacts: Vec<Artifact>,
    /// What was left out, and why.
    #[serde(default)]
    pub problems: Vec<String>,
    /// What helps to find out why a file is not there.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// A part of a file that a task has left.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ArtifactChunk {
    /// The part.
    pub bytes: Vec<u8>,
    /// Where the next part begins.
    pub next: u64,
    /// How long the file is, in bytes.
    pub total: u64,
    /// The SHA-256 of the whole file, in hexadecimal digits.
    pub sha256: String,
}

/// What a Longhaul server says about a part of an artifact.
#[derive(Deserialize)]
struct Page {
    next: u64,
    total: u64,
    sha256: String,
}

impl TaskHandle {
    /// The files that the task's command has left, of the latest attempt or of another `attempt`, by number. Only Longhaul servers have them.
    ///
    /// # Errors
    /// As [`read_log`](Self::read_log).
    pub async fn artifacts(&self, attempt: Option<u32>) -> Result<ArtifactList, RequestError> {
        let uri = TaskUri {
            attempt,
            ..TaskUri::of(self.task_id()?, TaskPart::Artifacts)
        };
        let contents = self.read_contents(&uri).await?;
        let read = bytes(TaskPart::Artifacts, contents)?;
        serde_json::from_slice(&read).map_err(|error| invalid(TaskPart::Artifacts, &error))
    }

    /// The part of a file that begins at byte `from`, as much as the server returns at once (a Longhaul server: 1 MiB). To read all of it, read on at
    /// [`ArtifactChunk::next`] until that is the total, and compare the SHA-256.
    ///
    /// # Errors
    /// As [`read_log`](Self::read_log).
    pub async fn read_artifact(
        &self,
        name: &str,
        attempt: Option<u32>,
        from: u64,
    ) -> Result<ArtifactChunk, RequestError> {
        let uri = TaskUri {
            artifact: Some(name.to_owned()),
            attempt,
            from: Some(from),
            ..TaskUri::of(self.task_id()?, TaskPart::Artifacts)
        };
        let contents = self.read_contents(&uri).await?;
        let page = contents.last().and_then(|content| content.meta.get(meta::ARTIFACT));
        let page = page.ok_or_else(|| RequestError::Invalid("its file does not say where it ends".to_owned()))?;
        let Page { next, total, sha256 } =
            Page::deserialize(page).map_err(|error| invalid(TaskPart::Artifacts, &error))?;
        let bytes = bytes(TaskPart::Artifacts, contents)?;
        Ok(ArtifactChunk {
            bytes,
            next,
            total,
            sha256,
        })
    }
}
