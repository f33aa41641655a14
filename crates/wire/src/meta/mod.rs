//! The members of `params._meta` that Longhaul reads and writes.

pub(crate) mod log_level;
pub mod relayed;

use crate::{
    capability::client::DeclaredCapabilities,
    json::{
        self, NestedObject, ObjectError,
        object::{self, object},
    },
    protocol::{RequestId, RpcError},
};
use longhaul_core::{ClientCapabilities, Json, LogLevel, Priority, TaskId};
use serde::de::MapAccess;
use serde_json::value::RawValue;
use std::borrow::Cow;

pub use crate::protocol::meta_keys::{
    ARTIFACT, CLIENT_CAPABILITIES, CLIENT_INFO, DELETION, DETACHED, EXIT, IDEMPOTENCY, IDEMPOTENCY_KEY, LABELS,
    LOG_LEVEL, LOG_PAGE, OUTPUT_PAGE, PARENT, PRIORITY, PROTOCOL_VERSION, RELATED_TASK, RELATED_TASK_IDS, ROOT,
    SERVER_INFO, SUBSCRIPTION_ID,
};

/// The longest idempotency key, in bytes. A key is stored as long as its task.
const MAX_KEY_LENGTH: usize = 255;

/// How many related task ids of a request are read. They are stored as long as its task.
const MOST_RELATED: usize = 100;

/// A progress token: a string or an integer like a request's id, echoed byte for byte.
pub type ProgressToken<'a> = RequestId<'a>;

object! {
    struct Members {
        protocol_version = "io.modelcontextprotocol/protocolVersion",
        client_capabilities: DeclaredCapabilities = "io.modelcontextprotocol/clientCapabilities",
        client_info = "io.modelcontextprotocol/clientInfo",
        log_level = "io.modelcontextprotocol/logLevel",
        related_task = "io.modelcontextprotocol/related-task",
        related_task_ids = "io.modelcontextprotocol/relatedTaskIds",
        idempotency_key = "dev.longhaul/idempotency-key",
        detached = "dev.longhaul/detached",
        priority = "dev.longhaul/priority",
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
    /// Whether it has members that are not read.
    has_unknown: bool,
    /// The text in which it was found, and where.
    source: (&'a str, &'static [&'static str]),
}

impl<'a> object::Members<'a> for Meta<'a> {
    fn read<M: MapAccess<'a>>(&mut self, key: &str, values: &mut M) -> Result<Option<&'static str>, M::Error> {
        match self.members.read_known(key, values)? {
            Some(twice) => Ok(twice),
            None => {
                self.has_unknown = true;
                values.next_value::<serde::de::IgnoredAny>().map(|_| None)
            }
        }
    }
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
    /// Reads `_meta` alone; absent reads as empty.
    ///
    /// # Errors
    /// −32602/400 if it is not an object, or a known member occurs twice.
    pub fn read(raw: Option<&'a RawValue>) -> Result<Self, RpcError> {
        let mut meta = Self::default();
        let Some(raw) = raw else { return Ok(meta) };
        object::fill(&mut meta, raw.get()).map_err(malformed)?;
        meta.set_source(raw.get(), &[]);
        Ok(meta)
    }

    /// Remembers the text it was read from, where it is at `path`.
    pub(crate) fn set_source(&mut self, text: &'a str, path: &'static [&'static str]) {
        self.source = (text, path);
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
        let declared: &NestedObject<DeclaredCapabilities<'_>> = &self.members.client_capabilities;
        match declared.checked() {
            _ if declared.is_absent() => Ok(None),
            Ok(declared) => Ok(Some(declared.capabilities())),
            Err(_) => Err(RpcError::malformed_meta(format!(
                "_meta member {CLIENT_CAPABILITIES} must be an object"
            ))),
        }
    }

    /// What the client declares in this request for others than this server, as [`relayed::capabilities`] says; `None` if there is nothing.
    pub fn relayed_client_capabilities(&self) -> Option<Json> {
        if !self.members.client_capabilities.members().may_relay() {
            return None;
        }
        let (text, path) = self.source;
        let text = match path {
            [] => text,
            path => object::find(text, path)?.get(),
        };
        relayed::capabilities(object::find(text, &[CLIENT_CAPABILITIES])?.get())
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

    /// The tasks that the client considers related to its request: the first 100 texts of 1 to 64 bytes. What is malformed is left out, since it is only
    /// advice.
    pub fn related_task_ids(&self) -> Vec<String> {
        let listed = self.members.related_task_ids.map(RawValue::get);
        let listed: Vec<&RawValue> = listed
            .and_then(|raw| serde_json::from_str(raw).ok())
            .unwrap_or_default();
        let ids = listed.into_iter().filter_map(json::string);
        let ids = ids.filter(|id| (1..=TaskId::MAX_LEN).contains(&id.len()));
        ids.take(MOST_RELATED).map(Cow::into_owned).collect()
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

    /// The priority that the call asks for.
    ///
    /// # Errors
    /// −32602/400 if it is present and not an integer from 0 to 9.
    pub fn priority(&self) -> Result<Option<Priority>, RpcError> {
        let read = |raw: &RawValue| {
            let number = raw.get().parse().ok().and_then(Priority::new);
            number.ok_or_else(|| {
                RpcError::malformed_meta(format!("_meta member {PRIORITY} must be an integer from 0 to 9"))
            })
        };
        self.members.priority.map(read).transpose()
    }

    /// Whether the caller does not wait, and wants a task at once if the call may become one.
    pub fn is_detached(&self) -> bool {
        self.members.detached.is_some_and(|raw| raw.get() == "true")
    }

    /// The members that neither MCP nor Longhaul defines, in order: an agreement between the sender and the tool.
    pub fn unknown_members(&self) -> Vec<(String, &'a RawValue)> {
        let mut unknown = Vec::new();
        let (text, path) = self.source;
        let text = match path {
            _ if !self.has_unknown => None,
            [] => Some(text),
            path => object::find(text, path).map(RawValue::get),
        };
        if let Some(text) = text {
            // It was read successfully before.
            let _ = object::for_each_member(text, |key, value| {
                if !Members::NAMES.contains(&key) {
                    unknown.push((key.to_owned(), value));
                }
            });
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

/// The error for a `_meta` that cannot be read.
pub(crate) fn malformed(error: ObjectError) -> RpcError {
    match error {
        ObjectError::Duplicate(key) => RpcError::malformed_meta(format!("_meta holds {key} twice")),
        ObjectError::NotAnObject | ObjectError::Syntax(_) => RpcError::malformed_meta("params._meta must be an object"),
    }
}

fn text<'a>(raw: Option<&'a RawValue>, key: &str) -> Result<Option<Cow<'a, str>>, RpcError> {
    let read =
        |raw| json::string(raw).ok_or_else(|| RpcError::malformed_meta(format!("_meta member {key} must be a string")));
    raw.map(read).transpose()
}
