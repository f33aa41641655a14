//! A server on rmcp alone, whose task records survive: `kept --data-dir DIR`, over standard input and output.
//!
//! It is written as for rmcp's own task manager, except for the manager's type, `.await` after its methods, and the functions that are
//! registered so that they run again after a crash.

use longhaul_rmcp::{TaskContext, TaskManager};
use rmcp::{
    ErrorData, RoleServer, ServerHandler, ServiceExt,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams, ContentBlock, CreateTaskResult,
        GetTaskParams, GetTaskResult, InputRequest, JsonObject, ListToolsResult, PaginatedRequestParams,
        ServerCapabilities, ServerConfig, Tool, UpdateTaskParams,
    },
    service::RequestContext,
    task_manager::{TaskExit, TaskOptions},
    transport::stdio,
};
use serde::Deserialize;
use serde_json::{Value, json};
use std::{error::Error, time::Duration};

struct Counter {
    tasks: TaskManager,
}

#[derive(Deserialize)]
struct Count {
    to: u64,
    millis: u64,
}

async fn count(cx: TaskContext, Count { to, millis }: Count) -> Result<CallToolResult, TaskExit> {
    for number in 1..=to {
        tokio::select! {
            () = count_one(millis) => cx.set_status_message(format!("at {number}")),
            () = cx.cancelled() => return Err(TaskExit::Cancelled),
        }
    }
    Ok(text(format!("counted to {to}")))
}

async fn approve(cx: TaskContext) -> Result<CallToolResult, TaskExit> {
    let first = cx.request_input("first", approval("Start it?")?).await?;
    let second = cx.request_input("second", approval("Really?")?).await?;
    let approved = |answer: &Value| answer["content"]["approved"] == true;
    Ok(text(format!("approved: {}, {}", approved(&first), approved(&second))))
}

fn approval(message: &str) -> Result<InputRequest, ErrorData> {
    let schema = json!({"type": "object", "properties": {"approved": {"type": "boolean"}}, "required": ["approved"]});
    let request = json!({"method": "elicitation/create", "params": {"mode": "form", "message": message, "requestedSchema": schema}});
    serde_json::from_value(request).map_err(|error| ErrorData::internal_error(error.to_string(), None))
}

fn text(text: String) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(text)])
}

fn parse<T: serde::de::DeserializeOwned>(arguments: JsonObject) -> Result<T, ErrorData> {
    serde_json::from_value(arguments.into()).map_err(|error| ErrorData::invalid_params(error.to_string(), None))
}

#[expect(clippy::disallowed_methods, reason = "simulates work, and rmcp has no clock port")]
async fn count_one(millis: u64) {
    tokio::time::sleep(Duration::from_millis(millis)).await;
}

impl ServerHandler for Counter {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().enable_tasks().build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema = JsonObject::from_iter([("type".to_owned(), json!("object"))]);
        let tool = |name: &'static str, description: &'static str| Tool::new(name, description, schema.clone());
        Ok(ListToolsResult::with_all_items(vec![
            tool("count", "Counts; runs again after a crash"),
            tool("count_closure", "Counts; ends as interrupted by a crash"),
            tool(
                "approve",
                "Asks twice; answers given before a crash are not asked for again",
            ),
        ]))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let options = TaskOptions::default();
        let arguments = request.arguments.unwrap_or_default();
        let task = match &*request.name {
            "count_closure" => {
                let args: Count = parse(arguments)?;
                self.tasks.spawn(options, |cx| Box::pin(count(cx, args))).await?
            }
            name => self.tasks.spawn_function(options, name, arguments).await?,
        };
        Ok(CreateTaskResult::new(task).into())
    }

    async fn get_task(&self, params: GetTaskParams, _: RequestContext<RoleServer>) -> Result<GetTaskResult, ErrorData> {
        Ok(GetTaskResult::new(self.tasks.get_task(&params.task_id).await?))
    }

    async fn update_task(&self, params: UpdateTaskParams, _: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        self.tasks.update_task(&params.task_id, params.input_responses).await
    }

    async fn cancel_task(&self, params: CancelTaskParams, _: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        self.tasks.cancel_task(&params.task_id).await
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let directory = std::env::args().skip_while(|flag| flag != "--data-dir").nth(1);
    let tasks = TaskManager::builder()
        .function("count", |cx, arguments| {
            Box::pin(async move { count(cx, parse(arguments)?).await })
        })
        .function("approve", |cx, _| Box::pin(approve(cx)))
        .open(directory.ok_or("--data-dir DIR is missing")?)
        .await?;
    Counter { tasks }.serve(stdio()).await?.waiting().await?;
    Ok(())
}
