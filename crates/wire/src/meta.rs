//! The members of `params._meta` that Longhaul acts on.

use crate::{
    capabilities::ClientCapabilities,
    envelope::RequestId,
    error::RpcError,
    json, log_level,
    object::{ObjectFlaw, object},
};
use longhaul_core::LogLevel;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// Key of the revision a modern request speaks.
pub const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// Key of what a modern client declares.
pub const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// Key of what a modern client calls itself.
pub const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
/// Key of what a modern server calls itself.
pub const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
/// Key of the level from which on a modern request wants log messages (U-09).
pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
/// Key that ties a legacy message to a task (G1-30, C-23).
pub const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";
/// Key of the subscription a modern notification belongs to (U-21).
pub const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
/// Key under which a client names a creation, so that a repeat finds the same task (design section 7).
pub const IDEMPOTENCY_KEY: &str = "dev.longhaul/idempotency-key";
/// The longest name of a creation, in bytes. It is kept as long as its task.
const LONGEST_KEY: usize = 255;
/// Key of the task that started this one.
pub const PARENT: &str = "dev.longhaul/parent";
/// Key of the first task of the line that this one belongs to: the one that a client called.
pub const ROOT: &str = "dev.longhaul/root";
/// Key that says which part of a task's log a content is.
pub const LOG_STRETCH: &str = "dev.longhaul/log";
/// Key that says which part of a task's output a result is.
pub const OUTPUT_PAGE: &str = "dev.longhaul/output";

/// A progress token: like a request's id a string or an integer, echoed byte for byte (U-01).
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

/// A message's `_meta`. Members are judged when they are asked for: what nobody acts on cannot make a message bad.
#[derive(Debug, Clone, Copy, Default)]
pub struct Meta<'a> {
    members: Members<'a>,
    /// All of it, if there are members that are not read.
    with_others: Option<&'a RawValue>,
}

/// The trace context a message carries, passed through untouched (U-37).
#[derive(Debug, Clone, Copy, Default)]
pub struct Trace<'a> {
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
    /// −32602/400 if it is not an object, or holds twice what is read.
    pub fn read(raw: Option<&'a RawValue>) -> Result<Self, RpcError> {
        let mut members = Members::default();
        let Some(raw) = raw else { return Ok(Self::default()) };
        let mut with_others = None;
        let filled = members.fill_and(raw.get(), |_, _| with_others = Some(raw));
        filled.map_err(|flaw| match flaw {
            ObjectFlaw::Duplicate(key) => RpcError::malformed_meta(format!("_meta holds {key} twice")),
            ObjectFlaw::NotAnObject | ObjectFlaw::Syntax(_) => {
                RpcError::malformed_meta("params._meta must be an object")
            }
        })?;
        Ok(Self { members, with_others })
    }

    /// The revision the message names, which is what makes it modern (2.6 rule 1).
    ///
    /// # Errors
    /// −32602/400 if it is there and not a string.
    pub fn protocol_version(&self) -> Result<Option<Cow<'a, str>>, RpcError> {
        text(self.members.protocol_version, PROTOCOL_VERSION)
    }

    /// What the client declares for this request.
    ///
    /// # Errors
    /// −32602/400 if it is there and not an object.
    pub fn client_capabilities(&self) -> Result<Option<ClientCapabilities>, RpcError> {
        let read = |raw| {
            ClientCapabilities::read(raw).ok_or_else(|| {
                RpcError::malformed_meta(format!("_meta member {CLIENT_CAPABILITIES} must be an object"))
            })
        };
        self.members.client_capabilities.map(read).transpose()
    }

    /// What the client calls itself; for display only, so not looked into (L-08).
    pub fn client_info(&self) -> Option<&'a RawValue> {
        self.members.client_info
    }

    /// From which level on the request wants log messages; none if absent (U-09).
    ///
    /// # Errors
    /// −32602/400 if it is there and no level of RFC 5424.
    pub fn log_level(&self) -> Result<Option<LogLevel>, RpcError> {
        let read = |raw| {
            log_level::read(raw).ok_or_else(|| {
                let right = log_level::right();
                RpcError::malformed_meta(format!("_meta member {LOG_LEVEL} must be {right}"))
            })
        };
        self.members.log_level.map(read).transpose()
    }

    /// The token under which the sender wants to hear of progress.
    ///
    /// # Errors
    /// −32602 if it is there and neither string nor integer.
    pub fn progress_token(&self) -> Result<Option<ProgressToken<'a>>, RpcError> {
        let read = |raw| {
            RequestId::from_raw(raw)
                .ok_or_else(|| RpcError::invalid_params("_meta.progressToken must be a string or an integer"))
        };
        self.members.progress_token.map(read).transpose()
    }

    /// The task a legacy message belongs to; `None` also if the member is garbled, since `taskId` is authoritative where it
    /// matters (G1-27).
    pub fn related_task(&self) -> Option<Cow<'a, str>> {
        let mut related = Related::default();
        related.fill(self.members.related_task?.get()).ok()?;
        json::string(related.task_id?)
    }

    /// The name the client gave this creation.
    ///
    /// # Errors
    /// −32602/400 if it is there and not a string, or empty, or of more than 255 bytes.
    pub fn idempotency_key(&self) -> Result<Option<Cow<'a, str>>, RpcError> {
        let key = text(self.members.idempotency_key, IDEMPOTENCY_KEY)?;
        match key.as_deref().map(str::len) {
            None | Some(1..=LONGEST_KEY) => Ok(key),
            Some(length) => Err(RpcError::malformed_meta(format!(
                "_meta member {IDEMPOTENCY_KEY} must have 1 to {LONGEST_KEY} bytes; it has {length}"
            ))),
        }
    }

    /// The members that nothing here is named for, as they came, in order: what sender and tool have agreed on.
    pub fn others(&self) -> Vec<(String, &'a RawValue)> {
        let mut others = Vec::new();
        if let Some(raw) = self.with_others {
            // Read before, so there is no flaw.
            let _ = Members::default().fill_and(raw.get(), |key, value| others.push((key.to_owned(), value)));
        }
        others
    }

    /// The trace context.
    pub fn trace(&self) -> Trace<'a> {
        Trace {
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
