//! The official Rust SDK as a server, in both protocol eras: its `TaskManager` keeps the tasks of 2026-07-28, and with 2025-11-25 every call blocks.
//!
//! `interop-rmcp-server [--stdio]`: without it, over HTTP on a free port, which is printed as a URL.

// Sampling is deprecated, but servers still use it.
#![allow(deprecated)]

mod tools;

use rmcp::{
    ErrorData, ServerHandler, ServiceExt,
    model::{
        CallToolRequestParams, CallToolResponse, CancelTaskParams, CreateTaskResult, GetTaskParams, GetTaskResult,
        Implementation, ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, UpdateTaskParams,
    },
    service::{RequestContext, RoleServer},
    task_manager::{TaskManager, TaskOptions},
    transport::{
        StreamableHttpServerConfig, StreamableHttpService, stdio,
        streamable_http_server::session::local::LocalSessionManager,
    },
};
use std::{error::Error, sync::Arc};

#[derive(Clone, Default)]
struct Fixtures {
    tasks: TaskManager,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let fixtures = Fixtures::default();
    if std::env::args().any(|argument| argument == "--stdio") {
        fixtures.serve(stdio()).await?.waiting().await?;
        return Ok(());
    }
    let config = StreamableHttpServerConfig::default();
    let sessions = Arc::new(LocalSessionManager::default());
    let service = StreamableHttpService::new(move || Ok(fixtures.clone()), sessions, config);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{}/mcp", listener.local_addr()?);
    axum::serve(listener, axum::Router::new().nest_service("/mcp", service)).await?;
    Ok(())
}

impl ServerHandler for Fixtures {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_tasks().build();
        ServerConfig::new(capabilities).with_server_info(Implementation::new("rmcp", "3.9"))
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools::list()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let client = context.client_capabilities();
        let makes_tasks = client.is_some_and(|client| client.supports_tasks());
        match (makes_tasks, tools::Task::of(&request)?) {
            (true, Some(task)) => {
                let options = TaskOptions::new().with_poll_interval_ms(50);
                let created = self
                    .tasks
                    .spawn(options, |task_context| Box::pin(task.run(task_context)));
                Ok(CallToolResponse::Task(CreateTaskResult::new(created)))
            }
            (false, Some(task)) => Ok(task.run_plain().await?.into()),
            (_, None) => tools::call_plain(request, context).await,
        }
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        Ok(GetTaskResult::new(self.tasks.get_task(&request.task_id)?))
    }

    async fn update_task(&self, request: UpdateTaskParams, _: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        self.tasks.update_task(&request.task_id, request.input_responses)
    }

    async fn cancel_task(&self, request: CancelTaskParams, _: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        self.tasks.cancel_task(&request.task_id)
    }
}
