//! What a client declares that it can do.

use crate::{Json, RpcFailure};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::{fmt, sync::Arc};

/// The code of the error of a modern server whose client has not declared a capability that it needs: `MissingRequiredClientCapabilityError`.
pub const MISSING_CAPABILITY: i32 = -32021;

/// The client capabilities Longhaul acts on. A legacy client declares them for a session, a modern one in each request.
///
/// They are stored with each task, since they say what its client can be asked. `tasks` and `legacy_tasks` do not say that, so they are not
/// stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClientCapabilities {
    /// `extensions["io.modelcontextprotocol/tasks"]`: accepts a task as the answer to a call.
    #[serde(skip)]
    pub tasks: bool,
    /// `tasks`: the legacy capability. In a modern request it only gives access to the client's own legacy tasks.
    #[serde(skip)]
    pub legacy_tasks: bool,
    /// `elicitation`, empty or with `form`.
    #[serde(rename = "elicitForm")]
    pub elicitation_form: bool,
    /// `elicitation.url`.
    #[serde(rename = "elicitUrl")]
    pub elicitation_url: bool,
    /// `sampling`.
    pub sampling: bool,
    /// `sampling.tools`.
    pub sampling_tools: bool,
    /// `roots`.
    pub roots: bool,
    /// `tasks.requests.elicitation.create`: answers an elicitation request with a task of its own.
    #[serde(rename = "hostsElicitation")]
    pub elicitation_tasks: bool,
    /// `tasks.requests.sampling.createMessage`: answers a sampling request with a task of its own.
    #[serde(rename = "hostsSampling")]
    pub sampling_tasks: bool,
}

/// A client capability that a request or an input request can require.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Capability {
    /// The tasks extension.
    Tasks,
    /// Elicitation by form.
    ElicitationForm,
    /// Elicitation by URL.
    ElicitationUrl,
    /// Sampling: requests to the client's model.
    Sampling,
    /// Sampling with tools the model may call.
    SamplingTools,
    /// Listing the client's roots.
    Roots,
}

impl ClientCapabilities {
    /// Whether the client has declared `capability`.
    pub fn has(&self, capability: Capability) -> bool {
        match capability {
            Capability::Tasks => self.tasks,
            Capability::ElicitationForm => self.elicitation_form,
            Capability::ElicitationUrl => self.elicitation_url,
            Capability::Sampling => self.sampling,
            Capability::SamplingTools => self.sampling && self.sampling_tools,
            Capability::Roots => self.roots,
        }
    }

    /// What a client with these capabilities declares, as MCP writes it, without the task capabilities.
    ///
    /// ```
    /// let has = longhaul_core::ClientCapabilities { elicitation_form: true, roots: true, ..Default::default() };
    /// assert_eq!(serde_json::Value::from(has.declaration()).to_string(), r#"{"elicitation":{"form":{}},"roots":{}}"#);
    /// ```
    pub fn declaration(&self) -> Map<String, Value> {
        let object = |members: &[(&str, bool)]| {
            let declared = members.iter().filter(|(_, has)| *has);
            Value::Object(
                declared
                    .map(|(name, _)| ((*name).to_owned(), Value::Object(Map::new())))
                    .collect(),
            )
        };
        let mut declared = Map::new();
        if self.elicitation_form || self.elicitation_url {
            let modes = object(&[("form", self.elicitation_form), ("url", self.elicitation_url)]);
            declared.insert("elicitation".to_owned(), modes);
        }
        if self.sampling {
            declared.insert("sampling".to_owned(), object(&[("tools", self.sampling_tools)]));
        }
        if self.roots {
            declared.insert("roots".to_owned(), object(&[]));
        }
        declared
    }
}

impl Capability {
    /// The capability that a client must have declared so that the server may send it `request`; `None` if the request's method is unknown.
    /// `request` is `{"method": …, "params": …}`.
    pub fn needed_by(request: &Json) -> Option<Self> {
        #[derive(Deserialize)]
        struct Request {
            method: String,
            #[serde(default)]
            params: Params,
        }
        #[derive(Deserialize, Default)]
        struct Params {
            mode: Option<String>,
            tools: Option<serde::de::IgnoredAny>,
        }
        let Request { method, params } = serde_json::from_str(request.as_str()).ok()?;
        match (&*method, params.mode.as_deref()) {
            ("elicitation/create", Some("url")) => Some(Self::ElicitationUrl),
            ("elicitation/create", _) => Some(Self::ElicitationForm),
            ("sampling/createMessage", _) if params.tools.is_some() => Some(Self::SamplingTools),
            ("sampling/createMessage", _) => Some(Self::Sampling),
            ("roots/list", _) => Some(Self::Roots),
            _ => None,
        }
    }

    /// The error −32021, for a modern client that has not declared this capability.
    pub fn missing(self, message: impl Into<Arc<str>>) -> RpcFailure {
        let required = match self {
            Self::Tasks => r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#,
            Self::ElicitationForm => r#"{"elicitation":{"form":{}}}"#,
            Self::ElicitationUrl => r#"{"elicitation":{"url":{}}}"#,
            Self::Sampling => r#"{"sampling":{}}"#,
            Self::SamplingTools => r#"{"sampling":{"tools":{}}}"#,
            Self::Roots => r#"{"roots":{}}"#,
        };
        RpcFailure {
            code: MISSING_CAPABILITY,
            message: message.into(),
            data: Some(Json::trusted(format!(r#"{{"requiredCapabilities":{required}}}"#))),
        }
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tasks => "tasks",
            Self::ElicitationForm => "elicitation (form)",
            Self::ElicitationUrl => "elicitation (url)",
            Self::Sampling => "sampling",
            Self::SamplingTools => "sampling with tools",
            Self::Roots => "roots",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requestors are stored with their tasks, so the names cannot change.
    #[test]
    fn the_stored_names_of_capabilities_stay() {
        let all = ClientCapabilities {
            tasks: true,
            legacy_tasks: true,
            elicitation_form: true,
            elicitation_url: true,
            sampling: true,
            sampling_tools: true,
            roots: true,
            elicitation_tasks: true,
            sampling_tasks: true,
        };
        let stored = r#"{"elicitForm":true,"elicitUrl":true,"sampling":true,"samplingTools":true,"roots":true,"hostsElicitation":true,"hostsSampling":true}"#;
        assert_eq!(serde_json::to_string(&all).unwrap(), stored);
        let read: ClientCapabilities = serde_json::from_str(stored).unwrap();
        let without_tasks = ClientCapabilities {
            tasks: false,
            legacy_tasks: false,
            ..all
        };
        assert_eq!(read, without_tasks);
    }
}
