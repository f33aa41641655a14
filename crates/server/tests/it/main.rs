//! The front over real sockets: a whole server on port 0, spoken to byte by byte.
#![allow(clippy::unwrap_used, missing_docs)]

mod client;
mod request;
mod schema;
mod server;
mod stage;

mod cancellation;
mod connection;
mod drain;
mod era;
mod hostile;
mod isolation;
mod legacy;
mod limit;
mod modern;
mod policy;
mod progress;
mod promotion;
mod resource;
mod session;
