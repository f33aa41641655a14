//! The form that calls a tool.

use super::{
    Frame, PageError,
    question::{self, Question, RefusedAnswer},
    render,
};
use crate::{
    access::Actor,
    action::ActionError,
    context::AdminContext,
    form_check::{Violation, Violations},
};
use askama::Template;
use axum::{
    Extension, Form,
    extract::{Path, State},
    response::{IntoResponse, Redirect, Response},
};
use http::StatusCode;
use longhaul_admin_api::QuestionView;
use longhaul_core::Json;
use longhaul_runtime::Tool;
use serde_json::json;
use std::sync::Arc;

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

/// The arguments of a tool as a question: a form, or JSON where its schema has what no field can hold.
fn asked(tool: &Tool) -> QuestionView {
    let schema = &tool.settings().input_schema;
    let method = match question::has_field_for_each(schema) {
        true => "elicitation/create",
        false => "tools/call",
    };
    QuestionView {
        key: KEY.to_owned(),
        asked_at: String::new(),
        method: method.to_owned(),
        params: json!({"requestedSchema": schema}),
    }
}

fn page(context: &AdminContext, name: &str, refused: Option<&RefusedAnswer>) -> Result<CallPage, PageError> {
    let tool = tool(context, name)?;
    let mut arguments = Question::of(&asked(&tool), refused);
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
    let violations = match called(&context, &actor, &name, &form).await {
        Ok(address) => return Redirect::to(&address).into_response(),
        Err(NotCalled::DoesNotFit(violations)) => violations,
        Err(NotCalled::Page(error)) => return error.show(&context, "/tools"),
    };
    match page(&context, &name, Some(&RefusedAnswer { form, violations })) {
        Ok(page) => (StatusCode::BAD_REQUEST, render(&page)).into_response(),
        Err(error) => error.show(&context, "/tools"),
    }
}

/// Why nothing was called.
enum NotCalled {
    /// It can be put right.
    DoesNotFit(Violations),
    Page(PageError),
}

/// The page of the new task.
async fn called(
    context: &AdminContext,
    actor: &Actor,
    name: &str,
    form: &[(String, String)],
) -> Result<String, NotCalled> {
    let whole = |what: String| NotCalled::DoesNotFit(Violations(vec![Violation { field: None, what }]));
    let tool = tool(context, name).map_err(NotCalled::Page)?;
    let asked = asked(&tool);
    let raw = form.iter().find(|(field, _)| field == "raw");
    let arguments = match raw {
        // As it was written: a parsed number could be another one.
        Some((_, text)) => Json::parse(text).map_err(|error| whole(error.to_string()))?,
        None => {
            let answer = question::answer(&asked, form).map_err(NotCalled::DoesNotFit)?;
            Json::from(&answer["content"])
        }
    };
    match context.call_tool(actor, name, arguments).await {
        Ok(task) => Ok(format!("/tasks/{}", task.id)),
        Err(ActionError::Invalid(what)) => Err(whole(what)),
        Err(error) => Err(NotCalled::Page(error.into())),
    }
}
