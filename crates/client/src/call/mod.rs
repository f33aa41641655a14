//! Calling a tool.

pub(crate) mod call_error;
pub(crate) mod call_status;
pub(crate) mod client;
pub(crate) mod driver;
pub(crate) mod forwarding;
pub(crate) mod param_headers;
pub(crate) mod pending_call;
pub(crate) mod running_call;
pub(crate) mod task_wait;

use crate::{
    BatchLine, Connection, Event, Observer, Outcome, Progress, RequestError, TaskHandle, TaskSnapshot, TaskSupport,
    Tool,
    connect::{
        era::Era,
        request::{Request, origin::Origin},
        response::result_type::TASK,
    },
    error::excerpt,
};
use longhaul_core::{Json, JsonMembers, Millis};
use longhaul_wire::{Method, jsonrpc::Notification, meta};
use parking_lot::Mutex;
use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Map, Value, json};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// The response to a call.
#[derive(Debug)]
pub enum CallResponse {
    /// The result: always an [`Outcome::Result`].
    Done(Outcome),
    /// A task, which the server runs whether or not a client is connected.
    Task(TaskHandle),
}

/// How a tool is called.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct CallOptions {
    /// A name for the call: calling again with it is the same call. Only for servers that
    /// [take such keys](crate::ServerDescription::takes_idempotency_keys); others ignore it.
    pub idempotency_key: Option<String>,
    /// The line of a run over many calls that a recorded call is made for.
    pub batch_line: Option<BatchLine>,
    /// Whether a recorded or prepared call that the server refuses because it is busy, with HTTP status 429 or 503, is sent again until it is not, no sooner than
    /// the server asks. Such a call has not run.
    pub waits_while_busy: bool,
    /// Whether a [`Client`](crate::Client) with a journal makes the call without a record of it, for example because the disk is full. After the end of this
    /// process nobody finds the call or its task. Otherwise a call that cannot be recorded is not sent.
    pub unrecorded: bool,
    /// How long a legacy server is asked to keep the task, in milliseconds from its creation.
    pub ttl: Option<Millis>,
    /// Whether the server is told that the answer must not be a task. A legacy tool that only runs as a task is called as one all the same.
    pub without_task: bool,
    /// A number of the caller's for the request. What the server asks ([`InputRequest::source`](crate::InputRequest::source)) and logs
    /// ([`LogMessage::source`](crate::LogMessage::source)) on its stream carries it.
    pub source: Option<u64>,
    /// Members of `_meta` that neither MCP nor Longhaul defines, as they are written.
    pub meta: JsonMembers,
    /// The arguments as JSON text, an object, to be sent byte for byte in place of the parsed ones. Those are still read for the headers that mirror them.
    pub arguments_text: Option<Json>,
}

/// Whether the answer to a call may be a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TaskAnswer {
    No,
    /// A modern server decides.
    Possible,
    /// The call asks a legacy server for one.
    Requested,
}

const HEADER_MISMATCH: i32 = -32020;

/// The members that tell the kinds of results apart.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ResultMembers {
    result_type: Option<String>,
    task: Option<Value>,
    content: Option<IgnoredAny>,
}

impl Connection {
    /// Calls `tool`. The request allows the server to answer with a task; the server decides whether it does. What the server asks before it
    /// answers goes to [`Options::inputs`](crate::Options::inputs).
    ///
    /// The call is sent once: if the connection breaks before the response, the tool may or may not have run. Dropping the future
    /// before the response cancels the call, unless it asked a legacy server for a task. A task that was returned keeps running.
    ///
    /// # Errors
    /// Any [`RequestError`]; [`RequestError::Rpc`] when the server refuses the call; [`RequestError::InvalidOutput`] when the result does not fit the
    /// tool's output schema.
    pub async fn call_tool(
        &self,
        tool: &Tool,
        arguments: &Map<String, Value>,
        on_event: Observer<'_>,
    ) -> Result<CallResponse, RequestError> {
        self.call_tool_with(tool, arguments, &CallOptions::default(), on_event)
            .await
    }

    /// As [`call_tool`](Self::call_tool), with options.
    ///
    /// # Errors
    /// As [`call_tool`](Self::call_tool).
    pub async fn call_tool_with(
        &self,
        tool: &Tool,
        arguments: &Map<String, Value>,
        options: &CallOptions,
        on_event: Observer<'_>,
    ) -> Result<CallResponse, RequestError> {
        let origin = Origin {
            source: options.source,
            ..Origin::default()
        };
        self.call_recorded(tool, arguments, options, origin, on_event).await
    }

    /// As [`call_tool_with`](Self::call_tool_with). What the user answers is recorded.
    pub(crate) async fn call_recorded(
        &self,
        tool: &Tool,
        arguments: &Map<String, Value>,
        options: &CallOptions,
        origin: Origin<'_>,
        on_event: Observer<'_>,
    ) -> Result<CallResponse, RequestError> {
        // Each try has an id of its own, which is also the token of its progress.
        let token = AtomicU64::new(0);
        let on_event = Mutex::new(on_event);
        let build_of = |era: &Era, tool: &Tool| {
            let id = self.next_id();
            token.store(id, Ordering::Relaxed);
            Request {
                id: Some(id),
                call: origin.call.cloned(),
                ..self.build_call(era, tool, arguments, options)
            }
        };
        let build = |era: &Era| build_of(era, tool);
        let on_notification =
            &mut |notification: Notification<'_>| report_progress(&notification, &mut **on_event.lock());
        let answered = async {
            // Boxed: it is large, and so would be every future that calls a tool.
            match Box::pin(self.exchange_with_pages(build, on_notification, origin)).await {
                Err(RequestError::Rpc(failure)) if failure.code == HEADER_MISMATCH => {
                    // The annotations may have changed since the tool was listed. The call was refused, so it has not run.
                    let Some(tool) = self.with_other_headers(tool).await? else {
                        return Err(RequestError::Rpc(failure));
                    };
                    let build = |era: &Era| build_of(era, &tool);
                    Box::pin(self.exchange_with_pages(build, on_notification, origin)).await
                }
                answered => answered,
            }
        };
        let mut streams = self.listening().losses.changes();
        let (result, era) = streams
            .during(answered, |change| change.report(&mut **on_event.lock()))
            .await?;
        let era = self.era_of_result(era, &result).await;
        let response = self.interpret(result, &era, tool, options)?;
        if let (CallResponse::Done(outcome), Some(output)) = (&response, &tool.output) {
            output.check(outcome).await?;
        }
        if let (CallResponse::Task(task), Era::Legacy(_)) = (&response, &*era) {
            let token = token.load(Ordering::Relaxed);
            self.legacy_tasks().progress.expect(task.id(), token);
            self.legacy_tasks().allow_questions(task.id());
            if origin.record.is_none() {
                self.follow_legacy_task(task.id(), None);
            }
        }
        Ok(response)
    }

    /// Whether a call of `tool` can become a task on this server. A modern server decides that for each call.
    ///
    /// # Errors
    /// Any [`RequestError`], if the server is not known yet.
    pub async fn can_be_task(&self, tool: &Tool) -> Result<bool, RequestError> {
        let era = self.era().await?;
        Ok(match era.legacy() {
            Some(_) => asks_for_task(&era, tool),
            None => era.server().has_tasks_extension(),
        })
    }

    /// Whether the tasks of the server go on when this connection ends, as far as the client knows. Those of a child process end with it, and those of a server
    /// that speaks over a pair of streams (MCP 2024-11-05) belong to the connection, unless the server declares that it keeps calls by their idempotency keys.
    ///
    /// # Errors
    /// As [`server`](Self::server).
    pub async fn keeps_tasks(&self) -> Result<bool, RequestError> {
        let era = self.era().await?;
        Ok(self.keeps_tasks_of(&era))
    }

    /// The same in this era.
    pub(crate) fn keeps_tasks_of(&self, era: &Era) -> bool {
        !self.transport().is_session() || era.server().takes_idempotency_keys()
    }

    /// Whether a call of `tool` with these options may be answered with a task.
    pub(crate) async fn task_answer(&self, tool: &Tool, options: &CallOptions) -> Result<TaskAnswer, RequestError> {
        let era = self.era().await?;
        Ok(match era.legacy() {
            Some(_) if is_sent_as_task(&era, tool, options) => TaskAnswer::Requested,
            None if era.server().may_make_tasks() && !options.without_task => TaskAnswer::Possible,
            _ => TaskAnswer::No,
        })
    }

    fn build_call(&self, era: &Era, tool: &Tool, arguments: &Map<String, Value>, options: &CallOptions) -> Request {
        let mut params = Map::new();
        params.insert("name".to_owned(), tool.name.as_str().into());
        params.insert("arguments".to_owned(), arguments.clone().into());
        if let Some(key) = &options.idempotency_key {
            params.insert("_meta".to_owned(), json!({meta::IDEMPOTENCY_KEY: key}));
        }
        if is_sent_as_task(era, tool, options) {
            let task = options.ttl.map_or_else(|| json!({}), |ttl| json!({"ttl": ttl}));
            params.insert("task".to_owned(), task);
        }
        Request {
            params,
            headers: param_headers::build(&tool.param_headers, arguments),
            timeout: self.options().call_timeout,
            wants_progress: true,
            source: options.source,
            written: (options.arguments_text.iter())
                .map(|text| ("arguments".to_owned(), text.clone()))
                .collect(),
            meta: options.meta.clone(),
            without_task: options.without_task,
            is_repeatable: tool.is_repeatable,
            ..Request::new(Method::ToolsCall.as_str(), Map::new())
        }
    }

    /// The era by which the result is read. A server that answers with a task, and did not declare that it makes any, may have been replaced since it was asked.
    async fn era_of_result(&self, era: Arc<Era>, result: &Json) -> Arc<Era> {
        let is_undeclared = era.legacy().is_none() && !era.server().may_make_tasks() && is_modern_task(result);
        if !is_undeclared {
            return era;
        }
        self.forget(&era).await;
        match self.era().await {
            Ok(now) if now.legacy().is_none() => now,
            _ => era,
        }
    }

    fn interpret(
        &self,
        result: Json,
        era: &Era,
        tool: &Tool,
        options: &CallOptions,
    ) -> Result<CallResponse, RequestError> {
        let parsed: ResultMembers = serde_json::from_str(result.as_str())
            .map_err(|error| RequestError::Invalid(format!("its result: {error}")))?;
        let done = |result| Ok(CallResponse::Done(Outcome::result(result)));
        let refused = |reason: &'static str, task: &Value| RequestError::UnexpectedTask {
            tool: excerpt(&tool.name).into_owned(),
            task: task["taskId"].as_str().unwrap_or_default().to_owned(),
            reason,
        };
        match (era, parsed.result_type.as_deref()) {
            (Era::Legacy(_), _) => match parsed.task {
                Some(task) if task["taskId"].is_string() => match is_sent_as_task(era, tool, options) {
                    true => self.created(&task.to_string(), era, tool),
                    // A result may have such a member of its own.
                    false if parsed.content.is_some() => done(result),
                    false => Err(refused("the call did not ask for one", &task)),
                },
                _ => done(result),
            },
            (Era::Modern(server), Some(TASK)) => {
                let task = || serde_json::from_str(result.as_str()).unwrap_or_default();
                if options.without_task {
                    return Err(refused("the call did not declare that it may become one", &task()));
                }
                if !server.may_make_tasks() {
                    return Err(refused("the server does not declare the tasks extension", &task()));
                }
                self.created(result.as_str(), era, tool)
            }
            (Era::Modern(_), _) => done(result),
        }
    }

    fn created(&self, task: &str, era: &Era, tool: &Tool) -> Result<CallResponse, RequestError> {
        let snapshot = TaskSnapshot::read_created(task)?;
        let handle = TaskHandle::created_in(self.clone(), era, snapshot).of_tool(tool);
        Ok(CallResponse::Task(handle))
    }
}

fn is_modern_task(result: &Json) -> bool {
    let parsed: ResultMembers = serde_json::from_str(result.as_str()).unwrap_or_default();
    parsed.result_type.as_deref() == Some(TASK)
}

/// Whether a call of the tool with these options asks a legacy server for a task.
fn is_sent_as_task(era: &Era, tool: &Tool, options: &CallOptions) -> bool {
    asks_for_task(era, tool) && (tool.task_support == TaskSupport::Required || !options.without_task)
}

/// Whether a call of the tool can ask a legacy server for a task.
fn asks_for_task(era: &Era, tool: &Tool) -> bool {
    era.legacy().is_some_and(|legacy| legacy.tool_tasks) && tool.task_support != TaskSupport::Forbidden
}

pub(crate) fn report_progress(notification: &Notification<'_>, on_event: Observer<'_>) {
    if let Some(progress) = Progress::read(notification) {
        on_event(Event::Progress(progress));
    }
}
