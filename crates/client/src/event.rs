//! Events while waiting for a result.

use crate::{JournalError, RequestError, TaskSnapshot, stream_losses::StreamChange};
use longhaul_core::{Json, Millis};
use longhaul_wire::{Method, jsonrpc::Notification};
use serde::Deserialize;

/// An event while a call or a task is waited for.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// The tool reported progress on the stream of a plain call.
    Progress(Progress),
    /// A legacy server reported progress of the task on some stream. [`Status`](Self::Status) may say the same in words.
    TaskProgress(Progress),
    /// The task has changed since it was last read.
    Status(&'a TaskSnapshot),
    /// A request failed and will be retried.
    Retrying {
        /// Why it failed.
        error: &'a RequestError,
        /// The number of failures in a row, from 1.
        attempt: u32,
        /// Milliseconds until the retry.
        retry_in: Millis,
    },
    /// A request succeeded after [`Retrying`](Self::Retrying).
    Recovered,
    /// A stream on which the server pushes, or on which it answers this call, was lost, and is being opened again. Told once for each loss. What was missed
    /// meanwhile is read again.
    StreamLost {
        /// Why.
        reason: &'a str,
    },
    /// A stream is open again after [`StreamLost`](Self::StreamLost).
    StreamReopened,
    /// The server refused an answer to a question of the task. The question is put to the handler again if it is still open, at most twice.
    AnswerRefused {
        /// Why.
        error: &'a RequestError,
    },
    /// The task of a recorded call could not be recorded, so no other process knows it.
    NotRecorded {
        /// Why.
        error: &'a JournalError,
    },
}

/// The progress of a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// The progress so far, in the tool's own unit. MCP requires servers to increase it each time; this is not checked here.
    pub progress: f64,
    /// The value of `progress` at the end, if known.
    pub total: Option<f64>,
    /// The tool's message.
    pub message: Option<String>,
    /// All of it, as the server wrote it.
    pub params: Json,
}

impl Progress {
    /// What a notification reports, if it reports progress.
    pub(crate) fn read(notification: &Notification<'_>) -> Option<Self> {
        #[derive(Deserialize)]
        struct Params {
            progress: f64,
            total: Option<f64>,
            message: Option<String>,
        }
        if notification.method != Method::Progress.as_str() {
            return None;
        }
        let Params {
            progress,
            total,
            message,
        } = serde_json::from_str(notification.raw_params()?.get()).ok()?;
        Some(Self {
            progress,
            total,
            message,
            params: Json::from(notification.raw_params()?),
        })
    }
}

impl StreamChange {
    /// Tells it as an event.
    pub(crate) fn report(&self, on_event: Observer<'_>) {
        on_event(match self {
            Self::Lost(reason) => Event::StreamLost { reason },
            Self::Reopened => Event::StreamReopened,
        });
    }
}

/// Receives events as they happen. It should return quickly, since the connection waits for it.
pub type Observer<'a> = &'a mut (dyn FnMut(Event<'_>) + Send);
