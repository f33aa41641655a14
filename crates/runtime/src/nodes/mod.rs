//! What a node does because there are others: its lease, its permits, what it reads again, what it tells them.

pub(crate) mod lease;
pub(crate) mod permits;
pub(crate) mod resync;
mod server_messages;
