//! The methods that only revision 2026-07-28 has.

pub(crate) mod server_discover;
pub(crate) mod subscriptions_listen;
pub(crate) mod tasks_update;
