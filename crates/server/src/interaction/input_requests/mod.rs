//! Input requests to legacy clients, and their answers. Those of tasks and plain calls are rows of the store,
//! so all that is kept here can be lost.

mod check;
pub(crate) mod client_tasks;
pub(crate) mod hosted_questions;
pub(crate) mod response;
pub(crate) mod unanswered;

pub(crate) use check::check;

use hosted_questions::HostedQuestions;
use unanswered::UnansweredRequests;

/// The input requests that this process has sent to legacy clients.
#[derive(Default)]
pub(crate) struct InputRequests {
    /// Those that their clients have not responded to.
    pub(crate) unanswered: UnansweredRequests,
    /// Those that their clients work on as tasks of their own.
    pub(crate) hosted_questions: HostedQuestions,
}
