//! The official Rust SDK as a server, in both protocol eras: its `TaskManager` keeps the tasks of 2026-07-28, and with 2025-11-25 every call blocks.
//!
//! `interop-rmcp-server [--stdio]`: without it, over HTTP on a free port, which is printed as a URL.

// Sampling is deprecated, but servers still use it.
#![allow(deprecated)]

mod suite;
mod tools;

use rmcp::{
    ErrorData, ServerHandler, ServiceExt,
    model::{
        CallToolRequestParams, CallToolResponse, CancelTaskParams, CompleteRequestParams, CompleteResult,
        CreateTaskResult, GetPromptRequestParams, GetPromptResponse, GetPromptResult, GetTaskParams, GetTaskResult,
        Implementation, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
        PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult,
        ServerCapabilities, ServerConfig, SetLevelRequestParams, SubscribeRequestParams, SubscriptionFilter,
        UnsubscribeRequestParams, UpdateTaskParams,
    },
    service::{RequestContext, RoleServer},
    task_manager::{TaskManager, TaskOptions},
    transport::{
        StreamableHttpServerConfig, StreamableHttpService, stdio,
        streamable_http_server::session::local::LocalSessionManager,
    },
};
use serde_json::json;
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
        let capabilities = ServerCapabilities::builder()
            .enable_completions()
            .enable_logging()
            .enable_prompts()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_tools()
            .enable_tasks()
            .build();
        ServerConfig::new(capabilities).with_server_info(Implementation::new("rmcp", "3.11"))
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = suite::tools().into_iter().chain(tools::list());
        Ok(ListToolsResult::with_all_items(tools.collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if let Some(result) = suite::call(&request, &context).await? {
            return Ok(result);
        }
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

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(ListResourcesResult::with_all_items(suite::read(suite::resources())?))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let templates = suite::read(suite::templates())?;
        Ok(ListResourceTemplatesResult::with_all_items(templates))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let uri = json!({"uri": request.uri});
        let contents = suite::contents(&request.uri);
        let contents = contents.ok_or_else(|| ErrorData::resource_not_found("there is no such resource", Some(uri)))?;
        let contents: ReadResourceResult = ReadResourceResult::new(suite::read(json!([contents]))?);
        Ok(contents.into())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn subscribe(&self, _: SubscribeRequestParams, _: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn unsubscribe(&self, _: UnsubscribeRequestParams, _: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn set_level(&self, _: SetLevelRequestParams, _: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Ok(ListPromptsResult::with_all_items(suite::read(suite::prompts())?))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let messages = suite::messages(&request.name, &json!(request.arguments));
        let messages = messages.ok_or_else(|| ErrorData::invalid_params("there is no such prompt", None))?;
        Ok(GetPromptResult::new(suite::read(messages)?).into())
    }

    async fn complete(
        &self,
        _: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let completion = json!({"values": ["paris", "park", "party"], "total": 3, "hasMore": false});
        suite::read(json!({"resultType": "complete", "completion": completion}))
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
