//! Who calls: what a request or its session said about its sender, kept with the tasks it creates.

use longhaul_core::{Json, Origin, Outcome, RpcFailure};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::fmt;

/// The sender of a request, as it described itself. For a task that is the sender of the call that created it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Requestor {
    /// The protocol revision, as `2025-11-25`.
    pub version: String,
    /// Whether that is a modern revision.
    pub modern: bool,
    /// What the client calls itself, for display only (`clientInfo`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<Value>,
    /// What it can be asked.
    pub abilities: Abilities,
    /// Where its progress belongs (G1-46).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress_token: Option<Value>,
    /// The trace it continues (U-37).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<Trace>,
    /// Whether the task was announced before its tool asked for what is missing, so that it asks at its beginning.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub asks_first: bool,
    /// Members of its `_meta` that nothing in MCP or here is named for: what sender and tool have agreed on.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub meta: Map<String, Value>,
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

/// What a client has declared that it can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Abilities {
    /// Forms.
    pub elicit_form: bool,
    /// URLs.
    pub elicit_url: bool,
    /// Its model.
    pub sampling: bool,
    /// Its model, with tools.
    pub sampling_tools: bool,
    /// Its roots.
    pub roots: bool,
    /// It can make a task of a form of ours (G1-57).
    pub hosts_elicitation: bool,
    /// It can make a task of a sampling request of ours (G1-57).
    pub hosts_sampling: bool,
}

/// Something a client may be able to be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ability {
    /// A form.
    ElicitForm,
    /// A URL to open.
    ElicitUrl,
    /// Its model.
    Sampling,
    /// Its model, with tools.
    SamplingTools,
    /// Its roots.
    Roots,
}

impl Abilities {
    /// Whether `ability` is among them.
    pub fn has(&self, ability: Ability) -> bool {
        match ability {
            Ability::ElicitForm => self.elicit_form,
            Ability::ElicitUrl => self.elicit_url,
            Ability::Sampling => self.sampling,
            Ability::SamplingTools => self.sampling && self.sampling_tools,
            Ability::Roots => self.roots,
        }
    }
}

impl Ability {
    /// What a client must have declared to be asked `request`, `{"method": …, "params": …}`; `None` if nothing is known of it.
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
            ("elicitation/create", Some("url")) => Some(Self::ElicitUrl),
            ("elicitation/create", _) => Some(Self::ElicitForm),
            ("sampling/createMessage", _) if params.tools.is_some() => Some(Self::SamplingTools),
            ("sampling/createMessage", _) => Some(Self::Sampling),
            ("roots/list", _) => Some(Self::Roots),
            _ => None,
        }
    }
}

impl fmt::Display for Ability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ElicitForm => "elicitation (form)",
            Self::ElicitUrl => "elicitation (url)",
            Self::Sampling => "sampling",
            Self::SamplingTools => "sampling with tools",
            Self::Roots => "roots",
        })
    }
}

impl Requestor {
    /// Which generation it speaks.
    pub fn origin(&self) -> Origin {
        if self.modern { Origin::Modern } else { Origin::Legacy }
    }

    /// What a call comes to that has to ask this sender something it cannot be asked: −32021 with what it would have had to declare
    /// for a modern one, for a legacy one, whose session is settled, a result that says so.
    pub fn lacks(&self, ability: Ability) -> Outcome {
        let why = format!("This tool has to ask, and the client has not declared {ability}");
        if !self.modern {
            return Outcome::tool_error(&why);
        }
        let required = match ability {
            Ability::ElicitForm => json!({"elicitation": {"form": {}}}),
            Ability::ElicitUrl => json!({"elicitation": {"url": {}}}),
            Ability::Sampling => json!({"sampling": {}}),
            Ability::SamplingTools => json!({"sampling": {"tools": {}}}),
            Ability::Roots => json!({"roots": {}}),
        };
        Outcome::RpcError(RpcFailure {
            code: -32021,
            message: why.into(),
            data: Some(Json::from(json!({"requiredCapabilities": required}))),
        })
    }

    /// As it is kept with a task.
    pub fn to_json(&self) -> Json {
        Json::trusted(serde_json::to_string(self).unwrap_or_else(|_| "{}".to_owned()))
    }

    /// As it was kept. What cannot be read says nothing about its sender.
    pub fn from_json(json: &Json) -> Self {
        serde_json::from_str(json.as_str()).unwrap_or_default()
    }
}
