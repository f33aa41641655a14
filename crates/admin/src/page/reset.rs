//! The page that shows what a reset drops, and asks first.

use super::{
    Frame, PageError, render,
    task::{EntryRow, entry, id, perform_and_redirect},
};
use crate::{access::Actor, action::TaskAction, context::AdminContext, view::entry_view};
use askama::Template;
use axum::{
    Extension, Form,
    extract::{Path, Query, State},
    response::Response,
};
use longhaul_admin_api::{ResetBody, TaskDetails};
use std::sync::Arc;

/// Entries that are shown.
const SHOWN: usize = 100;

#[derive(Template)]
#[template(path = "reset.html")]
struct ResetPage {
    frame: Frame,
    before: u32,
    is_live: bool,
    dropped: Vec<EntryRow>,
    has_more: bool,
    task: TaskDetails,
}

pub(super) async fn show(
    State(context): State<Arc<AdminContext>>,
    Path(text_of_id): Path<String>,
    Query(ResetBody { before }): Query<ResetBody>,
) -> Response {
    match page(&context, &text_of_id, before).await {
        Ok(page) => render(&page),
        Err(error) => error.show(&context, &format!("/tasks/{text_of_id}")),
    }
}

async fn page(context: &AdminContext, text_of_id: &str, before: u32) -> Result<ResetPage, PageError> {
    let frame = Frame::of(context, "tasks");
    let id = id(text_of_id)?;
    let record = context.record_of(&id).await?;
    let dropped = context
        .engine
        .history(&record.task, before.saturating_sub(1), SHOWN)
        .await?;
    Ok(ResetPage {
        frame,
        before,
        is_live: !record.task.is_done(),
        has_more: dropped.next < dropped.total,
        dropped: dropped
            .found
            .into_iter()
            .map(|(position, summary)| entry(&entry_view(position, summary)))
            .collect(),
        task: context.task(&id).await?,
    })
}

pub(super) async fn act(
    State(context): State<Arc<AdminContext>>,
    Extension(actor): Extension<Actor>,
    Path(text_of_id): Path<String>,
    Form(ResetBody { before }): Form<ResetBody>,
) -> Response {
    perform_and_redirect(&context, &actor, &text_of_id, TaskAction::Reset { before }).await
}
