//! The log of a task, and the other resources of a task.

use crate::{RequestError, TaskHandle};
use base64::{Engine, engine::general_purpose::STANDARD};
use longhaul_core::TaskId;
use longhaul_wire::{Method, TaskPart, TaskUri};
use serde::Deserialize;
use serde_json::{Map, Value};

#[derive(Deserialize)]
struct Read {
    contents: Vec<Content>,
}

#[derive(Deserialize)]
struct Content {
    text: Option<String>,
    blob: Option<String>,
}

impl TaskHandle {
    /// The end of the task's log, as much as the server returns at once (a Longhaul server: 64 KiB). Only Longhaul servers have
    /// logs, as resources ([`TaskUri`]).
    ///
    /// # Errors
    /// [`RequestError::InvalidTaskId`], without a request, when the id is not from a Longhaul server; [`RequestError::Rpc`] when the task has
    /// no log; otherwise any [`RequestError`].
    pub async fn log(&self) -> Result<Vec<u8>, RequestError> {
        self.read(TaskPart::Log, None).await
    }

    /// Reads a part of the task, beginning at `from`.
    pub(crate) async fn read(&self, part: TaskPart, from: Option<u64>) -> Result<Vec<u8>, RequestError> {
        let id: TaskId = self.id().parse().map_err(|_| RequestError::InvalidTaskId)?;
        let uri = TaskUri {
            from,
            ..TaskUri::of(id, part)
        };
        let params = Map::from_iter([("uri".to_owned(), Value::from(uri.to_string()))]);
        let read = self.connection().request(Method::ResourcesRead, params).await?;
        let invalid = |reason: String| RequestError::Invalid(format!("its {}: {reason}", part.name()));
        let read: Read = serde_json::from_str(read.as_str()).map_err(|error| invalid(error.to_string()))?;
        let mut bytes = Vec::new();
        for content in read.contents {
            match (content.text, content.blob) {
                (Some(text), _) => bytes.extend_from_slice(text.as_bytes()),
                (None, Some(blob)) => bytes.extend(STANDARD.decode(blob).map_err(|error| invalid(error.to_string()))?),
                (None, None) => {}
            }
        }
        Ok(bytes)
    }
}
