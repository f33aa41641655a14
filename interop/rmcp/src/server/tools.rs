//! The tools: those of the fixture server that a client is tested with.

use rmcp::{
    ErrorData,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CreateMessageRequestParams,
        InputRequest, InputRequiredResult, ProgressNotificationParam, ProtocolVersion, SamplingMessage, Tool,
    },
    service::{RequestContext, RoleServer},
    task_manager::{TaskContext, TaskExit},
};
use serde_json::{Value, json};
use std::{collections::BTreeMap, time::Duration};

pub(crate) fn list() -> Vec<Tool> {
    let text = json!({"type": "string"});
    [
        ("greet", json!({"name": text})),
        ("test_tool_with_progress", json!({})),
        ("test_elicitation", json!({"message": text})),
        ("test_sampling", json!({"prompt": text})),
        ("slow_compute", json!({"seconds": {"type": "number"}, "label": text})),
        ("confirm_delete", json!({"filename": text})),
        ("multi_input", json!({})),
        ("failing_job", json!({})),
    ]
    .into_iter()
    .map(|(name, properties)| {
        let schema = json!({"type": "object", "properties": properties});
        Tool::new(name, "", schema.as_object().cloned().unwrap_or_default())
    })
    .collect()
}

fn argument(request: &CallToolRequestParams, name: &str) -> Result<Value, ErrorData> {
    let value = request.arguments.as_ref().and_then(|given| given.get(name));
    value
        .cloned()
        .ok_or_else(|| ErrorData::invalid_params(format!("{name} is missing"), None))
}

fn text(request: &CallToolRequestParams, name: &str) -> Result<String, ErrorData> {
    Ok(argument(request, name)?.as_str().unwrap_or_default().to_owned())
}

fn question(message: &str, field: &str, kind: &str) -> Result<InputRequest, ErrorData> {
    let schema = json!({"type": "object", "properties": {field: {"type": kind}}, "required": [field]});
    let params = json!({"mode": "form", "message": message, "requestedSchema": schema});
    let request = json!({"method": "elicitation/create", "params": params});
    serde_json::from_value(request).map_err(|error| ErrorData::internal_error(error.to_string(), None))
}

/// The calls that become tasks.
pub(crate) enum Task {
    Compute { seconds: f64, label: String },
    Delete { filename: String },
    TwoQuestions,
    Failing,
}

impl Task {
    pub(crate) fn of(request: &CallToolRequestParams) -> Result<Option<Self>, ErrorData> {
        Ok(Some(match &*request.name {
            "slow_compute" => Self::Compute {
                seconds: argument(request, "seconds")?.as_f64().unwrap_or_default(),
                label: text(request, "label")?,
            },
            "confirm_delete" => Self::Delete {
                filename: text(request, "filename")?,
            },
            "multi_input" => Self::TwoQuestions,
            "failing_job" => Self::Failing,
            _ => return Ok(None),
        }))
    }

    /// Without a task nothing can be asked in the middle.
    pub(crate) async fn run_plain(self) -> Result<CallToolResult, ErrorData> {
        match self {
            Self::Compute { seconds, label } => Ok(compute(seconds, &label).await),
            Self::Failing => Ok(failure()),
            _ => Err(ErrorData::invalid_request("this tool needs tasks", None)),
        }
    }

    pub(crate) async fn run(self, context: TaskContext) -> Result<CallToolResult, TaskExit> {
        match self {
            Self::Compute { seconds, label } => tokio::select! {
                () = context.cancelled() => Err(TaskExit::Cancelled),
                done = compute(seconds, &label) => Ok(done),
            },
            Self::Delete { filename } => {
                let agreed = confirm(&context, "confirm", &format!("Delete {filename}?")).await?;
                Ok(said(format!("{} {filename}.", if agreed { "Deleted" } else { "Kept" })))
            }
            Self::TwoQuestions => {
                let file = confirm(&context, "file", "Delete the file?");
                let backup = confirm(&context, "backup", "Delete its backup too?");
                let (file, backup) = tokio::try_join!(file, backup)?;
                Ok(said(format!("File: {file}, backup: {backup}.")))
            }
            Self::Failing => Ok(failure()),
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a test peer has no ports")]
async fn compute(seconds: f64, label: &str) -> CallToolResult {
    tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
    said(format!("Computed {label}"))
}

fn said(text: impl Into<String>) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(text.into())])
}

fn failure() -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text("The job failed, as it always does.")])
}

async fn confirm(context: &TaskContext, key: &str, message: &str) -> Result<bool, TaskExit> {
    let answer = context
        .request_input(key, question(message, "confirm", "boolean")?)
        .await?;
    Ok(answer["action"] == "accept" && answer["content"]["confirm"] == true)
}

pub(crate) async fn call_plain(
    request: CallToolRequestParams,
    context: RequestContext<RoleServer>,
) -> Result<CallToolResponse, ErrorData> {
    match &*request.name {
        "greet" => Ok(said(format!("Hello, {}!", text(&request, "name")?)).into()),
        "test_tool_with_progress" => {
            let token = context.meta.get_progress_token();
            let token = token.ok_or_else(|| ErrorData::invalid_params("no progress is wanted", None))?;
            for progress in [0.0, 50.0, 100.0] {
                let progress = ProgressNotificationParam::new(token.clone(), progress).with_total(100.0);
                context.peer.notify_progress(progress).await.map_err(internal)?;
            }
            Ok(said("Done.").into())
        }
        "test_elicitation" => elicit(request, context).await,
        "test_sampling" => {
            let message = SamplingMessage::user_text(text(&request, "prompt")?);
            let asked = CreateMessageRequestParams::new(vec![message], 100);
            if context.protocol_version() != Some(ProtocolVersion::V_2025_11_25) {
                return match request.input_responses {
                    Some(answers) => Ok(said(json!(answers).to_string()).into()),
                    None => {
                        let asked = json!({"method": "sampling/createMessage", "params": asked});
                        let asked = BTreeMap::from_iter([("model".to_owned(), crate::suite::read(asked)?)]);
                        Ok(InputRequiredResult::from_input_requests(asked).into())
                    }
                };
            }
            let answer = context.peer.create_message(asked).await.map_err(internal)?;
            let answer = serde_json::to_value(answer).map_err(internal)?;
            Ok(said(answer["content"]["text"].as_str().unwrap_or_default()).into())
        }
        other => Err(ErrorData::invalid_params(format!("there is no tool {other}"), None)),
    }
}

/// Asks by a request of its own, or, where the protocol has no such requests, in the response.
async fn elicit(
    request: CallToolRequestParams,
    context: RequestContext<RoleServer>,
) -> Result<CallToolResponse, ErrorData> {
    let asked = question(&text(&request, "message")?, "name", "string")?;
    if context.protocol_version() == Some(ProtocolVersion::V_2025_11_25) {
        let InputRequest::Elicitation(asked) = asked else {
            return Err(internal("not an elicitation"));
        };
        let answer = context.peer.create_elicitation(asked.params).await.map_err(internal)?;
        let answer = serde_json::to_value(answer).map_err(internal)?;
        return Ok(said(answer.to_string()).into());
    }
    match request.input_responses {
        Some(answers) => Ok(said(json!(answers).to_string()).into()),
        None => {
            let requests = BTreeMap::from_iter([("who".to_owned(), asked)]);
            Ok(InputRequiredResult::from_input_requests(requests).into())
        }
    }
}

fn internal(error: impl std::fmt::Display) -> ErrorData {
    ErrorData::internal_error(error.to_string(), None)
}
