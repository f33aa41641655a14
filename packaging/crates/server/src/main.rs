//! A server outside the repository: a handler of rmcp behind Longhaul, with a tool beside it.

use longhaul::Tool;
use rmcp::ServerHandler;
use std::error::Error;

struct Handler;

impl ServerHandler for Handler {}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // Panics if this program has a `reqwest` with TLS and without cryptography.
    reqwest::Client::new();
    let server = longhaul_rmcp::server(Handler).await?;
    Ok(server.tool(Tool::new("hello", async || "Hello!")).serve_stdio().await?)
}
