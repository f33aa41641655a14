//! A tool of the handler's.

use super::{
    caller::Caller,
    exchange::{self, Failed, Hosted},
    request::failure,
};
use longhaul::{RetryOn, Tool};
use longhaul_core::{BoxFuture, Json, Outcome};
use longhaul_runtime::{Attempt, End, Executor, Provider, TaskContext};
use rmcp::model::{CallToolRequest, CallToolRequestParams, ClientRequest};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::{borrow::Cow, collections::HashMap, sync::Arc, time::Duration};

/// The kind of executor, as kept with each tool's definition.
const KIND: &str = "rmcp";
/// How often a tool is begun in all whose hints say that this is harmless, if the process ends under it.
const ATTEMPTS: u32 = 3;
const BACKOFF: Duration = Duration::from_secs(1);

/// What the author has set for a tool.
pub(super) type Setting = Box<dyn Fn(Tool) -> Tool + Send + Sync>;

/// What the author has set, by tool.
#[derive(Default)]
pub(super) struct Settings(pub(super) HashMap<String, Setting>);

impl Settings {
    /// The tool as it is offered: as the handler defines it, then as the author sets it.
    pub(super) fn tool(&self, name: &str, definition: &Value, hosted: &Arc<Hosted>) -> Tool {
        let tool = define(name, definition, hosted);
        match self.0.get(name) {
            Some(set) => set(tool),
            None => tool,
        }
    }
}

fn define(name: &str, definition: &Value, hosted: &Arc<Hosted>) -> Tool {
    let executor = Calling {
        name: name.to_owned(),
        hosted: Arc::clone(hosted),
    };
    let frozen = Json::from(json!({"tool": name}));
    let mut tool = Tool::executor(
        name,
        definition["inputSchema"].clone(),
        KIND,
        frozen,
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
struct Calling {
    name: String,
    hosted: Arc<Hosted>,
}

impl Executor for Calling {
    fn run(self: Arc<Self>, attempt: Attempt, cx: TaskContext) -> BoxFuture<'static, End> {
        Box::pin(async move {
            cx.started();
            let request = || {
                let arguments = serde_json::from_str(attempt.arguments.as_str())?;
                let params = CallToolRequestParams::new(self.name.clone()).with_arguments(arguments);
                Ok(ClientRequest::CallToolRequest(CallToolRequest::new(params)))
            };
            let requestor = Arc::clone(cx.requestor());
            let answered = self.hosted.request(request, &Caller::Task(cx)).await;
            match answered.and_then(|result| exchange::text(&result)) {
                Ok(result) => match Outcome::result(result) {
                    failed @ Outcome::Result { is_error: true, .. } => End::Errored(failed),
                    outcome => End::Finished(outcome),
                },
                Err(Failed::Refused(error)) => End::Errored(Outcome::RpcError(failure(error))),
                Err(Failed::Stopped(reason)) => End::Stopped(reason),
                Err(Failed::Asked(error)) => error.into_end(&requestor),
                // As for any executor that panics; rmcp has caught this one.
                Err(Failed::Panicked) => std::panic::resume_unwind(Box::new("the handler panicked")),
            }
        })
    }
}

/// Makes executors for tasks whose tool has changed since.
pub(super) struct Reviving(pub(super) Arc<Hosted>);

#[derive(Serialize, Deserialize)]
struct Frozen<'a> {
    #[serde(borrow)]
    tool: Cow<'a, str>,
}

impl Provider for Reviving {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn revive(&self, definition: &Json) -> Result<Arc<dyn Executor>, String> {
        let Frozen { tool } = serde_json::from_str(definition.as_str()).map_err(|error| error.to_string())?;
        Ok(Arc::new(Calling {
            name: tool.into_owned(),
            hosted: Arc::clone(&self.0),
        }))
    }

    fn keeps_logs(&self) -> bool {
        false
    }
}
