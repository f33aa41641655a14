//! What servers ask, and how the user answers.

pub(crate) mod answer_check;
pub(crate) mod asking;
pub(crate) mod recorded;
pub(crate) mod required_visits;
pub(crate) mod rounds;
pub(crate) mod serving;
pub(crate) mod task_questions;
