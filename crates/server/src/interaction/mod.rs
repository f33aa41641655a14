//! What a legacy client hears of its tasks beside the answers to its requests.
//!
//! A session hears of a task on its push streams ([`push`]) and on the streams of its `tasks/result`. At any moment exactly one of
//! them carries what is said ([`push::carrier`]). Whichever it is, [`push::task_messages`] writes it: questions with
//! their withdrawals, progress, log messages. Questions are rows of the store, so all that is kept here can be lost, and is found
//! again when the next stream opens.

pub(crate) mod exchange;
pub(crate) mod input_requests;
pub(crate) mod notifications;
pub(crate) mod push;
pub(crate) mod resource_watch;
pub(crate) mod rounds;
pub(crate) mod subscription;

use crate::session::preferences::Wishes;
use input_requests::{client_tasks::Hosting, unanswered::Unanswered};
use push::carrier::Outlets;

/// What this node knows of the legacy sessions that it speaks to.
#[derive(Clone, Default)]
pub(crate) struct Sessions {
    /// Where they hear of their tasks.
    pub(crate) outlets: Outlets,
    /// The questions sent that they have not responded to.
    pub(crate) unanswered: Unanswered,
    /// The questions that they have made tasks of.
    pub(crate) hosting: Hosting,
    /// What they have asked to hear.
    pub(crate) wishes: Wishes,
}
