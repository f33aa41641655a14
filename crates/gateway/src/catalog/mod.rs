//! What the gateway offers of its upstreams, to all and to single clients.

pub(crate) mod claims;
pub(crate) mod client_catalog;
pub(crate) mod instructions;
pub(crate) mod offering;
pub(crate) mod provider;
pub(crate) mod tools;
pub(crate) mod unavailable;
