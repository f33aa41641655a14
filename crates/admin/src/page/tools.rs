//! The tools and what becomes of their calls.

use super::{Frame, PageError, drawn, shown};
use crate::{access::Actor, action::pauses, context::AdminContext};
use askama::Template;
use axum::{
    Extension,
    extract::{OriginalUri, Path, State},
    response::{IntoResponse, Redirect, Response},
};
use http::StatusCode;
use longhaul_admin_api::{FailureView, ToolView};
use longhaul_core::{approximate_duration, plain_line};
use std::sync::Arc;

#[derive(Template)]
#[template(path = "tools.html")]
struct ToolsPage {
    frame: Frame,
    rows: Vec<ToolRow>,
}

struct ToolRow {
    tool: ToolView,
    queue_age: Option<String>,
    mean: String,
    rate: String,
    failure: Option<LastFailure>,
}

/// The latest failure, in words.
pub(super) struct LastFailure {
    pub(super) task: String,
    pub(super) ago: String,
    pub(super) reason: String,
}

impl LastFailure {
    pub(super) fn of(failure: FailureView) -> Self {
        Self {
            ago: approximate_duration(failure.ms_ago),
            reason: plain_line(&failure.reason.unwrap_or_default()),
            task: failure.task,
        }
    }
}

pub(super) fn mean(millis: Option<f64>) -> String {
    millis.map_or_else(String::new, |mean| approximate_duration(mean as u64))
}

/// Whole numbers are enough once there are some.
pub(super) fn rate(per_minute: f64) -> String {
    match per_minute {
        none if none <= 0.0 => "0".to_owned(),
        few if few < 10.0 => format!("{few:.1}"),
        many => format!("{many:.0}"),
    }
}

pub(super) async fn show(State(context): State<Arc<AdminContext>>, OriginalUri(uri): OriginalUri) -> Response {
    shown(&context, uri.path().to_owned(), draw(&context)).await
}

async fn draw(context: &AdminContext) -> Result<String, PageError> {
    let frame = Frame::of(context, "tools");
    let row = |tool: ToolView| ToolRow {
        queue_age: tool.queue_age_ms.map(approximate_duration),
        mean: mean(tool.mean_ms),
        rate: rate(tool.per_minute),
        failure: tool.last_failure.clone().map(LastFailure::of),
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
