//! What clients and servers declare.

pub(crate) mod client;
pub(crate) mod server;
