//! What a request or its session says about its sender; stored with the tasks that it creates.

use longhaul_core::{Capability, ClientCapabilities, Json, JsonMembers, Origin, Outcome};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;

const RELATED_TASK_IDS: &str = "io.modelcontextprotocol/relatedTaskIds";

/// The sender of a request, as it described itself. For a task that is the sender of the call that created it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Requestor {
    /// The protocol revision, as `2025-11-25`.
    pub version: String,
    /// Whether that is a modern revision.
    pub modern: bool,
    /// What the client calls itself, for display only (`clientInfo`), as it came.
    #[serde(skip_serializing)]
    pub client: Option<Json>,
    /// Which capabilities it has declared.
    #[serde(rename = "abilities")]
    pub capabilities: ClientCapabilities,
    /// Extensions and experimental capabilities that it has declared, and that this server does not act on: an object with `extensions` and `experimental`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relayed_capabilities: Option<Json>,
    /// Why it cannot be asked anything, if that is not for lack of a capability.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unreachable: Option<Unreachable>,
    /// The progress token of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress_token: Option<Json>,
    /// The trace it continues.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<Trace>,
    /// The tasks that it considers related to its request: only advice, for operators and for servers behind this one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub related_task_ids: Vec<String>,
    /// Whether the task was announced before its tool's intake, which therefore runs at the beginning of each attempt.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub asks_first: bool,
    /// The task that this one was made of, by an operator who retried or reset it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_of: Option<String>,
    /// The entry of its journal to before which it was reset; `None` for a retry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reset_before: Option<u32>,
    /// Members of its `_meta` that neither MCP nor Longhaul defines: what sender and tool have agreed on.
    #[serde(skip_serializing_if = "JsonMembers::is_empty")]
    pub meta: JsonMembers,
}

/// Why the server has no way to ask a legacy client, whatever that declares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unreachable {
    /// The server has no sessions.
    NoSessions,
    /// The request came without a session.
    OutsideSession,
    /// The server answers with JSON only, so it has no stream to ask on.
    NoStreams,
}

impl fmt::Display for Unreachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoSessions => {
                "this server has no sessions, so it can ask only clients of MCP 2026-07-28 or later, and this one is older"
            }
            Self::OutsideSession => {
                "the request came without a session: send the Mcp-Session-Id that came with the answer to initialize"
            }
            Self::NoStreams => {
                "this server answers with JSON only, so it can ask only clients of MCP 2026-07-28 or later, and this one is older"
            }
        })
    }
}

/// Why a client cannot be asked what needs this capability.
pub fn why_not_asked(unreachable: Option<Unreachable>, capability: Capability) -> String {
    match unreachable {
        Some(reason) => reason.to_string(),
        None => format!("the client has not declared {capability}"),
    }
}

/// W3C trace context and baggage, as they came.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Trace {
    /// `traceparent`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    /// `tracestate`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tracestate: Option<String>,
    /// `baggage`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baggage: Option<String>,
}

impl Requestor {
    /// Which generation it speaks.
    pub fn origin(&self) -> Origin {
        if self.modern { Origin::Modern } else { Origin::Legacy }
    }

    /// The outcome of a call that has to ask something that its sender has not declared: −32021 for a modern one; a result that says so for a
    /// legacy one, which cannot declare more in its session.
    pub fn missing_capability(&self, capability: Capability) -> Outcome {
        let why = format!(
            "This tool has to ask, and {}",
            why_not_asked(self.unreachable, capability)
        );
        if !self.modern {
            return Outcome::tool_error(&why);
        }
        Outcome::RpcError(capability.missing(why))
    }

    /// Adds the trace and the related tasks to the `_meta` of a request that is made for it.
    pub fn add_context(&self, meta: &mut JsonMembers) {
        if let Some(trace) = &self.trace {
            let members = [
                ("traceparent", &trace.traceparent),
                ("tracestate", &trace.tracestate),
                ("baggage", &trace.baggage),
            ];
            for (name, value) in members {
                if let Some(value) = value {
                    meta.insert(name.to_owned(), Json::from(Value::from(value.as_str())));
                }
            }
        }
        if !self.related_task_ids.is_empty() {
            let ids = Value::from(self.related_task_ids.as_slice());
            meta.insert(RELATED_TASK_IDS.to_owned(), Json::from(ids));
        }
    }

    /// As it is stored with a task.
    pub fn to_json(&self) -> Json {
        let Ok(mut text) = serde_json::to_string(self) else {
            return Json::trusted("{}");
        };
        if let Some(client) = &self.client {
            // Appended as text, since a serializer would parse it first. There is always a member before it.
            text.pop();
            text.push_str(r#","client":"#);
            text.push_str(client.as_str());
            text.push('}');
        }
        Json::trusted(text)
    }

    /// Reads the stored form. Unreadable JSON gives the default.
    pub fn from_json(json: &Json) -> Self {
        serde_json::from_str(json.as_str()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_cannot_be_asked_is_told_why() {
        let text = |unreachable| {
            let requestor = Requestor {
                unreachable,
                ..Requestor::default()
            };
            requestor
                .missing_capability(Capability::ElicitationForm)
                .failure_line()
                .unwrap()
        };
        assert!(text(None).contains("has not declared"), "{}", text(None));
        for (reason, said) in [
            (Unreachable::NoSessions, "has no sessions"),
            (Unreachable::OutsideSession, "without a session"),
            (Unreachable::NoStreams, "JSON only"),
        ] {
            let text = text(Some(reason));
            assert!(text.contains(said) && !text.contains("has not declared"), "{text}");
        }
    }

    #[test]
    fn what_is_stored_is_read_again() {
        let client = Json::trusted(r#"{"name":"a \"client\"","version":"1"}"#);
        for client in [None, Some(client)] {
            let requestor = Requestor {
                version: "2026-07-28".to_owned(),
                modern: true,
                client,
                unreachable: Some(Unreachable::NoStreams),
                progress_token: Some(Json::trusted("12345678901234567890123")),
                relayed_capabilities: Some(Json::trusted(r#"{"experimental":{"a":{"n":1e400}}}"#)),
                related_task_ids: vec!["a".to_owned(), "a \"task\"".to_owned()],
                meta: JsonMembers::from([("com.acme/n".to_owned(), Json::trusted("[1.10,1e400]"))]),
                ..Requestor::default()
            };
            assert_eq!(Requestor::from_json(&requestor.to_json()), requestor);
        }
    }
}
