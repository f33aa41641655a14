//! The params of the methods Longhaul serves.
//!
//! Every member that any method uses is found in the pass that reads the message. A getter for each method then validates the types. An
//! optional member that is `null` counts as absent, since many peers write absent values that way.

mod complete;
mod input_responses;
mod listen;

pub use complete::{Complete, Reference};
pub use input_responses::{InputResponses, MAX_INPUT_RESPONSES};
pub use listen::{MAX_WATCHED, SubscriptionFilter};

use crate::{
    capability::client,
    json::{
        self, ObjectError, for_each_member,
        object::{self, object},
    },
    meta::{self, Meta, ProgressToken, log_level, relayed},
    protocol::{NameSource, RequestId, RpcError},
};
use longhaul_core::{ClientCapabilities, Json, LogLevel};
use serde::de::MapAccess;
use serde_json::value::RawValue;
use std::borrow::Cow;

object! {
    struct Members {
        meta: Meta = "_meta",
        name = "name",
        arguments = "arguments",
        task = "task",
        uri = "uri",
        task_id = "taskId",
        cursor = "cursor",
        input_responses = "inputResponses",
        request_state = "requestState",
        request_id = "requestId",
        reason = "reason",
        progress_token = "progressToken",
        progress = "progress",
        total = "total",
        message = "message",
        protocol_version = "protocolVersion",
        capabilities = "capabilities",
        client_info = "clientInfo",
        reference = "ref",
        argument = "argument",
        context = "context",
        level = "level",
        notifications = "notifications",
    }
}
object! { struct TaskMember { ttl = "ttl", } }

/// A message's params.
#[derive(Debug, Clone, Copy, Default)]
pub struct Params<'a>(Members<'a>);

/// The params of `initialize`.
#[derive(Debug, Clone)]
pub struct Initialize<'a> {
    /// The revision the client requests.
    pub protocol_version: Cow<'a, str>,
    /// The client's capabilities, for the whole session.
    pub capabilities: ClientCapabilities,
    /// What it declares for others than this server: see [`relayed::capabilities`].
    pub relayed_capabilities: Option<Json>,
    /// The client's name and version, for display only.
    pub client_info: Option<&'a RawValue>,
}

/// The params of `tools/call`.
#[derive(Debug, Clone)]
pub struct CallTool<'a> {
    /// The tool.
    pub name: Cow<'a, str>,
    /// An object, if present.
    pub arguments: Option<&'a RawValue>,
    /// The answers to the input requests of an earlier round; empty in a first call.
    pub input_responses: InputResponses<'a>,
    /// The `requestState` of an earlier round.
    pub request_state: Option<Cow<'a, str>>,
}

/// The params of `prompts/get`.
#[derive(Debug, Clone)]
pub struct GetPrompt<'a> {
    /// The prompt.
    pub name: Cow<'a, str>,
    /// An object of strings, if present.
    pub arguments: Option<&'a RawValue>,
    /// The answers to the input requests of an earlier round; empty in a first request.
    pub input_responses: InputResponses<'a>,
    /// The `requestState` of an earlier round.
    pub request_state: Option<Cow<'a, str>>,
}

/// The params of `resources/read`.
#[derive(Debug, Clone)]
pub struct ReadResource<'a> {
    /// The resource.
    pub uri: Cow<'a, str>,
    /// The answers to the input requests of an earlier round; empty in a first request.
    pub input_responses: InputResponses<'a>,
    /// The `requestState` of an earlier round.
    pub request_state: Option<Cow<'a, str>>,
}

/// The `task` param of a legacy request: the client wants a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskMetadata {
    /// The requested retention, in milliseconds from creation.
    pub ttl: Option<u64>,
}

/// The params of `tasks/update`.
#[derive(Debug, Clone)]
pub struct UpdateTask<'a> {
    /// The task.
    pub task_id: Cow<'a, str>,
    /// The answers. The member is required, but may be empty.
    pub input_responses: InputResponses<'a>,
}

/// The params of `notifications/cancelled`.
#[derive(Debug, Clone)]
pub struct Cancelled<'a> {
    /// The request to cancel.
    pub request_id: RequestId<'a>,
    /// Why.
    pub reason: Option<Cow<'a, str>>,
}

/// The params of `notifications/progress`.
#[derive(Debug, Clone)]
pub struct ProgressParams<'a> {
    /// The token of the request it is about.
    pub token: ProgressToken<'a>,
    /// So far.
    pub progress: f64,
    /// In all, if known.
    pub total: Option<f64>,
    /// A line for people.
    pub message: Option<Cow<'a, str>>,
}

impl<'a> object::Members<'a> for Params<'a> {
    fn read<M: MapAccess<'a>>(&mut self, key: &str, values: &mut M) -> Result<Option<&'static str>, M::Error> {
        self.0.read(key, values)
    }
}

impl<'a> Params<'a> {
    /// Reads params without a message around them; absent reads as empty.
    ///
    /// # Errors
    /// −32602 if they are not an object, or a known member occurs twice.
    pub fn read(raw: Option<&'a RawValue>) -> Result<Self, RpcError> {
        let mut params = Self::default();
        let Some(raw) = raw else { return Ok(params) };
        object::fill(&mut params, raw.get()).map_err(malformed)?;
        params.set_source(raw.get(), &["_meta"]);
        Ok(params)
    }

    /// Remembers the text they were read from, where their `_meta` is at `path`.
    pub(crate) fn set_source(&mut self, text: &'a str, path: &'static [&'static str]) {
        self.0.meta.members_mut().set_source(text, path);
    }

    /// The `_meta` member.
    ///
    /// # Errors
    /// As [`Meta::read`].
    pub fn meta(&self) -> Result<&Meta<'a>, RpcError> {
        self.0.meta.checked().map_err(meta::malformed)
    }

    /// The param that the `Mcp-Name` header repeats, if it is a string.
    pub fn mirrored(&self, source: NameSource) -> Option<Cow<'a, str>> {
        let member = match source {
            NameSource::Name => self.0.name,
            NameSource::Uri => self.0.uri,
            NameSource::TaskId => self.0.task_id,
        };
        json::string(member?)
    }

    /// The params of `initialize`.
    ///
    /// # Errors
    /// −32602 without a version or capabilities.
    pub fn initialize(&self) -> Result<Initialize<'a>, RpcError> {
        let capabilities = required(self.0.capabilities, "capabilities", "an object")?;
        Ok(Initialize {
            protocol_version: text(self.0.protocol_version, "protocolVersion")?,
            capabilities: client::read(capabilities).ok_or_else(|| wrong("capabilities", "an object"))?,
            relayed_capabilities: relayed::capabilities(capabilities.get()),
            client_info: self.0.client_info,
        })
    }

    /// The params of `tools/call`, except `task`, which only legacy requests have ([`task_metadata`](Self::task_metadata)).
    ///
    /// # Errors
    /// −32602 without a name, or if `arguments`, `inputResponses` or an answer in it is not an object. Arguments that do not fit the
    /// tool's schema are not an error here.
    pub fn call_tool(&self) -> Result<CallTool<'a>, RpcError> {
        Ok(CallTool {
            name: text(self.0.name, "name")?,
            arguments: optional_object(self.0.arguments, "arguments")?,
            input_responses: self.input_responses()?,
            request_state: self.request_state()?,
        })
    }

    /// The params of `prompts/get`.
    ///
    /// # Errors
    /// −32602 without a name, if an argument is not a string, or as [`call_tool`](Self::call_tool) for the members of a retry.
    pub fn get_prompt(&self) -> Result<GetPrompt<'a>, RpcError> {
        Ok(GetPrompt {
            name: text(self.0.name, "name")?,
            arguments: optional_text_map(self.0.arguments, "arguments")?,
            input_responses: self.input_responses()?,
            request_state: self.request_state()?,
        })
    }

    /// The params of `resources/read`.
    ///
    /// # Errors
    /// −32602 without a URI, or as [`call_tool`](Self::call_tool) for the members of a retry.
    pub fn read_resource(&self) -> Result<ReadResource<'a>, RpcError> {
        Ok(ReadResource {
            uri: self.uri()?,
            input_responses: self.input_responses()?,
            request_state: self.request_state()?,
        })
    }

    /// The params of `completion/complete`.
    ///
    /// # Errors
    /// −32602 if the reference, the argument or the context is missing or malformed.
    pub fn complete(&self) -> Result<Complete<'a>, RpcError> {
        complete::read(self.0.reference, self.0.argument, self.0.context)
    }

    /// The params of `logging/setLevel`.
    ///
    /// # Errors
    /// −32602 without a level of RFC 5424.
    pub fn set_level(&self) -> Result<LogLevel, RpcError> {
        let expected = log_level::expected();
        let raw = required(self.0.level, "level", &expected)?;
        log_level::read(raw).ok_or_else(|| wrong("level", &expected))
    }

    /// The params of `subscriptions/listen`.
    ///
    /// # Errors
    /// −32602 if the filter is missing or malformed, or names more than [`MAX_WATCHED`].
    pub fn listen(&self) -> Result<SubscriptionFilter<'a>, RpcError> {
        listen::read(self.0.notifications)
    }

    fn input_responses(&self) -> Result<InputResponses<'a>, RpcError> {
        present(self.0.input_responses).map_or(Ok(InputResponses::new()), input_responses::read)
    }

    fn request_state(&self) -> Result<Option<Cow<'a, str>>, RpcError> {
        optional_text(self.0.request_state, "requestState")
    }

    /// The `task` param of a legacy call, which asks for a task. In a modern request it is ignored.
    ///
    /// # Errors
    /// −32602 if it is not an object or its `ttl` is not a whole number of milliseconds.
    pub fn task_metadata(&self) -> Result<Option<TaskMetadata>, RpcError> {
        let Some(raw) = optional_object(self.0.task, "task")? else {
            return Ok(None);
        };
        let mut task = TaskMember::default();
        task.fill(raw.get())
            .map_err(|_| RpcError::invalid_params("params.task holds ttl twice"))?;
        let ttl = present(task.ttl)
            .map(|raw| json::whole(raw).ok_or_else(|| wrong("task.ttl", "a whole number of milliseconds, 0 or more")));
        Ok(Some(TaskMetadata { ttl: ttl.transpose()? }))
    }

    /// The task id of `tasks/get`, `tasks/result` or `tasks/cancel`: any string, which need not be a valid id.
    ///
    /// # Errors
    /// −32602 if it is missing or not a string.
    pub fn task_id(&self) -> Result<Cow<'a, str>, RpcError> {
        text(self.0.task_id, "taskId")
    }

    /// The params of `tasks/update`.
    ///
    /// # Errors
    /// −32602 without a task, without answers, if an answer is not an object, or if a key occurs twice.
    pub fn update_task(&self) -> Result<UpdateTask<'a>, RpcError> {
        let responses = required(self.0.input_responses, "inputResponses", "an object")?;
        Ok(UpdateTask {
            input_responses: input_responses::read(responses)?,
            task_id: self.task_id()?,
        })
    }

    /// The cursor of a list; `None` for the first page. An empty string is a cursor too.
    ///
    /// # Errors
    /// −32602 if it is not a string.
    pub fn cursor(&self) -> Result<Option<Cow<'a, str>>, RpcError> {
        optional_text(self.0.cursor, "cursor")
    }

    /// The URI of `resources/subscribe` or `resources/unsubscribe`.
    ///
    /// # Errors
    /// −32602 if it is missing or not a string.
    pub fn uri(&self) -> Result<Cow<'a, str>, RpcError> {
        text(self.0.uri, "uri")
    }

    /// The params of `notifications/cancelled`.
    ///
    /// # Errors
    /// −32602 without a request id.
    pub fn cancelled(&self) -> Result<Cancelled<'a>, RpcError> {
        Ok(Cancelled {
            request_id: token(self.0.request_id, "requestId")?,
            reason: optional_text(self.0.reason, "reason")?,
        })
    }

    /// The params of `notifications/progress`.
    ///
    /// # Errors
    /// −32602 without a token or a number.
    pub fn progress(&self) -> Result<ProgressParams<'a>, RpcError> {
        let number = |raw, name| json::number(raw).ok_or_else(|| wrong(name, "a number"));
        Ok(ProgressParams {
            token: token(self.0.progress_token, "progressToken")?,
            progress: number(required(self.0.progress, "progress", "a number")?, "progress")?,
            total: present(self.0.total).map(|raw| number(raw, "total")).transpose()?,
            message: optional_text(self.0.message, "message")?,
        })
    }
}

/// The error for params that cannot be read.
pub(crate) fn malformed(error: ObjectError) -> RpcError {
    match error {
        ObjectError::Duplicate(key) => RpcError::invalid_params(format!("params holds {key} twice")),
        ObjectError::NotAnObject | ObjectError::Syntax(_) => RpcError::invalid_params("params must be an object"),
    }
}

fn present(member: Option<&RawValue>) -> Option<&RawValue> {
    member.filter(|raw| !json::is_null(raw))
}

fn wrong(member: &str, expected: &str) -> RpcError {
    RpcError::invalid_params(format!("params.{member} must be {expected}"))
}

fn required<'a>(member: Option<&'a RawValue>, name: &str, expected: &str) -> Result<&'a RawValue, RpcError> {
    present(member).ok_or_else(|| RpcError::invalid_params(format!("params.{name} is missing: it must be {expected}")))
}

fn text<'a>(member: Option<&'a RawValue>, name: &str) -> Result<Cow<'a, str>, RpcError> {
    json::string(required(member, name, "a string")?).ok_or_else(|| wrong(name, "a string"))
}

fn optional_text<'a>(member: Option<&'a RawValue>, name: &str) -> Result<Option<Cow<'a, str>>, RpcError> {
    present(member)
        .map(|raw| json::string(raw).ok_or_else(|| wrong(name, "a string")))
        .transpose()
}

fn optional_object<'a>(member: Option<&'a RawValue>, name: &str) -> Result<Option<&'a RawValue>, RpcError> {
    match present(member) {
        Some(raw) if !json::is_object(raw) => Err(wrong(name, "an object")),
        member => Ok(member),
    }
}

/// An object whose values are strings.
fn optional_text_map<'a>(member: Option<&'a RawValue>, name: &str) -> Result<Option<&'a RawValue>, RpcError> {
    let Some(raw) = optional_object(member, name)? else {
        return Ok(None);
    };
    let mut not_text = None;
    for_each_member(raw.get(), |key, value| {
        if json::string(value).is_none() {
            not_text.get_or_insert_with(|| key.to_owned());
        }
    })
    .map_err(|_| wrong(name, "an object"))?;
    not_text.map_or(Ok(Some(raw)), |key| Err(wrong(&format!("{name}.{key}"), "a string")))
}

fn token<'a>(member: Option<&'a RawValue>, name: &str) -> Result<RequestId<'a>, RpcError> {
    const EXPECTED: &str = "a string or an integer";
    RequestId::from_raw(required(member, name, EXPECTED)?).ok_or_else(|| wrong(name, EXPECTED))
}
