//! The public API, as an author uses it, seen by clients of both eras in memory.

#![allow(clippy::unwrap_used)]
#![allow(clippy::duplicate_mod, reason = "examples are programs, and share a module")]

mod changes;
mod compile_errors;
mod context;
mod crash;
mod definitions;
mod durable;
mod examples;
mod low_level;
mod methods;
mod operating;
mod outputs;
mod prompts;
mod questions;
mod resources;
mod serving;
mod tasks;
mod tools;
mod transport;

use longhaul::{Era, Server, ServerHandle, testing::Client};

const ERAS: [Era; 2] = [Era::Legacy, Era::Modern];

/// Starts a server.
async fn start(build: impl FnOnce(Server) -> Server) -> ServerHandle {
    build(Server::new("test", "1.0.0")).start().await.unwrap()
}

/// Connects a client that answers no questions.
async fn connect(server: &ServerHandle, era: Era) -> Client {
    Client::connect(server, era).await.unwrap()
}
