//! The handler's tools and their executor.

use super::{
    caller::Caller,
    exchange::{self, HostedHandler, RequestFailure},
    request::failure,
};
use longhaul::{RetryOn, Tool};
use longhaul_core::{BoxFuture, Json, Outcome};
use longhaul_runtime::{ExecutionEnd, Executor, ExecutorAttempt, Provider, TaskContext};
use rmcp::model::{CallToolRequest, CallToolRequestParams, ClientRequest};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::{borrow::Cow, collections::HashMap, sync::Arc, time::Duration};

/// The executor kind that is stored with each tool's definition; it must not change.
const KIND: &str = "rmcp";
/// How often a read-only or idempotent tool may be started in all, if the process ends while it runs.
const ATTEMPTS: u32 = 3;
const BACKOFF: Duration = Duration::from_secs(1);

/// Changes the settings of a tool.
pub(super) type ConfigureTool = Box<dyn Fn(Tool) -> Tool + Send + Sync>;

/// The author's settings, by tool.
#[derive(Default)]
pub(super) struct ToolOverrides(pub(super) HashMap<String, ConfigureTool>);

impl ToolOverrides {
    /// The tool as the handler defines it, with the author's settings.
    pub(super) fn tool(&self, name: &str, definition: &Value, handler: &Arc<HostedHandler>) -> Tool {
        let tool = define(name, definition, handler);
        match self.0.get(name) {
            Some(configure) => configure(tool),
            None => tool,
        }
    }
}

fn define(name: &str, definition: &Value, handler: &Arc<HostedHandler>) -> Tool {
    let executor = ToolExecutor {
        name: name.to_owned(),
        handler: Arc::clone(handler),
    };
    let stored = Json::from(json!({"tool": name}));
    let mut tool = Tool::executor(
        name,
        definition["inputSchema"].clone(),
        KIND,
        stored,
        Arc::new(executor),
    );
    if let Some(title) = definition["title"].as_str() {
        tool = tool.title(title);
    }
    if let Some(description) = definition["description"].as_str() {
        tool = tool.description(description);
    }
    if let Some(schema) = definition.get("outputSchema") {
        tool = tool.output_schema(schema.clone());
    }
    if let Some(meta) = definition["_meta"].as_object() {
        tool = tool.meta(meta.clone());
    }
    for icon in definition["icons"].as_array().into_iter().flatten() {
        if let Ok(icon) = serde_json::from_value(icon.clone()) {
            tool = tool.icon(icon);
        }
    }
    let hints = definition["annotations"].as_object().cloned().unwrap_or_default();
    if ["readOnlyHint", "idempotentHint"]
        .iter()
        .any(|harmless| hints.get(*harmless) == Some(&Value::Bool(true)))
    {
        tool = tool.retry(ATTEMPTS, BACKOFF, [RetryOn::Crash]);
    }
    tool.annotations(hints)
}

/// Runs the calls of one tool.
struct ToolExecutor {
    name: String,
    handler: Arc<HostedHandler>,
}

impl Executor for ToolExecutor {
    fn run(self: Arc<Self>, attempt: ExecutorAttempt, cx: TaskContext) -> BoxFuture<'static, ExecutionEnd> {
        Box::pin(async move {
            cx.started();
            let request = || {
                let arguments = serde_json::from_str(attempt.arguments.as_str())?;
                let params = CallToolRequestParams::new(self.name.clone()).with_arguments(arguments);
                Ok(ClientRequest::CallToolRequest(CallToolRequest::new(params)))
            };
            let requestor = Arc::clone(cx.requestor());
            let result = self.handler.request(request, &Caller::of_task(cx)).await;
            match result.and_then(|result| exchange::text(&result)) {
                Ok(result) => match Outcome::result(result) {
                    failed @ Outcome::Result { is_error: true, .. } => ExecutionEnd::Errored(failed),
                    outcome => ExecutionEnd::Finished(outcome),
                },
                Err(RequestFailure::Refused(error)) => ExecutionEnd::Errored(Outcome::RpcError(failure(error))),
                Err(RequestFailure::Stopped(reason)) => ExecutionEnd::Stopped(reason),
                Err(RequestFailure::Ask(error)) => error.into_end(&requestor),
                // rmcp has caught the panic. The engine handles it like that of any other executor.
                Err(RequestFailure::Panicked) => std::panic::resume_unwind(Box::new("the handler panicked")),
            }
        })
    }
}

/// Makes executors for tasks whose tool has changed or was removed.
pub(super) struct ExecutorProvider(pub(super) Arc<HostedHandler>);

#[derive(Serialize, Deserialize)]
struct StoredDefinition<'a> {
    #[serde(borrow)]
    tool: Cow<'a, str>,
}

impl Provider for ExecutorProvider {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn revive(&self, definition: &Json) -> Result<Arc<dyn Executor>, String> {
        let StoredDefinition { tool } = serde_json::from_str(definition.as_str()).map_err(|error| error.to_string())?;
        Ok(Arc::new(ToolExecutor {
            name: tool.into_owned(),
            handler: Arc::clone(&self.0),
        }))
    }

    fn keeps_logs(&self) -> bool {
        false
    }
}
