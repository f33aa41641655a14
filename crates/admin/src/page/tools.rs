//! The tools and what becomes of their calls.

use super::{Frame, PageError, drawn, pauses, shown};
use crate::{access::Actor, context::AdminContext, view::ToolView, words::length};
use askama::Template;
use axum::{
    Extension,
    extract::{OriginalUri, Path, State},
    response::{IntoResponse, Redirect, Response},
};
use http::StatusCode;
use std::sync::Arc;

#[derive(Template)]
#[template(path = "tools.html")]
struct ToolsPage {
    frame: Frame,
    rows: Vec<Row>,
}

struct Row {
    tool: ToolView,
    queue_age: Option<String>,
    mean: String,
}

pub(super) async fn show(State(context): State<Arc<AdminContext>>, OriginalUri(uri): OriginalUri) -> Response {
    shown(&context, uri.path().to_owned(), draw(&context)).await
}

async fn draw(context: &AdminContext) -> Result<String, PageError> {
    let frame = Frame::of(context, "tools");
    let row = |tool: ToolView| Row {
        queue_age: tool.queue_age_millis.map(length),
        mean: tool
            .mean_seconds
            .map_or_else(String::new, |mean| length((mean * 1_000.0) as u64)),
        tool,
    };
    let rows = context.tools().await?.into_iter().map(row).collect();
    Ok(drawn(&ToolsPage { frame, rows }))
}

/// Pauses a tool, or ends its pause.
pub(super) async fn act(
    State(context): State<Arc<AdminContext>>,
    Extension(actor): Extension<Actor>,
    Path((name, action)): Path<(String, String)>,
) -> Response {
    let Some(paused) = pauses(&action) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    match context.set_paused(&actor, &name, paused).await {
        Ok(()) => Redirect::to("/tools").into_response(),
        Err(error) => PageError::from(error).show(&context, "/tools"),
    }
}
