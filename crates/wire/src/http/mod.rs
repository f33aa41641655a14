//! Headers that repeat parts of a message, and server-sent events.

pub mod header;
pub(crate) mod param_header;
pub mod sse;
