//! Asking a person to fill in a form.

use super::{Ask, AskError, Form, Questioning};
use crate::RequestContext;
use longhaul_core::BoxFuture;
use longhaul_runtime::Ability;
use schemars::JsonSchema;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};
use std::{fmt::Write, future::IntoFuture, marker::PhantomData};

/// How many faults of an answer the next question names.
const NAMED_FAULTS: usize = 5;

/// A question to a person; see [`RequestContext::elicit`].
pub struct Elicitation<T> {
    message: String,
    /// Or why there is none for the type.
    form: Result<Form, String>,
    answer: PhantomData<fn() -> T>,
}

/// What a person did with a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Elicited<T> {
    /// Answered it.
    Accepted(T),
    /// Said no.
    Declined,
    /// Dismissed it.
    Dismissed,
}

impl<T> Elicited<T> {
    /// The same with another answer.
    pub(super) fn map<U>(self, answer: impl FnOnce(T) -> U) -> Elicited<U> {
        match self {
            Self::Accepted(given) => Elicited::Accepted(answer(given)),
            Self::Declined => Elicited::Declined,
            Self::Dismissed => Elicited::Dismissed,
        }
    }

    /// The answer, or the error that it was declined or dismissed.
    ///
    /// # Errors
    /// [`AskError::Declined`], [`AskError::Dismissed`].
    pub fn accepted(self) -> Result<T, AskError> {
        match self {
            Self::Accepted(answer) => Ok(answer),
            Self::Declined => Err(AskError::Declined),
            Self::Dismissed => Err(AskError::Dismissed),
        }
    }
}

impl RequestContext {
    /// Asks the person in front of the client to fill in a form. The form is made from `T`, a struct that derives `Deserialize` and
    /// `JsonSchema` and is flat: texts, numbers, booleans, plain enums, lists of plain enums, and options of those. Doc comments
    /// describe the fields; `#[schemars(title = "…", length(max = 80), range(min = 1), email)]` say more.
    ///
    /// Awaiting it gives the answer, checked against the form; an answer that does not fit is asked for again. A person who says no
    /// ends the tool by `?`, as [`AskError::Declined`]; [`answer`](Ask::answer) tells the cases apart instead.
    ///
    /// ```
    /// use longhaul::{Elicited, TaskContext, ToolResult, time::days};
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Approval {
    ///     /// Ship it?
    ///     approved: bool,
    ///     /// Which way.
    ///     #[serde(default)]
    ///     speed: Speed,
    /// }
    /// #[derive(Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
    /// enum Speed { #[default] Slow, Fast }
    ///
    /// async fn ship(cx: TaskContext) -> ToolResult<&'static str> {
    ///     let approval: Approval = cx.elicit("Ship it?").within(days(3)).await?;
    ///     match cx.elicit::<Approval>("Really?").key("sure").answer().await? {
    ///         Elicited::Accepted(_) if approval.approved => Ok("shipped"),
    ///         _ => Ok("not shipped"),
    ///     }
    /// }
    /// ```
    pub fn elicit<T>(&self, message: impl Into<String>) -> Ask<Elicitation<T>>
    where
        T: DeserializeOwned + JsonSchema + Send + 'static,
    {
        self.ask_person(message, Form::of::<T>())
    }

    /// As [`elicit`](Self::elicit), with a form that is made while the server runs. The answer's members are those of the form.
    ///
    /// ```
    /// # use longhaul::{Field, Form, TaskContext, ToolResult};
    /// # async fn pick(cx: TaskContext, cities: Vec<String>) -> ToolResult<String> {
    /// let form = Form::new().field("city", Field::choice(cities)).optional("why", Field::text().max(80));
    /// let answer = cx.elicit_form("Where to?", form).await?;
    /// # Ok(answer["city"].to_string()) }
    /// ```
    pub fn elicit_form(&self, message: impl Into<String>, form: Form) -> Ask<Elicitation<Map<String, Value>>> {
        self.ask_person(message, Ok(form))
    }

    fn ask_person<T>(&self, message: impl Into<String>, form: Result<Form, String>) -> Ask<Elicitation<T>> {
        let question = Elicitation {
            message: message.into(),
            form,
            answer: PhantomData,
        };
        Ask::new(self, question)
    }
}

impl<T: DeserializeOwned + Send + 'static> Ask<Elicitation<T>> {
    /// Asks, and tells whether the person answered, declined, or dismissed the question.
    ///
    /// # Errors
    /// [`AskError`], but neither of those two.
    pub fn answer(self) -> BoxFuture<'static, Result<Elicited<T>, AskError>> {
        self.asked()
    }
}

impl<T: DeserializeOwned + Send + 'static> IntoFuture for Ask<Elicitation<T>> {
    type Output = Result<T, AskError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.asked().await?.accepted() })
    }
}

/// An `ElicitResult`.
#[derive(Deserialize)]
pub(super) struct Answer {
    action: Action,
    content: Option<Value>,
}

impl Answer {
    /// What the person did, with the content of what was accepted.
    pub(super) fn read(answer: &str) -> Result<Elicited<Option<Value>>, String> {
        let Self { action, content } = serde_json::from_str(answer).map_err(|error| error.to_string())?;
        Ok(match action {
            Action::Accept => Elicited::Accepted(content),
            Action::Decline => Elicited::Declined,
            Action::Cancel => Elicited::Dismissed,
        })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Action {
    Accept,
    Decline,
    Cancel,
}

impl<T: DeserializeOwned + Send + 'static> Questioning for Elicitation<T> {
    type Answer = Elicited<T>;

    fn request(&self, unfit: Option<&str>) -> Result<(Value, Ability), AskError> {
        let message = match unfit {
            None => self.message.clone(),
            Some(why) => format!("{}\n\nThe last answer could not be used: {why}", self.message),
        };
        let form = self.form.as_ref().map_err(|why| AskError::Invalid(why.clone()))?;
        let params = json!({"mode": "form", "message": message, "requestedSchema": form.schema()});
        Ok((
            json!({"method": "elicitation/create", "params": params}),
            Ability::ElicitForm,
        ))
    }

    fn read(&self, answer: &str) -> Result<Elicited<T>, String> {
        let content = match Answer::read(answer)? {
            Elicited::Accepted(content) => content.unwrap_or_else(|| json!({})),
            Elicited::Declined => return Ok(Elicited::Declined),
            Elicited::Dismissed => return Ok(Elicited::Dismissed),
        };
        if let Ok(form) = &self.form {
            check(&form.schema(), &content)?;
        }
        serde_json::from_value(content)
            .map(Elicited::Accepted)
            .map_err(|error| error.to_string())
    }
}

fn check(schema: &Value, content: &Value) -> Result<(), String> {
    let validator = jsonschema::options().should_validate_formats(true).build(schema);
    let validator = validator.map_err(|error| error.to_string())?;
    let mut faults = String::new();
    for fault in validator.iter_errors(content).take(NAMED_FAULTS) {
        let place = fault.instance_path().to_string();
        let separator = if faults.is_empty() { "" } else { "; " };
        let colon = if place.is_empty() { "" } else { ": " };
        // Writing to a string cannot fail.
        let _ = write!(
            faults,
            "{separator}{}{colon}{}",
            place.trim_start_matches('/'),
            fault.masked()
        );
    }
    if faults.is_empty() { Ok(()) } else { Err(faults) }
}
