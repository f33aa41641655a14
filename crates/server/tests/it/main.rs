//! The front over real sockets: a whole server on port 0, spoken to byte by byte.
#![allow(clippy::unwrap_used, missing_docs)]

mod client;
mod clock;
mod request;
mod server;
mod stage;

mod cancellation;
mod connection;
mod cors;
mod drain;
mod era;
mod fuzz;
mod handlers;
mod handoff;
mod hostile;
mod intake;
mod isolation;
mod legacy;
mod limit;
mod mirrored;
mod modern;
mod offers;
mod pair;
mod policy;
mod progress;
mod promotion;
mod push;
mod questions;
mod replies;
mod resource;
mod resume;
mod rounds;
mod session;
mod stdio;
mod subscriptions;
