//! Clients, servers and hosts of others against ours.

pub(crate) mod conformance;
pub(crate) mod hosts;
pub(crate) mod interop;
pub(crate) mod node;
