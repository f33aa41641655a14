//! What Longhaul is measured beside: the official Rust SDK, whose tasks are in memory. `rmcp_tasks --listen ADDR`
//!
//! The tool `add{a,b}` is a task, as in the example `bench`. rmcp answers each request with JSON and without a session, which costs it least.

use axum::Router;
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CreateTaskResult, GetTaskParams,
        GetTaskResult, JsonObject, ServerCapabilities, ServerConfig,
    },
    service::RequestContext,
    task_manager::{TaskManager, TaskOptions},
    transport::streamable_http_server::{
        StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
    },
};
use serde_json::Value;

const DAY: u64 = 24 * 3_600_000;

#[derive(Clone, Default)]
struct Adder {
    tasks: TaskManager,
}

impl ServerHandler for Adder {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().enable_tasks().build())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = request.arguments.unwrap_or_default();
        let options = TaskOptions::new().with_ttl_ms(DAY);
        let task = self.tasks.spawn(options, |_| {
            Box::pin(async move { Ok(CallToolResult::success(vec![ContentBlock::text(sum(&arguments))])) })
        });
        Ok(CallToolResponse::Task(CreateTaskResult::new(task)))
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        Ok(GetTaskResult::new(self.tasks.get_task(&request.task_id)?))
    }
}

fn sum(arguments: &JsonObject) -> String {
    let sum: f64 = arguments.values().filter_map(Value::as_f64).sum();
    sum.to_string()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(2).ok_or("usage: rmcp_tasks --listen ADDR")?;
    let socket = tokio::net::TcpListener::bind(address).await?;
    println!("http://{}/mcp", socket.local_addr()?);
    let adder = Adder::default();
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_sse_keep_alive(None);
    let service: StreamableHttpService<Adder, LocalSessionManager> =
        StreamableHttpService::new(move || Ok(adder.clone()), Default::default(), config);
    axum::serve(
        axum::serve::ListenerExt::tap_io(socket, |stream| drop(stream.set_nodelay(true))),
        Router::new().route_service("/mcp", service),
    )
    .await?;
    Ok(())
}
