//! Events while waiting for a result.

use crate::{JournalError, Progress, RequestError, TaskSnapshot, transport::stream_losses::StreamChange};
use longhaul_core::Millis;

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
