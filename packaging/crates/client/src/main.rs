//! A client outside the repository: starts the server that its first argument names, and calls its tool.

use longhaul_client::{ChildOptions, ChildProcess, Client, Connection, Options};
use serde_json::json;
use std::{env, error::Error};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // Panics if this program has a `reqwest` with TLS and without cryptography.
    reqwest::Client::new();
    let _over_tls = Connection::lazy("https://127.0.0.1:1/mcp", options())?;
    let program = env::args().nth(1).ok_or("name the program of the server")?;
    let server = ChildProcess::new(ChildOptions::new(program, [] as [&str; 0]));
    let outcome = Client::new(Connection::over(server, options()))
        .call("hello", json!({}))
        .await?;
    println!("{}", outcome.text());
    Ok(())
}

fn options() -> Options {
    Options::named("outside", "1.0.0")
}
