//! An rmcp handler behind Longhaul, and the replacement for rmcp's task manager.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking, also in their shared code")]

mod adapter;
mod crash;
mod process;
mod questions;
mod real_client;
mod task_manager;
mod test_handler;

use longhaul::{Era, ServerHandle, testing::Client};
use serde_json::json;
use std::sync::Arc;
use test_handler::{State, TestHandler};

pub(crate) const ERAS: [Era; 2] = [Era::Legacy, Era::Modern];

/// Starts a server with the test handler.
pub(crate) async fn start() -> (ServerHandle, Arc<State>) {
    let handler = TestHandler::default();
    let state = handler.state();
    let server = longhaul_rmcp::server(handler).await.unwrap().start().await.unwrap();
    (server, state)
}

/// Connects a client that answers every question, as Ann.
pub(crate) async fn connect(server: &ServerHandle, era: Era) -> Client {
    let answer = |question: &serde_json::Value| match question["method"].as_str() {
        Some("elicitation/create") => json!({"action": "accept", "content": {"name": "Ann"}}),
        Some("sampling/createMessage") => {
            json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": "4"}})
        }
        _ => json!({"roots": [{"uri": "file:///a"}, {"uri": "file:///b"}]}),
    };
    Client::connect(server, era).answering(answer).await.unwrap()
}
