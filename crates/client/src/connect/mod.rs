//! One connection to a server: the era, requests and responses, sessions, cancellation.

pub(crate) mod cancellation;
pub(crate) mod client_changes;
pub(crate) mod connection;
pub(crate) mod era;
pub(crate) mod legacy;
pub(crate) mod listening;
pub(crate) mod probe;
pub(crate) mod push_stream;
pub(crate) mod request;
pub(crate) mod response;
pub(crate) mod session_check;
pub(crate) mod stale_era;
pub(crate) mod task_pushes;
pub(crate) mod warm_session;
