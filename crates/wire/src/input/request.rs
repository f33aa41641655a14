//! Input requests, `{"method":…,"params":…}`: what a client must declare for each, and which answers are valid.

use super::form::{Form, FormMistakes, InvalidForm};
use crate::{
    json::{
        self,
        object::{self, object},
    },
    protocol::RpcError,
};
use longhaul_core::{Capability, Json, RpcFailure};
use serde_json::{Map, value::RawValue};

object! { struct Members { method = "method", params = "params", } }
object! { struct ParamMembers { mode = "mode", tools = "tools", } }
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

    /// The form of an elicitation; `None` if it has none.
    pub fn form(&self) -> Option<Result<Form, InvalidForm>> {
        (self.kind == Kind::Form)
            .then(|| Form::of_params(self.params()))
            .flatten()
    }

    /// Checks that `answer` has the right structure, and the values of an accepted one against the form. One without required fields may be
    /// accepted without content, which then counts as an empty object.
    ///
    /// # Errors
    /// [`InvalidResponse`] says what is wrong.
    pub fn check(&self, answer: &RawValue) -> Result<(), InvalidResponse> {
        match self.kind {
            Kind::Form | Kind::Url => self.check_elicit_result(answer),
            Kind::Sampling | Kind::SamplingWithTools => check_create_message_result(answer),
            Kind::Roots => check_list_roots_result(answer),
        }
    }

    fn check_elicit_result(&self, answer: &RawValue) -> Result<(), InvalidResponse> {
        let mut result = ElicitResult::default();
        result.fill(answer.get()).map_err(|_| NO_OBJECT)?;
        let action = result.action.and_then(json::string);
        let accepted = match action.as_deref() {
            Some("accept") => true,
            Some("decline" | "cancel") => false,
            _ => return Err(InvalidResponse::Structure("action must be accept, decline or cancel")),
        };
        let content = match result.content.filter(|raw| !json::is_null(raw)) {
            Some(content) => serde_json::from_str(content.get())
                .map_err(|_| InvalidResponse::Structure("content must be an object"))?,
            None => Map::new(),
        };
        match self.form() {
            Some(form) if accepted => Ok(form?.check(&content)?),
            _ => Ok(()),
        }
    }
}

/// Why a response does not fit its input request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidResponse {
    /// It is not built as the protocol has it.
    #[error("{0}")]
    Structure(&'static str),
    /// The values do not fit the form.
    #[error(transparent)]
    Values(#[from] FormMistakes),
    /// No values fit: the form is none.
    #[error("{0}; it can only be declined")]
    Form(#[from] InvalidForm),
}

const NO_OBJECT: InvalidResponse = InvalidResponse::Structure("it must be an object with each member once");
/// The `data.reason` of [`InvalidResponse::into_failure`].
const REASON: &str = r#"{"reason":"invalid_answer"}"#;

impl InvalidResponse {
    /// What asked is told, where the client is not told that its answer was refused: it may ask again.
    pub fn into_failure(self) -> RpcFailure {
        RpcFailure {
            code: -32602,
            message: self.to_string().into(),
            data: Some(Json::trusted(REASON)),
        }
    }

    /// Whether this is such a failure.
    pub fn is_failure(failure: &RpcFailure) -> bool {
        let reason = |json: &str| object::find(json, &["reason"]).map(|reason| reason.get().to_owned());
        let data = failure.data.as_ref();
        data.is_some_and(|data| reason(data.as_str()) == reason(REASON))
    }
}

impl From<InvalidResponse> for RpcError {
    /// −32602. The input request stays open.
    fn from(error: InvalidResponse) -> Self {
        Self::invalid_params(format!("The answer does not fit its input request: {error}"))
    }
}

fn check_create_message_result(answer: &RawValue) -> Result<(), InvalidResponse> {
    let mut result = CreateMessageResult::default();
    result.fill(answer.get()).map_err(|_| NO_OBJECT)?;
    let role = result.role.and_then(json::string);
    if !matches!(role.as_deref(), Some("assistant" | "user")) {
        return Err(InvalidResponse::Structure("role must be assistant or user"));
    }
    if !result.content.is_some_and(|raw| raw.get().starts_with(['{', '['])) {
        return Err(InvalidResponse::Structure(
            "content must be an object or an array of them",
        ));
    }
    match result.model.and_then(json::string) {
        Some(_) => Ok(()),
        None => Err(InvalidResponse::Structure("model must be a string")),
    }
}

fn check_list_roots_result(answer: &RawValue) -> Result<(), InvalidResponse> {
    let mut result = ListRootsResult::default();
    result.fill(answer.get()).map_err(|_| NO_OBJECT)?;
    let roots: Option<Vec<&RawValue>> = result.roots.and_then(|raw| serde_json::from_str(raw.get()).ok());
    let named = |raw: &&RawValue| {
        let mut root = Root::default();
        root.fill(raw.get()).is_ok() && root.uri.and_then(json::string).is_some()
    };
    match roots {
        Some(roots) if roots.iter().all(named) => Ok(()),
        _ => Err(InvalidResponse::Structure(
            "roots must be an array of objects with a uri",
        )),
    }
}
