//! A question of a server, as it came.

use crate::RequestRef;
use serde_json::{Map, Value};

/// A request to the client's user.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct InputRequest {
    /// Its name among the input requests of its call or task. A request of a legacy server has one if it is recorded: see
    /// [`TaskHandle::recorded_questions`](crate::TaskHandle::recorded_questions).
    pub key: Option<String>,
    /// The task that asks, if it is one.
    pub task: Option<String>,
    /// The [number](crate::CallOptions::source) of the call or request that asks, if it has one and the server asks in a response to it, or on its stream.
    pub source: Option<u64>,
    /// By what it can be answered from another process, if it is a request of a legacy server over HTTP: see
    /// [`TaskHandle::with_earlier_requests`](crate::TaskHandle::with_earlier_requests).
    pub request: Option<Box<RequestRef>>,
    /// `elicitation/create`, `sampling/createMessage` or `roots/list`.
    pub method: String,
    /// The request's params, as they came.
    pub params: Value,
}

impl InputRequest {
    pub(crate) fn new(key: Option<String>, task: Option<String>, request: Value) -> Self {
        let Value::Object(mut request) = request else {
            return Self {
                key,
                task,
                source: None,
                request: None,
                method: String::new(),
                params: Value::Null,
            };
        };
        let method = match request.remove("method") {
            Some(Value::String(method)) => method,
            _ => String::new(),
        };
        Self {
            key,
            task,
            source: None,
            request: None,
            method,
            params: request.remove("params").unwrap_or_default(),
        }
    }

    /// The text that the user is shown; empty if there is none.
    pub fn message(&self) -> &str {
        self.params["message"].as_str().unwrap_or_default()
    }

    /// The page that the user is sent to, if this is a URL elicitation.
    pub fn url(&self) -> Option<&str> {
        self.params["url"].as_str().filter(|_| self.params["mode"] == "url")
    }

    /// By what a legacy server knows the page of a URL elicitation (2025-11-25): see [`Connection::page_finished`](crate::Connection::page_finished).
    pub fn elicitation_id(&self) -> Option<&str> {
        self.params["elicitationId"].as_str().filter(|_| self.url().is_some())
    }

    /// The JSON Schema of the form, if this is a form elicitation.
    pub fn schema(&self) -> Option<&Value> {
        self.params.get("requestedSchema")
    }

    /// The defaults of the form's fields: an answer that leaves all of them as they are.
    pub fn defaults(&self) -> Map<String, Value> {
        let fields = self.schema().and_then(|schema| schema["properties"].as_object());
        let defaults = fields.into_iter().flatten();
        defaults
            .filter_map(|(name, field)| Some((name.clone(), field.get("default")?.clone())))
            .collect()
    }

    /// Whether it is an elicitation.
    pub fn is_elicitation(&self) -> bool {
        self.method == "elicitation/create"
    }
}
