//! One message, echoed by a tool, a resource and a prompt.
//!
//! `echo [--listen ADDR | --stdio] [--data-dir DIR]`.

mod program;

use longhaul::{Prompt, ResourceTemplate, Server, Tool, schemars::JsonSchema};
use serde::Deserialize;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::new("echo", env!("CARGO_PKG_VERSION"))
        .tool(
            Tool::new("echo", async |args: Echo| format!("Tool echo: {}", args.message))
                .description("Echoes a message")
                .read_only(),
        )
        .template(
            ResourceTemplate::new("echo://{message}", async |args: Echo| {
                format!("Resource echo: {}", args.message)
            })
            .name("echo")
            .description("Echoes the message in its URI")
            .mime_type("text/plain"),
        )
        .prompt(
            Prompt::new("echo", async |args: Echo| {
                format!("Please process this message: {}", args.message)
            })
            .description("Asks the model to process a message"),
        );
    program::serve(server).await
}

/// Serves as the arguments of a tool, the variables of a URI template and the arguments of a prompt.
#[derive(Deserialize, JsonSchema)]
struct Echo {
    /// What to echo.
    message: String,
}
