//! Input requests to legacy clients, and their answers.

mod check;
pub(crate) mod client_tasks;
pub(crate) mod desk;
pub(crate) mod response;

pub(crate) use check::check;
