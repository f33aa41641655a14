//! Calling a tool.

use crate::{
    Connection, Event, Observer, Outcome, Progress, RequestError, TaskHandle, TaskSnapshot, TaskSupport, Tool,
    connection::Request,
    era::{Era, excerpt},
    mirror,
};
use longhaul_core::Json;
use longhaul_wire::{Method, jsonrpc::Notification};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// What became of a call.
#[derive(Debug)]
pub enum Called {
    /// The server answered: always an [`Outcome::Result`].
    Done(Outcome),
    /// The server works on it; it goes on whether or not anybody is connected.
    Task(TaskHandle),
}

/// What a result says it is.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Discriminator {
    result_type: Option<String>,
    task: Option<Value>,
    request_state: Option<String>,
    input_requests: Option<Map<String, Value>>,
}

/// Rounds of "say that again with this state" before a server is taken to be confused.
const MOST_ROUNDS: usize = 8;

impl Connection {
    /// Calls `tool`. A server that can make a task of the call is asked to; whether it does is its own decision (G2-10).
    ///
    /// The call is sent once: if the connection breaks before the answer, nobody knows whether the tool ran. Dropping the
    /// future before the answer cancels the call on a modern server (T-34); a task that was answered lives on.
    ///
    /// # Errors
    /// Any [`RequestError`]; [`RequestError::Rpc`] when the server refuses the call.
    pub async fn call_tool(
        &self,
        tool: &Tool,
        arguments: &Map<String, Value>,
        on_event: Observer<'_>,
    ) -> Result<Called, RequestError> {
        let mut state: Option<String> = None;
        for _ in 0..MOST_ROUNDS {
            let dress = |era: &Era| self.dress_call(era, tool, arguments, state.as_deref());
            let (result, era) = self
                .exchange(dress, &mut |notification| report_progress(&notification, on_event))
                .await?;
            match self.interpret(result, &era)? {
                Interpreted::Called(called) => return Ok(called),
                Interpreted::Again(next) => state = Some(next),
            }
        }
        Err(RequestError::Invalid(
            "it asks for the same call over and over".to_owned(),
        ))
    }

    fn dress_call(&self, era: &Era, tool: &Tool, arguments: &Map<String, Value>, state: Option<&str>) -> Request {
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
            headers: mirror::headers(&tool.mirrored, arguments),
            timeout: self.options().call_timeout,
        }
    }

    fn interpret(&self, result: Json, era: &Era) -> Result<Interpreted, RequestError> {
        let parsed: Discriminator = serde_json::from_str(result.as_str())
            .map_err(|error| RequestError::Invalid(format!("its result: {error}")))?;
        let done = |result| Ok(Interpreted::Called(Called::Done(Outcome::result(result))));
        match (era, parsed.result_type.as_deref()) {
            (Era::Legacy(legacy), _) => match parsed.task {
                Some(task) if legacy.tool_tasks && task["taskId"].is_string() => self.begun(&task.to_string()),
                _ => done(result),
            },
            (Era::Modern, None | Some("complete")) => done(result),
            (Era::Modern, Some("task")) => self.begun(result.as_str()),
            (Era::Modern, Some("input_required")) => match (parsed.request_state, parsed.input_requests) {
                (Some(state), None) => Ok(Interpreted::Again(state)),
                (Some(state), Some(requests)) if requests.is_empty() => Ok(Interpreted::Again(state)),
                _ => Err(RequestError::Invalid(
                    "it asks for input, which this client did not offer to give".to_owned(),
                )),
            },
            (Era::Modern, Some(other)) => Err(RequestError::Invalid(format!(
                "unknown resultType {:?}",
                excerpt(other)
            ))),
        }
    }

    fn begun(&self, task: &str) -> Result<Interpreted, RequestError> {
        let snapshot = TaskSnapshot::read(task)?;
        let handle = TaskHandle::new(self.clone(), snapshot.id.clone(), Some(snapshot));
        Ok(Interpreted::Called(Called::Task(handle)))
    }
}

enum Interpreted {
    Called(Called),
    /// The same call with this `requestState`.
    Again(String),
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
        .params
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
