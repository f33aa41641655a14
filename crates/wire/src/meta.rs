//! The members of `params._meta` that Longhaul reads and writes.

use crate::{
    client_capabilities,
    error::RpcError,
    json, log_level,
    object::{ObjectError, object},
    request_id::RequestId,
};
use longhaul_core::{ClientCapabilities, LogLevel};
use serde_json::value::RawValue;
use std::borrow::Cow;

pub use crate::meta_keys::{
    CLIENT_CAPABILITIES, CLIENT_INFO, EXIT, IDEMPOTENCY_KEY, LOG_LEVEL, LOG_PAGE, OUTPUT_PAGE, PARENT,
    PROTOCOL_VERSION, RELATED_TASK, ROOT, SERVER_INFO, SUBSCRIPTION_ID,
};

/// The longest idempotency key, in bytes. A key is stored as long as its task.
const MAX_KEY_LENGTH: usize = 255;

/// A progress token: a string or an integer like a request's id, echoed byte for byte.
pub type ProgressToken<'a> = RequestId<'a>;

object! {
    struct Members {
        protocol_version = "io.modelcontextprotocol/protocolVersion",
        client_capabilities = "io.modelcontextprotocol/clientCapabilities",
        client_info = "io.modelcontextprotocol/clientInfo",
        log_level = "io.modelcontextprotocol/logLevel",
        related_task = "io.modelcontextprotocol/related-task",
        idempotency_key = "dev.longhaul/idempotency-key",
        progress_token = "progressToken",
        traceparent = "traceparent",
        tracestate = "tracestate",
        baggage = "baggage",
    }
}
object! { struct Related { task_id = "taskId", } }

/// A message's `_meta`. A member is validated when it is read, so a malformed member that nobody uses does no harm.
#[derive(Debug, Clone, Copy, Default)]
pub struct Meta<'a> {
    members: Members<'a>,
    /// The whole object, if it has unknown members.
    with_unknown: Option<&'a RawValue>,
}

/// The trace context a message carries, passed through untouched.
#[derive(Debug, Clone, Copy, Default)]
pub struct TraceContext<'a> {
    /// W3C `traceparent`, a JSON string.
    pub traceparent: Option<&'a RawValue>,
    /// W3C `tracestate`, a JSON string.
    pub tracestate: Option<&'a RawValue>,
    /// W3C `baggage`, a JSON string.
    pub baggage: Option<&'a RawValue>,
}

impl<'a> Meta<'a> {
    /// Reads `_meta`, in one pass; absent reads as empty.
    ///
    /// # Errors
    /// −32602/400 if it is not an object, or a known member occurs twice.
    pub fn read(raw: Option<&'a RawValue>) -> Result<Self, RpcError> {
        let mut members = Members::default();
        let Some(raw) = raw else { return Ok(Self::default()) };
        let mut with_unknown = None;
        let filled = members.fill_and(raw.get(), |_, _| with_unknown = Some(raw));
        filled.map_err(|error| match error {
            ObjectError::Duplicate(key) => RpcError::malformed_meta(format!("_meta holds {key} twice")),
            ObjectError::NotAnObject | ObjectError::Syntax(_) => {
                RpcError::malformed_meta("params._meta must be an object")
            }
        })?;
        Ok(Self { members, with_unknown })
    }

    /// The revision the message names. Naming one makes the message modern.
    ///
    /// # Errors
    /// −32602/400 if it is present and not a string.
    pub fn protocol_version(&self) -> Result<Option<Cow<'a, str>>, RpcError> {
        text(self.members.protocol_version, PROTOCOL_VERSION)
    }

    /// The capabilities the client declares for this request.
    ///
    /// # Errors
    /// −32602/400 if they are present and not an object.
    pub fn client_capabilities(&self) -> Result<Option<ClientCapabilities>, RpcError> {
        let read = |raw| {
            client_capabilities::read(raw).ok_or_else(|| {
                RpcError::malformed_meta(format!("_meta member {CLIENT_CAPABILITIES} must be an object"))
            })
        };
        self.members.client_capabilities.map(read).transpose()
    }

    /// The client's name and version. They are for display only, so they are not validated.
    pub fn client_info(&self) -> Option<&'a RawValue> {
        self.members.client_info
    }

    /// The lowest level of log messages that the request asks for; `None` for no log messages.
    ///
    /// # Errors
    /// −32602/400 if it is present and not a level of RFC 5424.
    pub fn log_level(&self) -> Result<Option<LogLevel>, RpcError> {
        let read = |raw| {
            log_level::read(raw).ok_or_else(|| {
                let expected = log_level::expected();
                RpcError::malformed_meta(format!("_meta member {LOG_LEVEL} must be {expected}"))
            })
        };
        self.members.log_level.map(read).transpose()
    }

    /// The progress token.
    ///
    /// # Errors
    /// −32602 if it is present and neither a string nor an integer.
    pub fn progress_token(&self) -> Result<Option<ProgressToken<'a>>, RpcError> {
        let read = |raw| {
            RequestId::from_raw(raw)
                .ok_or_else(|| RpcError::invalid_params("_meta.progressToken must be a string or an integer"))
        };
        self.members.progress_token.map(read).transpose()
    }

    /// The task a legacy message is related to. A malformed member reads as absent: where the task matters, `taskId` in the params is
    /// authoritative.
    pub fn related_task(&self) -> Option<Cow<'a, str>> {
        let mut related = Related::default();
        related.fill(self.members.related_task?.get()).ok()?;
        json::string(related.task_id?)
    }

    /// The client's idempotency key.
    ///
    /// # Errors
    /// −32602/400 if it is present and not a string of 1 to 255 bytes.
    pub fn idempotency_key(&self) -> Result<Option<Cow<'a, str>>, RpcError> {
        let key = text(self.members.idempotency_key, IDEMPOTENCY_KEY)?;
        match key.as_deref().map(str::len) {
            None | Some(1..=MAX_KEY_LENGTH) => Ok(key),
            Some(length) => Err(RpcError::malformed_meta(format!(
                "_meta member {IDEMPOTENCY_KEY} must have 1 to {MAX_KEY_LENGTH} bytes; it has {length}"
            ))),
        }
    }

    /// The members that neither MCP nor Longhaul defines, in order: an agreement between the sender and the tool.
    pub fn unknown_members(&self) -> Vec<(String, &'a RawValue)> {
        let mut unknown = Vec::new();
        if let Some(raw) = self.with_unknown {
            // It was read successfully before.
            let _ = Members::default().fill_and(raw.get(), |key, value| unknown.push((key.to_owned(), value)));
        }
        unknown
    }

    /// The trace context.
    pub fn trace(&self) -> TraceContext<'a> {
        TraceContext {
            traceparent: self.members.traceparent,
            tracestate: self.members.tracestate,
            baggage: self.members.baggage,
        }
    }
}

fn text<'a>(raw: Option<&'a RawValue>, key: &str) -> Result<Option<Cow<'a, str>>, RpcError> {
    let read =
        |raw| json::string(raw).ok_or_else(|| RpcError::malformed_meta(format!("_meta member {key} must be a string")));
    raw.map(read).transpose()
}
