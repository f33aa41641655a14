//! Requests and subscriptions that are passed on to upstreams.

mod own_entries;
mod relayed_request;
pub(crate) mod requests;
pub(crate) mod subscriptions;
