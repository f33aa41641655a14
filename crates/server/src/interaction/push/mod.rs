//! What a legacy session is told of its tasks, and on which stream.

pub(crate) mod carrier;
pub(crate) mod session_stream;
mod status;
pub(crate) mod streams;
pub(crate) mod task_messages;
