//! Calling a tool.

use crate::{
    Connection, Event, Observer, Outcome, Progress, RequestError, TaskHandle, TaskSnapshot, TaskSupport, Tool,
    connection::Request, era::Era, error::excerpt, param_headers,
};
use longhaul_core::Json;
use longhaul_wire::{Method, jsonrpc::Notification};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// The response to a call.
#[derive(Debug)]
pub enum CallResponse {
    /// The result: always an [`Outcome::Result`].
    Done(Outcome),
    /// A task, which the server runs whether or not a client is connected.
    Task(TaskHandle),
}

/// The members that tell the kinds of results apart.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ResultMembers {
    result_type: Option<String>,
    task: Option<Value>,
    request_state: Option<String>,
    input_requests: Option<Map<String, Value>>,
}

/// How often a server may ask for the same call with a new `requestState`.
const MAX_ROUNDS: usize = 8;

impl Connection {
    /// Calls `tool`. The request allows the server to answer with a task; the server decides whether it does.
    ///
    /// The call is sent once: if the connection breaks before the response, the tool may or may not have run. Dropping the future
    /// before the response cancels the call on a modern server. A task that was returned keeps running.
    ///
    /// # Errors
    /// Any [`RequestError`]; [`RequestError::Rpc`] when the server refuses the call.
    pub async fn call_tool(
        &self,
        tool: &Tool,
        arguments: &Map<String, Value>,
        on_event: Observer<'_>,
    ) -> Result<CallResponse, RequestError> {
        let mut state: Option<String> = None;
        for _ in 0..MAX_ROUNDS {
            let build = |era: &Era| self.build_call(era, tool, arguments, state.as_deref());
            let (result, era) = self
                .exchange(build, &mut |notification| report_progress(&notification, on_event))
                .await?;
            match self.interpret(result, &era)? {
                CallResult::Response(response) => return Ok(response),
                CallResult::Retry(next) => state = Some(next),
            }
        }
        Err(RequestError::Invalid(format!(
            "it asked for the same call {MAX_ROUNDS} times"
        )))
    }

    fn build_call(&self, era: &Era, tool: &Tool, arguments: &Map<String, Value>, state: Option<&str>) -> Request {
        let mut params = Map::new();
        params.insert("name".to_owned(), tool.name.as_str().into());
        params.insert("arguments".to_owned(), arguments.clone().into());
        params.insert("_meta".to_owned(), json!({"progressToken": self.next_id()}));
        if let Some(state) = state {
            params.insert("requestState".to_owned(), state.into());
        }
        let augment =
            era.legacy().is_some_and(|legacy| legacy.tool_tasks) && tool.task_support != TaskSupport::Forbidden;
        if augment {
            params.insert("task".to_owned(), json!({}));
        }
        Request {
            method: Method::ToolsCall,
            params,
            headers: param_headers::build(&tool.param_headers, arguments),
            timeout: self.options().call_timeout,
        }
    }

    fn interpret(&self, result: Json, era: &Era) -> Result<CallResult, RequestError> {
        let parsed: ResultMembers = serde_json::from_str(result.as_str())
            .map_err(|error| RequestError::Invalid(format!("its result: {error}")))?;
        let done = |result| Ok(CallResult::Response(CallResponse::Done(Outcome::result(result))));
        match (era, parsed.result_type.as_deref()) {
            (Era::Legacy(legacy), _) => match parsed.task {
                Some(task) if legacy.tool_tasks && task["taskId"].is_string() => self.created(&task.to_string()),
                _ => done(result),
            },
            (Era::Modern, None | Some("complete")) => done(result),
            (Era::Modern, Some("task")) => self.created(result.as_str()),
            (Era::Modern, Some("input_required")) => match (parsed.request_state, parsed.input_requests) {
                (Some(state), None) => Ok(CallResult::Retry(state)),
                (Some(state), Some(requests)) if requests.is_empty() => Ok(CallResult::Retry(state)),
                _ => Err(RequestError::Invalid(
                    "it asks for input, but this client has not declared that it can be asked".to_owned(),
                )),
            },
            (Era::Modern, Some(other)) => Err(RequestError::Invalid(format!(
                "unknown resultType {:?}",
                excerpt(other)
            ))),
        }
    }

    fn created(&self, task: &str) -> Result<CallResult, RequestError> {
        let snapshot = TaskSnapshot::read(task)?;
        let handle = TaskHandle::new(self.clone(), snapshot.id.clone(), Some(snapshot));
        Ok(CallResult::Response(CallResponse::Task(handle)))
    }
}

enum CallResult {
    Response(CallResponse),
    /// The server asks for the same call with this `requestState`.
    Retry(String),
}

fn report_progress(notification: &Notification<'_>, on_event: Observer<'_>) {
    #[derive(Deserialize)]
    struct Params {
        progress: f64,
        total: Option<f64>,
        message: Option<String>,
    }
    if notification.method != Method::Progress.as_str() {
        return;
    }
    let params = notification
        .raw_params()
        .and_then(|params| serde_json::from_str::<Params>(params.get()).ok());
    if let Some(Params {
        progress,
        total,
        message,
    }) = params
    {
        on_event(Event::Progress(Progress {
            progress,
            total,
            message,
        }));
    }
}
