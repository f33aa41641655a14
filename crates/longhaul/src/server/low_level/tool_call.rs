//! Calls of tools, as they came, and their answers.

use crate::Error;
use longhaul_core::Json;
use longhaul_runtime::{CallAnswer as Answer, CallRequest};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value, json, value::RawValue};
use std::sync::Arc;

/// The method that these are for.
pub(super) const METHOD: &str = "tools/call";

/// A call of a tool as the client sent it, for a function that answers `tools/call`: see [`Server::method`](crate::Server::method).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ToolCall {
    /// The name that was called. Whether there is such a tool is yours to say: [`Error::not_found`] is answered as an unknown tool.
    pub name: String,
    /// The arguments, an object, byte for byte; `{}` if there are none. Nothing has checked them.
    pub arguments: Json,
    /// The `_meta` of the request.
    pub meta: Map<String, Value>,
    /// Whether the client can be answered with a task: a legacy client that asks for one with this call, or a modern one that has declared that it takes tasks.
    pub takes_task: bool,
}

impl ToolCall {
    /// The arguments in a type of yours.
    ///
    /// # Errors
    /// −32602 that says what does not fit.
    pub fn arguments<T: DeserializeOwned>(&self) -> Result<T, Error> {
        serde_json::from_str(self.arguments.as_str())
            .map_err(|error| Error::invalid_params(format!("arguments: {error}")))
    }

    pub(super) fn of(request: &CallRequest) -> Result<Self, Error> {
        #[derive(Deserialize)]
        struct Params<'a> {
            name: String,
            #[serde(borrow)]
            arguments: Option<&'a RawValue>,
            #[serde(default, rename = "_meta")]
            meta: Map<String, Value>,
        }
        let params: Params<'_> =
            serde_json::from_str(request.params.as_str()).map_err(|error| Error::invalid_params(error.to_string()))?;
        Ok(Self {
            name: params.name,
            arguments: params.arguments.map_or_else(|| Json::trusted("{}"), Json::from),
            meta: params.meta,
            takes_task: request.takes_task,
        })
    }
}

/// The answer to a [`ToolCall`].
#[derive(Debug, Clone)]
pub struct CallAnswer(pub(super) Answer);

impl CallAnswer {
    /// This `CallToolResult`, an object, as it is. Anything else than an object is answered with −32603.
    pub fn result(result: impl Into<Json>) -> Self {
        Self(Answer::Result(result.into()))
    }

    /// A result of one text.
    pub fn text(text: impl AsRef<str>) -> Self {
        Self::result(json!({"content": [{"type": "text", "text": text.as_ref()}]}))
    }

    /// What a call of one of the server's own tools with these arguments is answered with: a result, or a task if the tool's policy and the client allow one. The
    /// tool need not be listed.
    pub fn call_of(tool: impl Into<Arc<str>>, arguments: impl Into<Json>) -> Self {
        Self(Answer::CallOf {
            tool: tool.into(),
            arguments: arguments.into(),
        })
    }
}
