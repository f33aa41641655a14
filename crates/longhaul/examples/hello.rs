//! The whole of a server: a typed tool over HTTP, whose tasks and results are kept. `cargo run -p longhaul --example hello`, then connect to
//! `http://127.0.0.1:8080/mcp`.

use longhaul::{Server, TaskContext, Tool, ToolResult, schemars::JsonSchema};

/// Renders a scene.
#[derive(serde::Deserialize, JsonSchema)]
struct Render {
    /// Which scene.
    scene: String,
}

async fn render(cx: TaskContext, args: Render) -> ToolResult<String> {
    for frame in 1..=240 {
        cx.progress(frame, 240).await?; // ends here if the call is cancelled
    }
    Ok(format!("{} is rendered", args.scene))
}

#[tokio::main]
async fn main() -> Result<(), longhaul::ServeError> {
    let server = Server::new("studio", "1.0.0").tool(Tool::new("render", render));
    server.data_dir("studio-data").serve_http("127.0.0.1:8080").await
}
