//! Input requests, `{"method":…,"params":…}`: what a client must declare for each, and which answers are valid.

use crate::{error::RpcError, json, object::object};
use longhaul_core::Capability;
use serde_json::value::RawValue;

object! { struct Members { method = "method", params = "params", } }
object! { struct ParamMembers { mode = "mode", tools = "tools", requested_schema = "requestedSchema", } }
object! { struct RequestedSchema { required = "required", } }
object! { struct ElicitResult { action = "action", content = "content", } }
object! { struct CreateMessageResult { role = "role", content = "content", model = "model", } }
object! { struct ListRootsResult { roots = "roots", } }
object! { struct Root { uri = "uri", } }

/// An input request: an elicitation, a sampling request, or a request for the roots.
///
/// ```
/// use longhaul_core::Capability;
/// use longhaul_wire::InputRequest;
/// let request = InputRequest::read(r#"{"method":"elicitation/create","params":{"mode":"url","url":"https://acme.example","message":"Pay"}}"#).unwrap();
/// assert_eq!(request.capability(), Capability::ElicitationUrl);
/// request.check(serde_json::from_str(r#"{"action":"accept"}"#).unwrap()).unwrap();
/// ```
#[derive(Debug, Clone, Copy)]
pub struct InputRequest<'a> {
    kind: Kind,
    params: Option<&'a RawValue>,
    /// Of an elicitation by form.
    requested_schema: Option<&'a RawValue>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Form,
    Url,
    Sampling,
    SamplingWithTools,
    Roots,
}

/// The text is not a valid input request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an input request must be elicitation/create, sampling/createMessage or roots/list with its params")]
pub struct InvalidInputRequest;

impl<'a> InputRequest<'a> {
    /// Reads an input request.
    ///
    /// # Errors
    /// [`InvalidInputRequest`] for another method, an unknown mode of elicitation, or params that are missing or not an object.
    pub fn read(request: &'a str) -> Result<Self, InvalidInputRequest> {
        let mut members = Members::default();
        members.fill(request).map_err(|_| InvalidInputRequest)?;
        let mut params = ParamMembers::default();
        if let Some(raw) = members.params {
            params.fill(raw.get()).map_err(|_| InvalidInputRequest)?;
        }
        let method = members.method.and_then(json::string).ok_or(InvalidInputRequest)?;
        // Many peers write an absent member as null.
        let present = |raw: Option<&'a RawValue>| raw.filter(|raw| !json::is_null(raw));
        let mode = present(params.mode).map(|raw| json::string(raw).unwrap_or_default());
        let kind = match (&*method, mode.as_deref(), present(params.tools)) {
            ("elicitation/create", None | Some("form"), _) => Kind::Form,
            ("elicitation/create", Some("url"), _) => Kind::Url,
            ("sampling/createMessage", _, None) => Kind::Sampling,
            ("sampling/createMessage", _, Some(_)) => Kind::SamplingWithTools,
            ("roots/list", ..) => Kind::Roots,
            _ => return Err(InvalidInputRequest),
        };
        if members.params.is_none() && kind != Kind::Roots {
            return Err(InvalidInputRequest);
        }
        Ok(Self {
            kind,
            params: members.params,
            requested_schema: params.requested_schema,
        })
    }

    /// The capability that a client must have declared to receive it.
    pub fn capability(&self) -> Capability {
        match self.kind {
            Kind::Form => Capability::ElicitationForm,
            Kind::Url => Capability::ElicitationUrl,
            Kind::Sampling => Capability::Sampling,
            Kind::SamplingWithTools => Capability::SamplingTools,
            Kind::Roots => Capability::Roots,
        }
    }

    /// Whether it is an elicitation by URL.
    pub(crate) fn is_url(&self) -> bool {
        self.kind == Kind::Url
    }

    pub(crate) fn method(&self) -> &'static str {
        match self.kind {
            Kind::Form | Kind::Url => "elicitation/create",
            Kind::Sampling | Kind::SamplingWithTools => "sampling/createMessage",
            Kind::Roots => "roots/list",
        }
    }

    pub(crate) fn params(&self) -> &'a str {
        self.params.map_or("{}", RawValue::get)
    }

    /// Checks that `answer` has the right structure. The content of a form is not checked against its schema. A form without
    /// required fields may be accepted without content, which then counts as an empty object.
    ///
    /// # Errors
    /// −32602 that says what is wrong. The input request stays open.
    pub fn check(&self, answer: &RawValue) -> Result<(), RpcError> {
        match self.kind {
            Kind::Form | Kind::Url => self.check_elicit_result(answer),
            Kind::Sampling | Kind::SamplingWithTools => check_create_message_result(answer),
            Kind::Roots => check_list_roots_result(answer),
        }
    }

    fn check_elicit_result(&self, answer: &RawValue) -> Result<(), RpcError> {
        let mut result = ElicitResult::default();
        result
            .fill(answer.get())
            .map_err(|_| wrong("it must be an object with each member once"))?;
        let action = result.action.and_then(json::string);
        let accepted = match action.as_deref() {
            Some("accept") => true,
            Some("decline" | "cancel") => false,
            _ => return Err(wrong("action must be accept, decline or cancel")),
        };
        match result.content.filter(|raw| !json::is_null(raw)) {
            Some(content) if !json::is_object(content) => Err(wrong("content must be an object")),
            None if accepted && self.requires_content() => {
                Err(wrong("content is missing: the accepted form has required fields"))
            }
            _ => Ok(()),
        }
    }

    /// Whether it is a form with required fields.
    fn requires_content(&self) -> bool {
        let mut schema = RequestedSchema::default();
        let read = self.requested_schema.is_some_and(|raw| schema.fill(raw.get()).is_ok());
        let required = schema
            .required
            .and_then(|raw| serde_json::from_str::<Vec<&RawValue>>(raw.get()).ok());
        self.kind == Kind::Form && read && required.is_some_and(|fields| !fields.is_empty())
    }
}

fn check_create_message_result(answer: &RawValue) -> Result<(), RpcError> {
    let mut result = CreateMessageResult::default();
    result
        .fill(answer.get())
        .map_err(|_| wrong("it must be an object with each member once"))?;
    if !matches!(
        result.role.and_then(json::string).as_deref(),
        Some("assistant" | "user")
    ) {
        return Err(wrong("role must be assistant or user"));
    }
    if !result.content.is_some_and(|raw| raw.get().starts_with(['{', '['])) {
        return Err(wrong("content must be an object or an array of them"));
    }
    match result.model.and_then(json::string) {
        Some(_) => Ok(()),
        None => Err(wrong("model must be a string")),
    }
}

fn check_list_roots_result(answer: &RawValue) -> Result<(), RpcError> {
    let wrong_roots = || wrong("roots must be an array of objects with a uri");
    let mut result = ListRootsResult::default();
    result
        .fill(answer.get())
        .map_err(|_| wrong("it must be an object with each member once"))?;
    let roots: Vec<&RawValue> = result
        .roots
        .and_then(|raw| serde_json::from_str(raw.get()).ok())
        .ok_or_else(wrong_roots)?;
    let named = |raw: &&RawValue| {
        let mut root = Root::default();
        root.fill(raw.get()).is_ok() && root.uri.and_then(json::string).is_some()
    };
    if roots.iter().all(named) {
        Ok(())
    } else {
        Err(wrong_roots())
    }
}

fn wrong(what: &str) -> RpcError {
    RpcError::invalid_params(format!("The answer does not fit its input request: {what}"))
}
