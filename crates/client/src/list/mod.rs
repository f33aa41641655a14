//! Lists of a server, subscriptions to them, and changes.

pub(crate) mod listing;
pub(crate) mod subscription;
pub(crate) mod tool_listing;
pub(crate) mod watch;
