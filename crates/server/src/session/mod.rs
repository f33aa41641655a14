//! What the server knows of legacy sessions.

pub(crate) mod in_flight;
pub(crate) mod preferences;
pub(crate) mod replies;
mod session_id;

pub(crate) use session_id::Session;
