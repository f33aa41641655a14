//! The params of the methods Longhaul acts on: read once, then viewed as the method understands them.
//!
//! One pass finds every member that any method looks at; the views only check shapes. An optional member that is `null` counts as
//! absent, since many peers write their missing values so.

mod answers;
mod complete;
mod listen;

pub use answers::{Answers, MAX_ANSWERS};
pub use complete::{Complete, Reference};
pub use listen::{Listen, MAX_WATCHED};

use crate::{
    capabilities::ClientCapabilities,
    envelope::RequestId,
    error::RpcError,
    json, log_level,
    meta::{Meta, ProgressToken},
    method::NameSource,
    object::{ObjectFlaw, for_each_member, object},
};
use longhaul_core::LogLevel;
use serde_json::value::RawValue;
use std::borrow::Cow;

object! {
    struct Members {
        meta = "_meta",
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

/// What `initialize` says.
#[derive(Debug, Clone)]
pub struct Initialize<'a> {
    /// The revision the client would like.
    pub protocol_version: Cow<'a, str>,
    /// What it can do, for the whole session.
    pub capabilities: ClientCapabilities,
    /// What it calls itself; for display only.
    pub client_info: Option<&'a RawValue>,
}

/// What `tools/call` says.
#[derive(Debug, Clone)]
pub struct CallTool<'a> {
    /// The tool.
    pub name: Cow<'a, str>,
    /// An object, if present.
    pub arguments: Option<&'a RawValue>,
    /// The answers to an earlier round of questions; none in a first call (U-11).
    pub input_responses: Answers<'a>,
    /// The state of an earlier round, if present (U-11).
    pub request_state: Option<Cow<'a, str>>,
}

/// What `prompts/get` says.
#[derive(Debug, Clone)]
pub struct GetPrompt<'a> {
    /// The prompt.
    pub name: Cow<'a, str>,
    /// An object of strings, if present.
    pub arguments: Option<&'a RawValue>,
    /// The answers to an earlier round of questions; none in a first request (U-11).
    pub input_responses: Answers<'a>,
    /// The state of an earlier round, if present (U-11).
    pub request_state: Option<Cow<'a, str>>,
}

/// What `resources/read` says.
#[derive(Debug, Clone)]
pub struct ReadResource<'a> {
    /// The resource.
    pub uri: Cow<'a, str>,
    /// The answers to an earlier round of questions; none in a first request (U-11).
    pub input_responses: Answers<'a>,
    /// The state of an earlier round, if present (U-11).
    pub request_state: Option<Cow<'a, str>>,
}

/// A legacy client's wish for a task (G1-12).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskWish {
    /// How long it would like the task to be kept, in milliseconds from creation.
    pub ttl: Option<u64>,
}

/// What `tasks/update` says.
#[derive(Debug, Clone)]
pub struct UpdateTask<'a> {
    /// The task.
    pub task_id: Cow<'a, str>,
    /// The answers, at least the member itself.
    pub input_responses: Answers<'a>,
}

/// What `notifications/cancelled` says.
#[derive(Debug, Clone)]
pub struct Cancelled<'a> {
    /// The request that needs no answer any more.
    pub request_id: RequestId<'a>,
    /// Why.
    pub reason: Option<Cow<'a, str>>,
}

/// What `notifications/progress` says.
#[derive(Debug, Clone)]
pub struct Progress<'a> {
    /// The token of the request it is about.
    pub token: ProgressToken<'a>,
    /// So far.
    pub progress: f64,
    /// In all, if known.
    pub total: Option<f64>,
    /// A line for people.
    pub message: Option<Cow<'a, str>>,
}

impl<'a> Params<'a> {
    /// Reads the params of a message, in one pass; absent reads as empty.
    ///
    /// # Errors
    /// −32602 if they are not an object, or hold twice what some method reads.
    pub fn read(raw: Option<&'a RawValue>) -> Result<Self, RpcError> {
        let mut members = Members::default();
        let Some(raw) = raw else { return Ok(Self(members)) };
        members.fill(raw.get()).map_err(|flaw| match flaw {
            ObjectFlaw::Duplicate(key) => RpcError::invalid_params(format!("params holds {key} twice")),
            ObjectFlaw::NotAnObject | ObjectFlaw::Syntax(_) => RpcError::invalid_params("params must be an object"),
        })?;
        Ok(Self(members))
    }

    /// The `_meta` member.
    ///
    /// # Errors
    /// As [`Meta::read`].
    pub fn meta(&self) -> Result<Meta<'a>, RpcError> {
        Meta::read(self.0.meta)
    }

    /// The member the `Mcp-Name` header mirrors, if it is there and a string.
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
            capabilities: ClientCapabilities::read(capabilities).ok_or_else(|| wrong("capabilities", "an object"))?,
            client_info: self.0.client_info,
        })
    }

    /// The params of `tools/call`, but for `task`, which means something to legacy requests only ([`task_wish`](Self::task_wish)).
    ///
    /// # Errors
    /// −32602 without a name, or if `arguments`, `inputResponses` or an answer in it is no object. Arguments a tool does not like
    /// are not an error of this kind.
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
    /// −32602 without a name, if an argument is no string, or as [`call_tool`](Self::call_tool) for the members of a retry.
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
    /// −32602 if the reference, the argument or the arguments settled already have another shape.
    pub fn complete(&self) -> Result<Complete<'a>, RpcError> {
        complete::read(self.0.reference, self.0.argument, self.0.context)
    }

    /// The params of `logging/setLevel`.
    ///
    /// # Errors
    /// −32602 without a level of RFC 5424 (U-08).
    pub fn set_level(&self) -> Result<LogLevel, RpcError> {
        let right = log_level::right();
        let raw = required(self.0.level, "level", &right)?;
        log_level::read(raw).ok_or_else(|| wrong("level", &right))
    }

    /// The params of `subscriptions/listen`.
    ///
    /// # Errors
    /// −32602 without a filter, if a member of it has another shape, or names more than [`MAX_WATCHED`].
    pub fn listen(&self) -> Result<Listen<'a>, RpcError> {
        listen::read(self.0.notifications)
    }

    fn input_responses(&self) -> Result<Answers<'a>, RpcError> {
        present(self.0.input_responses).map_or(Ok(Answers::new()), answers::read)
    }

    fn request_state(&self) -> Result<Option<Cow<'a, str>>, RpcError> {
        optional_text(self.0.request_state, "requestState")
    }

    /// The `task` member of a legacy call: present means that a task is wanted. A modern request's is to be ignored (G2-18).
    ///
    /// # Errors
    /// −32602 if it is not an object or its `ttl` no whole number of milliseconds.
    pub fn task_wish(&self) -> Result<Option<TaskWish>, RpcError> {
        let Some(raw) = optional_object(self.0.task, "task")? else {
            return Ok(None);
        };
        let mut task = TaskMember::default();
        task.fill(raw.get())
            .map_err(|_| RpcError::invalid_params("params.task holds ttl twice"))?;
        let ttl = present(task.ttl)
            .map(|raw| json::whole(raw).ok_or_else(|| wrong("task.ttl", "a whole number of milliseconds, 0 or more")));
        Ok(Some(TaskWish { ttl: ttl.transpose()? }))
    }

    /// The task that `tasks/get`, `tasks/result` or `tasks/cancel` is about. Any string may come: one that cannot be an id names no task.
    ///
    /// # Errors
    /// −32602 if it is missing or no string.
    pub fn task_id(&self) -> Result<Cow<'a, str>, RpcError> {
        text(self.0.task_id, "taskId")
    }

    /// The params of `tasks/update`.
    ///
    /// # Errors
    /// −32602 without a task, without answers, if an answer is no object (G2-42), or if a key occurs twice.
    pub fn update_task(&self) -> Result<UpdateTask<'a>, RpcError> {
        let responses = required(self.0.input_responses, "inputResponses", "an object")?;
        Ok(UpdateTask {
            input_responses: answers::read(responses)?,
            task_id: self.task_id()?,
        })
    }

    /// Where a list goes on; none at its beginning. An empty string is a cursor too (U-07).
    ///
    /// # Errors
    /// −32602 if it is no string.
    pub fn cursor(&self) -> Result<Option<Cow<'a, str>>, RpcError> {
        optional_text(self.0.cursor, "cursor")
    }

    /// The resource that `resources/subscribe` or `resources/unsubscribe` is about.
    ///
    /// # Errors
    /// −32602 if it is missing or no string.
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
    /// −32602 without a token or a figure.
    pub fn progress(&self) -> Result<Progress<'a>, RpcError> {
        let figure = |raw, name| json::number(raw).ok_or_else(|| wrong(name, "a number"));
        Ok(Progress {
            token: token(self.0.progress_token, "progressToken")?,
            progress: figure(required(self.0.progress, "progress", "a number")?, "progress")?,
            total: present(self.0.total).map(|raw| figure(raw, "total")).transpose()?,
            message: optional_text(self.0.message, "message")?,
        })
    }
}

fn present(member: Option<&RawValue>) -> Option<&RawValue> {
    member.filter(|raw| !json::is_null(raw))
}

fn wrong(member: &str, right: &str) -> RpcError {
    RpcError::invalid_params(format!("params.{member} must be {right}"))
}

fn required<'a>(member: Option<&'a RawValue>, name: &str, right: &str) -> Result<&'a RawValue, RpcError> {
    present(member).ok_or_else(|| RpcError::invalid_params(format!("params.{name} is missing: it must be {right}")))
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
    let mut odd = None;
    for_each_member(raw.get(), |key, value| {
        if json::string(value).is_none() {
            odd.get_or_insert_with(|| key.to_owned());
        }
    })
    .map_err(|_| wrong(name, "an object"))?;
    odd.map_or(Ok(Some(raw)), |key| Err(wrong(&format!("{name}.{key}"), "a string")))
}

fn token<'a>(member: Option<&'a RawValue>, name: &str) -> Result<RequestId<'a>, RpcError> {
    const RIGHT: &str = "a string or an integer";
    RequestId::from_raw(required(member, name, RIGHT)?).ok_or_else(|| wrong(name, RIGHT))
}
