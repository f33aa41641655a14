//! Input requests to legacy clients.

pub(crate) mod client_tasks;
pub(crate) mod unanswered;
