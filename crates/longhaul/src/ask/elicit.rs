//! Form elicitation.

use super::{Ask, AskError, Form, QuestionKind};
use crate::RequestContext;
use longhaul_core::{BoxFuture, Capability};
use longhaul_wire::Form as WireForm;
use schemars::JsonSchema;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value};
use std::{future::IntoFuture, marker::PhantomData};

/// A form for the user; see [`RequestContext::elicit`].
pub struct Elicitation<T> {
    message: String,
    /// The form, or why the type has none.
    form: Result<WireForm, String>,
    answer: PhantomData<fn() -> T>,
}

/// What the user did with a question: the result of an elicitation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ElicitResult<T> {
    /// Accepted it, with this answer.
    Accepted(T),
    /// Declined it.
    Declined,
    /// Dismissed it without an answer (`cancel` in MCP).
    Dismissed,
}

impl<T> ElicitResult<T> {
    /// Converts the answer, if there is one.
    pub(super) fn map<U>(self, answer: impl FnOnce(T) -> U) -> ElicitResult<U> {
        match self {
            Self::Accepted(given) => ElicitResult::Accepted(answer(given)),
            Self::Declined => ElicitResult::Declined,
            Self::Dismissed => ElicitResult::Dismissed,
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
    /// Asks the client's user to fill in a form. The form is made from `T`, a struct that derives `Deserialize` and `JsonSchema` and is flat:
    /// strings, numbers, booleans, plain enums, lists of plain enums, and options of those. Doc comments describe the fields;
    /// `#[schemars(title = "…", length(max = 80), range(min = 1), email)]` adds to that.
    ///
    /// Awaiting it returns the answer, which fits the form; a question whose answer does not is asked again. If the user declines or dismisses
    /// the question, that is an error, and `?` ends the tool; [`answer`](Ask::answer) returns it as an [`ElicitResult`] instead.
    ///
    /// ```
    /// use longhaul::{ElicitResult, TaskContext, ToolResult, time::days};
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
    ///         ElicitResult::Accepted(_) if approval.approved => Ok("shipped"),
    ///         _ => Ok("not shipped"),
    ///     }
    /// }
    /// ```
    pub fn elicit<T>(&self, message: impl Into<String>) -> Ask<Elicitation<T>>
    where
        T: DeserializeOwned + JsonSchema + Send + 'static,
    {
        self.elicit_with(message, Form::of::<T>())
    }

    /// As [`elicit`](Self::elicit), with a form built at run time. The answer has the fields of the form.
    ///
    /// ```
    /// # use longhaul::{Field, Form, TaskContext, ToolResult};
    /// # async fn pick(cx: TaskContext, cities: Vec<String>) -> ToolResult<String> {
    /// let form = Form::new().field("city", Field::choice(cities)).optional("why", Field::text().max(80));
    /// let answer = cx.elicit_form("Where to?", form).await?;
    /// # Ok(answer["city"].to_string()) }
    /// ```
    pub fn elicit_form(&self, message: impl Into<String>, form: Form) -> Ask<Elicitation<Map<String, Value>>> {
        self.elicit_with(message, Ok(form))
    }

    fn elicit_with<T>(&self, message: impl Into<String>, form: Result<Form, String>) -> Ask<Elicitation<T>> {
        let question = Elicitation {
            message: message.into(),
            form: form.map(Form::into_wire),
            answer: PhantomData,
        };
        Ask::new(self, question)
    }
}

impl<T: DeserializeOwned + Send + 'static> Ask<Elicitation<T>> {
    /// Asks, and returns whether the user accepted, declined or dismissed the question.
    ///
    /// # Errors
    /// [`AskError`], except `Declined` and `Dismissed`.
    pub fn answer(self) -> BoxFuture<'static, Result<ElicitResult<T>, AskError>> {
        self.ask_within()
    }
}

impl<T: DeserializeOwned + Send + 'static> IntoFuture for Ask<Elicitation<T>> {
    type Output = Result<T, AskError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.ask_within().await?.accepted() })
    }
}

/// An `ElicitResult`.
#[derive(Deserialize)]
pub(super) struct ElicitAnswer {
    action: Action,
    #[serde(default)]
    content: Option<Map<String, Value>>,
}

impl ElicitAnswer {
    /// Reads what the user did, with the content if the question was accepted.
    pub(super) fn read(answer: &str) -> Result<ElicitResult<Option<Map<String, Value>>>, String> {
        let Self { action, content } = serde_json::from_str(answer).map_err(|error| error.to_string())?;
        Ok(match action {
            Action::Accept => ElicitResult::Accepted(content),
            Action::Decline => ElicitResult::Declined,
            Action::Cancel => ElicitResult::Dismissed,
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

impl<T: DeserializeOwned + Send + 'static> QuestionKind for Elicitation<T> {
    type Answer = ElicitResult<T>;

    fn request(&self, rejection: Option<&str>) -> Result<(Value, Capability), AskError> {
        let message = match rejection {
            None => self.message.clone(),
            Some(why) => format!("{}\n\nThe last answer could not be used: {why}", self.message),
        };
        let form = self.form.as_ref().map_err(|why| AskError::Invalid(why.clone()))?;
        Ok((form.request(&message), Capability::ElicitationForm))
    }

    fn read(&self, answer: &str) -> Result<ElicitResult<T>, String> {
        let content = match ElicitAnswer::read(answer)? {
            ElicitResult::Accepted(content) => content.unwrap_or_default(),
            ElicitResult::Declined => return Ok(ElicitResult::Declined),
            ElicitResult::Dismissed => return Ok(ElicitResult::Dismissed),
        };
        if let Ok(form) = &self.form {
            form.check(&content).map_err(|mistakes| mistakes.to_string())?;
        }
        serde_json::from_value(Value::Object(content))
            .map(ElicitResult::Accepted)
            .map_err(|error| error.to_string())
    }
}
