//! What happens on the way to a result.

use crate::{RequestError, TaskSnapshot};
use longhaul_core::Millis;

/// Something that happened while a call or a task was waited for.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// The tool reported progress on the stream of a call that is no task.
    Progress(Progress),
    /// The task was read, and what it shows differs from before.
    Status(&'a TaskSnapshot),
    /// The server did not answer; it will be asked again.
    Trouble {
        /// What went wrong.
        error: &'a RequestError,
        /// How often in a row, from 1.
        attempt: u32,
        /// Milliseconds until it is asked again.
        retry_in: Millis,
    },
    /// The server answers again, after [`Trouble`](Self::Trouble).
    Recovered,
}

/// How far a tool is.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// Only ever grows; in the tool's own unit.
    pub progress: f64,
    /// What `progress` will be at the end, if the tool knows.
    pub total: Option<f64>,
    /// In the tool's words.
    pub message: Option<String>,
}

/// Hears of events as they happen. It should return at once: the connection waits for it.
pub type Observer<'a> = &'a mut (dyn FnMut(Event<'_>) + Send);
