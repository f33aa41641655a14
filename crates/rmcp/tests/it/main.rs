//! Handlers of rmcp's behind Longhaul, and its task manager over a store.

#![allow(
    clippy::unwrap_used,
    reason = "a test fails by panicking, also in what several tests share"
)]

mod crash;
mod desk;
mod kept;
mod process;
mod questions;
mod real_client;
mod served;

use longhaul::{Era, ServerHandle, testing::Client};
use serde_json::json;

pub(crate) const ERAS: [Era; 2] = [Era::Legacy, Era::Modern];

/// The desk behind Longhaul.
pub(crate) async fn desk() -> (ServerHandle, std::sync::Arc<desk::State>) {
    let desk = desk::Desk::default();
    let state = desk.state();
    let server = longhaul_rmcp::server(desk).await.unwrap().start().await.unwrap();
    (server, state)
}

/// A client that calls itself Ann.
pub(crate) async fn ann(server: &ServerHandle, era: Era) -> Client {
    let answered = |question: &serde_json::Value| match question["method"].as_str() {
        Some("elicitation/create") => json!({"action": "accept", "content": {"name": "Ann"}}),
        Some("sampling/createMessage") => {
            json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": "4"}})
        }
        _ => json!({"roots": [{"uri": "file:///a"}, {"uri": "file:///b"}]}),
    };
    Client::connect(server, era).answering(answered).await.unwrap()
}
