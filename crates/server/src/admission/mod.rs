//! Who sends a message, and whether there is room for it.

pub(crate) mod caller;
pub(crate) mod connection_count;
pub(crate) mod limits;
