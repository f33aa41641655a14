//! How a call stands.

use crate::{Progress, TaskSnapshot};
use longhaul_core::Millis;
use std::sync::Arc;

/// How a call stands.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum CallStatus {
    /// It was sent, and the server has not answered. With the progress that the tool has reported so far.
    Sent(Option<Progress>),
    /// The server has made it a task. What it asks, in either era, is in [`TaskSnapshot::input_requests`], without what this user has answered: each key is shown
    /// until its answer was taken.
    Task(Arc<TaskSnapshot>),
    /// A request failed and will be sent again. Once one has succeeded, the next status is how the call stood before, or stands now.
    Retrying {
        /// Why, for people.
        reason: String,
        /// Milliseconds until then.
        retry_in: Millis,
    },
}
