//! Every JSON-RPC error Longhaul answers with. Each case has one constructor, which sets its code, HTTP status and message.
//!
//! The fields are private, so no other code can use an error code that the protocol reserves or has retired (−32001, −32003,
//! −32004, the rest of −32000..−32099).

use super::{
    meta_keys::EXIT,
    request_id::RequestId,
    version::{Generation, Version},
};
use crate::json;
use longhaul_core::{Capability, Json, RpcFailure};
use std::{borrow::Cow, time::Duration};

const BAD_REQUEST: u16 = 400;
/// As with [`LIMIT_REACHED`], the protocol has no code for it.
const FORBIDDEN: u16 = 403;
const NOT_FOUND: u16 = 404;
const TOO_MANY_REQUESTS: u16 = 429;
/// The protocol has no code for a reached limit; this one is outside the reserved range.
const LIMIT_REACHED: i64 = 429;
/// For JSON-RPC errors to which the protocol gives no HTTP status.
const OK: u16 = 200;

/// In bytes. Messages and quoted client data are cut to this length, so that an error never grows with the request.
const MAX_LENGTH: usize = 2 * 1024;

/// A JSON-RPC error, and the HTTP status of the response that carries it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message} ({code})")]
pub struct RpcError {
    code: i64,
    message: Cow<'static, str>,
    /// JSON text.
    data: Option<String>,
    status: u16,
    /// Seconds.
    retry_after: Option<u64>,
}

/// The `data.reason` of [`RpcError::connection_lost`].
pub const CONNECTION_LOST: &str = "connection_lost";

/// The error code is reserved by JSON-RPC or MCP. Applications use codes outside −32768..=−32000.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("error code {0} is reserved: choose one outside -32768..=-32000")]
pub struct ReservedCode(pub i64);

impl RpcError {
    fn new(code: i64, status: u16, message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            code,
            message: shortened(message.into()),
            data: None,
            status,
            retry_after: None,
        }
    }

    fn with_data(mut self, write: impl FnOnce(&mut String)) -> Self {
        let mut data = String::new();
        write(&mut data);
        self.data = Some(data);
        self
    }

    /// −32700, HTTP 400: the body is not JSON in UTF-8.
    pub fn parse(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(-32700, BAD_REQUEST, message)
    }

    /// −32600, HTTP 400: the body is JSON but not a valid message.
    pub fn invalid_request(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(-32600, BAD_REQUEST, message)
    }

    /// −32601: HTTP 404 for a modern request, 200 for a legacy one.
    pub fn method_not_found(generation: Generation, method: &str) -> Self {
        let status = match generation {
            Generation::Modern => NOT_FOUND,
            Generation::Legacy => OK,
        };
        Self::new(-32601, status, format!("Method not found: {method}"))
    }

    /// −32602, HTTP 200: the params do not fit the method.
    pub fn invalid_params(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(-32602, OK, message)
    }

    /// −32602, HTTP 400: a required member of a modern request's `_meta` is missing or malformed.
    pub fn malformed_meta(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(-32602, BAD_REQUEST, message)
    }

    /// −32602: no tool of that name; `why` if there may be one later.
    pub fn unknown_tool(name: &str, why: Option<&str>) -> Self {
        Self::invalid_params(match why {
            Some(why) => format!("Unknown tool: {name}. It may be one of those that are not available now: {why}"),
            None => format!("Unknown tool: {name}"),
        })
    }

    /// −32602: there is no such task, or it belongs to someone else. Both have the same message, so that a caller cannot learn that
    /// another principal's task exists.
    pub fn task_not_found() -> Self {
        Self::invalid_params("Task not found")
    }

    /// −32602: a legacy client cancels a task that has ended. `status` is the task's legacy status.
    pub fn cannot_cancel(status: &str) -> Self {
        Self::invalid_params(format!("Cannot cancel: task is already {status}"))
    }

    /// −32602: a client deletes a task that has not ended, or whose last work still stops.
    pub fn cannot_delete(why: &'static str) -> Self {
        Self::invalid_params(why)
    }

    /// −32601: a legacy client calls a tool without `task` that only runs as a task.
    pub fn must_be_task(tool: &str) -> Self {
        Self::new(
            -32601,
            OK,
            format!(
                "Tool {tool} must be called as a task: call it with a client that supports tasks, or have its operator set `handoff`"
            ),
        )
    }

    /// −32601: a legacy client calls a tool as a task that never runs as one.
    pub fn cannot_be_task(tool: &str) -> Self {
        Self::new(-32601, OK, format!("Tool {tool} cannot be called as a task"))
    }

    /// −32603 with `data.reason` "interrupted", as the error of a task has it: a call that may have run, and whose result nobody gets.
    ///
    /// ```
    /// let error = longhaul_wire::RpcError::interrupted("The connection was lost; the call may have run");
    /// assert_eq!(error.data(), Some(r#"{"reason":"interrupted"}"#));
    /// ```
    pub fn interrupted(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(-32603, OK, message).with_data(|out| out.push_str(r#"{"reason":"interrupted"}"#))
    }

    /// −32603 with `data.reason` [`CONNECTION_LOST`]: what a relay answers for a server that has exited before it did. The request may have been carried out, and
    /// may be made again at the same relay.
    ///
    /// ```
    /// let error = longhaul_wire::RpcError::connection_lost("The server has exited");
    /// assert_eq!(error.data(), Some(r#"{"reason":"connection_lost"}"#));
    /// ```
    pub fn connection_lost(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(-32603, OK, message).with_data(|out| {
            out.push_str(r#"{"reason":""#);
            out.push_str(CONNECTION_LOST);
            out.push_str(r#""}"#);
        })
    }

    /// −32603: `tasks/result` of a legacy task that was cancelled. `output` is the end of the task's log, if it has one; `exit` is how its
    /// command ended, as JSON, if it has.
    pub fn task_cancelled(task: &str, output: Option<&str>, exit: Option<&str>) -> Self {
        let log = format!("longhaul://task/{task}/log");
        let message = match output {
            Some(_) => format!("Task was cancelled; what it has written is {log}").into(),
            None => Cow::Borrowed("Task was cancelled"),
        };
        Self::new(-32603, OK, message).with_data(|out| {
            out.push_str(r#"{"taskId":"#);
            json::push_string(out, task);
            out.push_str(r#","status":"cancelled""#);
            if let Some(output) = output {
                out.push_str(r#","log":"#);
                json::push_string(out, &log);
                out.push_str(r#","output":"#);
                json::push_string(out, output);
            }
            if let Some(exit) = exit {
                out.push_str(&format!(r#","{EXIT}":{exit}"#));
            }
            out.push('}');
        })
    }

    /// Whether it is [`task_not_found`](Self::task_not_found).
    pub fn is_task_not_found(&self) -> bool {
        *self == Self::task_not_found()
    }

    /// Whether it is [`resource_not_found`](Self::resource_not_found), of either generation.
    pub fn is_resource_not_found(&self) -> bool {
        matches!(self.code, -32602 | -32002) && self.message == "Resource not found"
    }

    /// Whether the error is an internal one (−32603).
    pub fn is_internal(&self) -> bool {
        self.code == -32603
    }

    /// −32603: an internal error. `message` is sent to the client, so it must hold no paths and no secrets.
    pub fn internal(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(-32603, OK, message)
    }

    /// No such resource: −32602 for a modern client, −32002 for a legacy one, both with `data.uri`.
    pub fn resource_not_found(generation: Generation, uri: &str) -> Self {
        let code = match generation {
            Generation::Modern => -32602,
            Generation::Legacy => -32002,
        };
        Self::new(code, OK, "Resource not found").with_data(|out| {
            out.push_str(r#"{"uri":"#);
            json::push_string(out, &shortened(uri.into()));
            out.push('}');
        })
    }

    /// −32020, HTTP 400: a header is missing, malformed, or differs from the body.
    pub fn header_mismatch(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(-32020, BAD_REQUEST, message)
    }

    /// −32021, HTTP 400: the request needs a capability that the client has not declared.
    pub fn missing_capability(capability: Capability) -> Self {
        Self::lacking(capability, "Missing required client capability")
    }

    fn lacking(capability: Capability, message: &str) -> Self {
        let RpcFailure { code, message, data } = capability.missing(message);
        let error = Self::new(code.into(), BAD_REQUEST, message.to_string());
        error.with_data(|out| out.push_str(data.as_ref().map_or("null", Json::as_str)))
    }

    /// −32021, HTTP 400: the tool runs only as a task, and the client has not declared tasks.
    pub fn must_declare_tasks(tool: &str) -> Self {
        Self::lacking(
            Capability::Tasks,
            &format!(
                "Missing required client capability: tool {tool} runs only as a task. Call it with a client that declares tasks, or have its operator set `handoff`"
            ),
        )
    }

    /// −32022, HTTP 400: the revision `requested` is not served. The data lists the supported revisions: only the modern ones if a
    /// modern request names a legacy revision, else all.
    pub fn unsupported_version(requested: &str) -> Self {
        let supported: &[Version] = match Version::parse(requested) {
            Some(_) => &Version::MODERN,
            None => &Version::ALL,
        };
        Self::new(-32022, BAD_REQUEST, "Unsupported protocol version").with_data(|out| {
            out.push_str(r#"{"supported":"#);
            write_versions(out, supported);
            out.push_str(r#","requested":"#);
            json::push_string(out, &shortened(requested.into()));
            out.push('}');
        })
    }

    /// HTTP 404: the legacy session has ended or never existed. The client must initialize again.
    pub fn session_not_found() -> Self {
        Self::new(-32600, NOT_FOUND, "Session not found: initialize again")
    }

    /// −32602: a task of the tool is live that the call may not run beside. `task` is its id, if the caller may know it.
    ///
    /// ```
    /// let error = longhaul_wire::RpcError::not_unique("Not started", Some("t1"));
    /// assert_eq!(error.data(), Some(r#"{"reason":"not_unique","taskId":"t1"}"#));
    /// ```
    pub fn not_unique(message: impl Into<Cow<'static, str>>, task: Option<&str>) -> Self {
        Self::new(-32602, OK, message).with_data(|out| {
            out.push_str(r#"{"reason":"not_unique""#);
            if let Some(task) = task {
                out.push_str(r#","taskId":"#);
                json::push_string(out, task);
            }
            out.push('}');
        })
    }

    /// HTTP 429: a limit is reached. `wait` is sent in whole seconds as `Retry-After`, and in milliseconds in the data for
    /// transports without headers.
    pub fn busy(message: impl Into<Cow<'static, str>>, wait: Duration) -> Self {
        Self::new(LIMIT_REACHED, TOO_MANY_REQUESTS, message).retry_in(wait)
    }

    /// HTTP 503: something that the server needs does not answer. `wait` is sent as with [`busy`](Self::busy).
    pub fn unavailable(message: impl Into<Cow<'static, str>>, wait: Duration) -> Self {
        Self::internal(message).with_status(503).retry_in(wait)
    }

    fn retry_in(self, wait: Duration) -> Self {
        let millis = wait.as_millis().max(1);
        let mut error = self.with_data(|data| {
            data.push_str(r#"{"retryAfterMs":"#);
            json::push_int(data, millis);
            data.push('}');
        });
        error.retry_after = Some(u64::try_from(millis.div_ceil(1000)).unwrap_or(u64::MAX));
        error
    }

    /// HTTP 403: the sender is known, and may not do this. `needed` names what it would need, separated by blanks.
    pub fn not_permitted(needed: &str) -> Self {
        Self::new(
            FORBIDDEN.into(),
            FORBIDDEN,
            format!("Not permitted: this needs {needed}"),
        )
    }

    /// An application's own error. Its message is not shortened.
    ///
    /// # Errors
    /// [`ReservedCode`] for −32768..=−32000.
    pub fn application(code: i64, message: impl Into<Cow<'static, str>>) -> Result<Self, ReservedCode> {
        match code {
            -32768..=-32000 => Err(ReservedCode(code)),
            _ => Ok(Self {
                message: message.into(),
                ..Self::new(code, OK, "")
            }),
        }
    }

    /// The error of a handler, as it is.
    pub fn of_handler(failure: &RpcFailure) -> Self {
        Self {
            message: failure.message.to_string().into(),
            data: failure.data.as_ref().map(|data| data.as_str().to_owned()),
            ..Self::new(failure.code.into(), OK, "")
        }
    }

    /// The same error with another HTTP status, for errors of the transport (413, 429, 503).
    #[must_use]
    pub fn with_status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    /// The JSON-RPC code.
    pub fn code(&self) -> i64 {
        self.code
    }

    /// The message, as sent to the client.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The `data` member as JSON text.
    pub fn data(&self) -> Option<&str> {
        self.data.as_deref()
    }

    /// The HTTP status of the response that carries it.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// After how many seconds the client should try again: the `Retry-After` header.
    pub fn retry_after(&self) -> Option<u64> {
        self.retry_after
    }

    /// Appends the `error` object.
    pub fn write_object(&self, out: &mut String) {
        write_error_object(out, self.code, &self.message, self.data.as_deref());
    }

    /// Appends the error response. Without an id the member is left out, since the schemas do not allow null.
    pub fn write_response(&self, out: &mut String, id: Option<RequestId<'_>>) {
        write_error_response(out, id, |out| self.write_object(out));
    }
}

/// Cuts a text to [`MAX_LENGTH`] and says how much is missing.
fn shortened(text: Cow<'_, str>) -> Cow<'_, str> {
    if text.len() <= MAX_LENGTH {
        return text;
    }
    let shown = longhaul_core::truncate(&text, MAX_LENGTH);
    format!("{shown}… ({} more bytes)", text.len() - shown.len()).into()
}

/// Appends an error response. `error` appends the error object.
pub(crate) fn write_error_response(out: &mut String, id: Option<RequestId<'_>>, error: impl FnOnce(&mut String)) {
    out.push_str(r#"{"jsonrpc":"2.0","#);
    if let Some(id) = id {
        out.push_str(r#""id":"#);
        out.push_str(id.as_json());
        out.push(',');
    }
    out.push_str(r#""error":"#);
    error(out);
    out.push('}');
}

/// Appends an error object. `data` is JSON text.
pub(crate) fn write_error_object(out: &mut String, code: i64, message: &str, data: Option<&str>) {
    out.push_str(r#"{"code":"#);
    json::push_int(out, code);
    out.push_str(r#","message":"#);
    json::push_string(out, message);
    if let Some(data) = data {
        out.push_str(r#","data":"#);
        out.push_str(data);
    }
    out.push('}');
}

/// Appends the names of `versions` as an array.
pub(crate) fn write_versions(out: &mut String, versions: &[Version]) {
    out.push('[');
    for (nth, version) in versions.iter().enumerate() {
        if nth > 0 {
            out.push(',');
        }
        json::push_string(out, version.as_str());
    }
    out.push(']');
}
