//! The form that calls a tool.

use super::{
    Frame, PageError,
    question::{AnswerInput, AnswerProblem, Question, RefusedAnswer, content},
    render,
};
use crate::{access::Actor, action::ActionError, context::AdminContext};
use askama::Template;
use axum::{
    Extension, Form,
    extract::{Path, State},
    response::{IntoResponse, Redirect, Response},
};
use http::StatusCode;
use longhaul_core::Json;
use longhaul_runtime::Tool;
use longhaul_wire::Form as WireForm;
use serde_json::Value;
use std::{collections::BTreeSet, sync::Arc};

#[derive(Template)]
#[template(path = "call.html")]
struct CallPage {
    frame: Frame,
    tool: String,
    description: String,
    arguments: Question,
}

/// The key of the form.
const KEY: &str = "arguments";

/// A form, or JSON where the tool's schema has what no field can hold, or names nothing that the tool takes.
fn input(tool: &Tool) -> AnswerInput {
    let settings = tool.settings();
    let mut schema = settings.input_schema.clone();
    for name in &settings.secrets {
        // No format of forms.
        let property = schema["properties"].get_mut(name).and_then(Value::as_object_mut);
        property.and_then(|property| property.remove("format"));
    }
    match WireForm::parse(&schema.to_string()) {
        Ok(form) if form.is_closed || !form.fields.is_empty() => AnswerInput::Fields(form),
        _ => AnswerInput::Json,
    }
}

/// Has browsers neither show nor keep what is entered for secrets.
fn hide_secrets(fields: &mut [String], input: &AnswerInput, secrets: &BTreeSet<String>) {
    let AnswerInput::Fields(form) = input else { return };
    for (html, field) in fields.iter_mut().zip(&form.fields) {
        if secrets.contains(&field.name) {
            *html = html.replacen("type=\"text\"", "type=\"password\" autocomplete=\"off\"", 1);
        }
    }
}

fn page(context: &AdminContext, name: &str, refused: Option<&RefusedAnswer>) -> Result<CallPage, PageError> {
    let tool = tool(context, name)?;
    let input = input(&tool);
    let mut arguments = Question::new(KEY, &input, refused);
    hide_secrets(&mut arguments.fields, &input, &tool.settings().secrets);
    if arguments.is_raw && arguments.raw.is_empty() {
        arguments.raw = "{}".to_owned();
    }
    Ok(CallPage {
        frame: Frame::of_result(context, "tools"),
        tool: name.to_owned(),
        description: tool.settings().description.clone(),
        arguments,
    })
}

fn tool(context: &AdminContext, name: &str) -> Result<Arc<Tool>, PageError> {
    let tool = context.engine.catalog().tool(name);
    tool.ok_or_else(|| ActionError::UnknownTool.into())
}

pub(super) async fn show(State(context): State<Arc<AdminContext>>, Path(name): Path<String>) -> Response {
    match page(&context, &name, None) {
        Ok(page) => render(&page),
        Err(error) => error.show(&context, "/tools"),
    }
}

pub(super) async fn act(
    State(context): State<Arc<AdminContext>>,
    Extension(actor): Extension<Actor>,
    Path(name): Path<String>,
    Form(form): Form<Vec<(String, String)>>,
) -> Response {
    let why = match called(&context, &actor, &name, &form).await {
        Ok(address) => return Redirect::to(&address).into_response(),
        Err(NotCalled::DoesNotFit(why)) => why,
        Err(NotCalled::Page(error)) => return error.show(&context, "/tools"),
    };
    // What was entered is shown again, but not of a tool with secrets.
    let has_secrets = tool(&context, &name).is_ok_and(|tool| !tool.settings().secrets.is_empty());
    let form = form
        .into_iter()
        .filter(|(field, _)| !has_secrets || field == "key")
        .collect();
    match page(&context, &name, Some(&RefusedAnswer { form, why })) {
        Ok(page) => (StatusCode::BAD_REQUEST, render(&page)).into_response(),
        Err(error) => error.show(&context, "/tools"),
    }
}

/// Why nothing was called.
enum NotCalled {
    /// It can be put right.
    DoesNotFit(AnswerProblem),
    Page(PageError),
}

/// The page of the new task.
async fn called(
    context: &AdminContext,
    actor: &Actor,
    name: &str,
    form: &[(String, String)],
) -> Result<String, NotCalled> {
    let whole = |what: String| NotCalled::DoesNotFit(AnswerProblem::Whole(what));
    let tool = tool(context, name).map_err(NotCalled::Page)?;
    let raw = form.iter().find(|(field, _)| field == "raw");
    let arguments = match (raw, input(&tool)) {
        (None, AnswerInput::Fields(fields)) => {
            let content = content(&fields, form);
            fields
                .check(&content)
                .map_err(|mistakes| NotCalled::DoesNotFit(AnswerProblem::Fields(mistakes)))?;
            Json::from(Value::Object(content))
        }
        // As it was written: a parsed number could be another one.
        (raw, _) => {
            let text = raw.map_or("", |(_, text)| text);
            Json::parse(text).map_err(|error| whole(error.to_string()))?
        }
    };
    match context.call_tool(actor, name, arguments).await {
        Ok(task) => Ok(format!("/tasks/{}", task.id)),
        Err(ActionError::Invalid(what)) => Err(whole(what)),
        Err(error) => Err(NotCalled::Page(error.into())),
    }
}
