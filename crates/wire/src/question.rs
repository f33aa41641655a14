//! Questions to a client: what tasks and rounds hold, `{"method":…,"params":…}` (U-15), and which answers fit them.

use crate::{
    error::{Capability, RpcError},
    json,
    object::object,
};
use serde_json::value::RawValue;

object! { struct Members { method = "method", params = "params", } }
object! { struct ParamMembers { mode = "mode", tools = "tools", requested_schema = "requestedSchema", } }
object! { struct RequestedSchema { required = "required", } }
object! { struct Elicited { action = "action", content = "content", } }
object! { struct Sampled { role = "role", content = "content", model = "model", } }
object! { struct Rooted { roots = "roots", } }
object! { struct Root { uri = "uri", } }

/// One of the three questions that exist.
///
/// ```
/// use longhaul_wire::{Capability, Question};
/// let question = Question::read(r#"{"method":"elicitation/create","params":{"mode":"url","url":"https://acme.example","message":"Pay"}}"#).unwrap();
/// assert_eq!(question.capability(), Capability::ElicitationUrl);
/// question.check(serde_json::from_str(r#"{"action":"accept"}"#).unwrap()).unwrap();
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    kind: Kind,
    params: Option<&'a RawValue>,
    /// Of a form.
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

/// The text is no question that a client could be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a question must be elicitation/create, sampling/createMessage or roots/list with its params")]
pub struct NotAQuestion;

impl<'a> Question<'a> {
    /// Reads a question.
    ///
    /// # Errors
    /// [`NotAQuestion`] for another method, an unknown mode of elicitation, or params that are missing or no object.
    pub fn read(request: &'a str) -> Result<Self, NotAQuestion> {
        let mut members = Members::default();
        members.fill(request).map_err(|_| NotAQuestion)?;
        let mut params = ParamMembers::default();
        if let Some(raw) = members.params {
            params.fill(raw.get()).map_err(|_| NotAQuestion)?;
        }
        let method = members.method.and_then(json::string).ok_or(NotAQuestion)?;
        // Many write what is absent as null.
        let present = |raw: Option<&'a RawValue>| raw.filter(|raw| !json::is_null(raw));
        let mode = present(params.mode).map(|raw| json::string(raw).unwrap_or_default());
        let kind = match (&*method, mode.as_deref(), present(params.tools)) {
            ("elicitation/create", None | Some("form"), _) => Kind::Form,
            ("elicitation/create", Some("url"), _) => Kind::Url,
            ("sampling/createMessage", _, None) => Kind::Sampling,
            ("sampling/createMessage", _, Some(_)) => Kind::SamplingWithTools,
            ("roots/list", ..) => Kind::Roots,
            _ => return Err(NotAQuestion),
        };
        if members.params.is_none() && kind != Kind::Roots {
            return Err(NotAQuestion);
        }
        Ok(Self {
            kind,
            params: members.params,
            requested_schema: params.requested_schema,
        })
    }

    /// What a client must have declared to be asked this (U-13, G1-42, G2-35).
    pub fn capability(&self) -> Capability {
        match self.kind {
            Kind::Form => Capability::ElicitationForm,
            Kind::Url => Capability::ElicitationUrl,
            Kind::Sampling => Capability::Sampling,
            Kind::SamplingWithTools => Capability::SamplingTools,
            Kind::Roots => Capability::Roots,
        }
    }

    /// Whether it sends the user to a URL.
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

    /// Whether `answer` has the shape of an answer to it; whether its content is acceptable is for whoever asked (G2-42). A form of
    /// which nothing is required may be accepted without content, which then counts as an empty object.
    ///
    /// # Errors
    /// −32602 that says what is wrong. The question stays open.
    pub fn check(&self, answer: &RawValue) -> Result<(), RpcError> {
        match self.kind {
            Kind::Form | Kind::Url => self.check_elicited(answer),
            Kind::Sampling | Kind::SamplingWithTools => check_sampled(answer),
            Kind::Roots => check_rooted(answer),
        }
    }

    fn check_elicited(&self, answer: &RawValue) -> Result<(), RpcError> {
        let mut result = Elicited::default();
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

fn check_sampled(answer: &RawValue) -> Result<(), RpcError> {
    let mut result = Sampled::default();
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

fn check_rooted(answer: &RawValue) -> Result<(), RpcError> {
    let right = || wrong("roots must be an array of objects with a uri");
    let mut result = Rooted::default();
    result
        .fill(answer.get())
        .map_err(|_| wrong("it must be an object with each member once"))?;
    let roots: Vec<&RawValue> = result
        .roots
        .and_then(|raw| serde_json::from_str(raw.get()).ok())
        .ok_or_else(right)?;
    let named = |raw: &&RawValue| {
        let mut root = Root::default();
        root.fill(raw.get()).is_ok() && root.uri.and_then(json::string).is_some()
    };
    if roots.iter().all(named) { Ok(()) } else { Err(right()) }
}

fn wrong(what: &str) -> RpcError {
    RpcError::invalid_params(format!("The answer does not fit its question: {what}"))
}
