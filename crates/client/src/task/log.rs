//! The log of a task, and the other resources of a task.

use crate::{RequestError, TaskHandle};
use base64::{Engine, engine::general_purpose::STANDARD};
use longhaul_core::TaskId;
use longhaul_wire::{Method, TaskPart, TaskUri, meta};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::fmt::Display;

/// How much of a log is read at once, in bytes. A Longhaul server returns no more.
const MOST: u64 = 1024 * 1024;

#[derive(Deserialize)]
struct ReadResourceResult {
    contents: Vec<Content>,
}

#[derive(Deserialize)]
pub(super) struct Content {
    text: Option<String>,
    blob: Option<String>,
    #[serde(rename = "_meta", default)]
    pub(super) meta: Map<String, Value>,
}

/// A part of a task's log.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogChunk {
    /// What the task's command has written, both outputs in order of arrival.
    pub bytes: Vec<u8>,
    /// Where the next part begins, in bytes of the whole log.
    pub next: u64,
    /// How long the log is now, in bytes. It is shorter than before if the command was started again.
    pub total: u64,
}

/// What a Longhaul server says about a part of a log.
#[derive(Deserialize)]
struct Page {
    next: u64,
    total: u64,
}

impl TaskHandle {
    /// The part of the task's log that begins at byte `from`, as much as the server returns at once (a Longhaul server: 1 MiB); without `from`, its end (64 KiB). It is
    /// the log of the latest attempt, or of another `attempt`, by number. To read all of a log, or to follow it, read on at [`LogChunk::next`]. Only Longhaul servers have
    /// logs, as resources ([`TaskUri`]).
    ///
    /// # Errors
    /// [`RequestError::InvalidTaskId`], without a request, when the id is not from a Longhaul server; [`RequestError::Rpc`] when the task has
    /// no log; otherwise any [`RequestError`].
    pub async fn read_log(&self, attempt: Option<u32>, from: Option<u64>) -> Result<LogChunk, RequestError> {
        let uri = TaskUri {
            attempt,
            from,
            limit: from.map(|_| MOST),
            ..TaskUri::of(self.task_id()?, TaskPart::Log)
        };
        let contents = self.read_contents(&uri).await?;
        let page = contents.last().and_then(|content| content.meta.get(meta::LOG_PAGE));
        let page = page.ok_or_else(|| RequestError::Invalid("its log does not say where it ends".to_owned()))?;
        let Page { next, total } = Page::deserialize(page).map_err(|error| invalid(TaskPart::Log, &error))?;
        let bytes = bytes(TaskPart::Log, contents)?;
        Ok(LogChunk { bytes, next, total })
    }

    /// Reads a part of the task, beginning at `from`.
    pub(crate) async fn read(&self, part: TaskPart, from: Option<u64>) -> Result<Vec<u8>, RequestError> {
        let uri = TaskUri {
            from,
            ..TaskUri::of(self.task_id()?, part)
        };
        let contents = self.read_contents(&uri).await?;
        bytes(part, contents)
    }

    /// The id, if it can be one of a Longhaul server.
    pub(super) fn task_id(&self) -> Result<TaskId, RequestError> {
        self.id().parse().map_err(|_| RequestError::InvalidTaskId)
    }

    pub(super) async fn read_contents(&self, uri: &TaskUri) -> Result<Vec<Content>, RequestError> {
        let params = Map::from_iter([("uri".to_owned(), Value::from(uri.to_string()))]);
        let read = self.connection().request(Method::ResourcesRead, params).await?;
        let read: ReadResourceResult =
            serde_json::from_str(read.as_str()).map_err(|error| invalid(uri.part, &error))?;
        Ok(read.contents)
    }
}

pub(super) fn bytes(part: TaskPart, contents: Vec<Content>) -> Result<Vec<u8>, RequestError> {
    let mut bytes = Vec::new();
    for content in contents {
        match (content.text, content.blob) {
            (Some(text), _) => bytes.extend_from_slice(text.as_bytes()),
            (None, Some(blob)) => bytes.extend(STANDARD.decode(blob).map_err(|error| invalid(part, &error))?),
            (None, None) => {}
        }
    }
    Ok(bytes)
}

pub(super) fn invalid(part: TaskPart, reason: &impl Display) -> RequestError {
    RequestError::Invalid(format!("its {}: {reason}", part.name()))
}
