//! An ordinary rmcp server behind Longhaul: `served (--listen ADDR | --stdio) [--data-dir DIR]`.
//!
//! `Studio` is written for rmcp alone; only `main` uses Longhaul.

use longhaul::time::seconds;
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    handler::server::wrapper::Parameters,
    model::{
        CallToolResult, ContentBlock, Implementation, ProgressNotificationParam, ServerCapabilities, ServerConfig,
    },
    schemars::JsonSchema,
    service::RequestContext,
    tool, tool_handler, tool_router,
};
use serde::{Deserialize, Serialize};
use std::{error::Error, time::Duration};

#[derive(Clone)]
struct Studio;

#[derive(Deserialize, JsonSchema)]
struct Render {
    /// How many frames.
    frames: u32,
    /// How long each takes, in milliseconds.
    millis: u64,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Approval {
    /// Whether to publish it.
    approved: bool,
}
rmcp::elicit_safe!(Approval);

#[tool_router]
impl Studio {
    #[tool(description = "Says hello", annotations(read_only_hint = true))]
    async fn greet(&self) -> String {
        "Hello!".to_owned()
    }

    #[tool(description = "Renders a scene, frame by frame")]
    async fn render(
        &self,
        Parameters(Render { frames, millis }): Parameters<Render>,
        cx: RequestContext<RoleServer>,
    ) -> Result<CallToolResult, ErrorData> {
        render(frames, millis, &cx).await
    }

    #[tool(
        description = "Renders a scene into the same file each time",
        annotations(idempotent_hint = true)
    )]
    async fn render_again(
        &self,
        Parameters(Render { frames, millis }): Parameters<Render>,
        cx: RequestContext<RoleServer>,
    ) -> Result<CallToolResult, ErrorData> {
        render(frames, millis, &cx).await
    }

    #[tool(description = "Publishes a scene if the user approves")]
    async fn publish(&self, cx: RequestContext<RoleServer>) -> Result<String, ErrorData> {
        match cx.peer.elicit::<Approval>("Publish it?").await {
            Ok(Some(Approval { approved: true })) => Ok("published".to_owned()),
            Ok(_) => Ok("not published".to_owned()),
            Err(error) => Err(ErrorData::internal_error(error.to_string(), None)),
        }
    }
}

async fn render(frames: u32, millis: u64, cx: &RequestContext<RoleServer>) -> Result<CallToolResult, ErrorData> {
    for frame in 1..=frames {
        tokio::select! {
            () = frame_rendered(millis) => {}
            () = cx.ct.cancelled() => return Err(ErrorData::internal_error("cancelled", None)),
        }
        if let Some(token) = cx.meta.get_progress_token() {
            let progress = ProgressNotificationParam::new(token, f64::from(frame)).with_total(f64::from(frames));
            let _ = cx.peer.notify_progress(progress).await;
        }
    }
    Ok(CallToolResult::success(vec![ContentBlock::text(format!(
        "{frames} frames"
    ))]))
}

#[expect(clippy::disallowed_methods, reason = "simulates work, and rmcp has no clock port")]
async fn frame_rendered(millis: u64) {
    tokio::time::sleep(Duration::from_millis(millis)).await;
}

#[tool_handler]
impl ServerHandler for Studio {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("studio", "1.0.0"))
            .with_instructions("Renders scenes.")
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut listen = Some("127.0.0.1:0".to_owned());
    let mut data_dir = None;
    let mut arguments = std::env::args().skip(1);
    while let Some(flag) = arguments.next() {
        match flag.as_str() {
            "--listen" => listen = arguments.next(),
            "--stdio" => listen = None,
            "--data-dir" => data_dir = arguments.next(),
            _ => {
                return Err(format!("unknown flag {flag}: there are --listen ADDR, --stdio and --data-dir DIR").into());
            }
        }
    }
    let mut server = longhaul_rmcp::server(Studio)
        .tool("render", |tool| tool.concurrency(2).handoff(seconds(45)))
        .await?;
    if let Some(directory) = data_dir {
        server = server.data_dir(directory);
    }
    let Some(address) = listen else {
        return Ok(server.serve_stdio().await?);
    };
    let running = server.start().await?;
    let listening = running.listen(&*address).await?;
    println!("{}", listening.url());
    listening.serve_until_signal().await?;
    running.stop().await;
    Ok(())
}
