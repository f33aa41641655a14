//! The life of a `tools/call`: which calls become tasks, waiting for a plain call, promotion, hand-off, and what lasts from one request of a modern
//! client to its next.

pub(crate) mod between_rounds;
pub(crate) mod blocking;
pub(crate) mod follow_tools;
pub(crate) mod mirrored_headers;
pub(crate) mod policy;
