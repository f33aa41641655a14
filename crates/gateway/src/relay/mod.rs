//! Requests and subscriptions that are passed on to upstreams.

pub(crate) mod requests;
pub(crate) mod subscriptions;
