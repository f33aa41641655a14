//! The schedules.

use super::{Frame, PageError, drawn, filters, shown};
use crate::{access::Actor, action::ScheduleAction, context::AdminContext};
use askama::Template;
use axum::{
    Extension,
    extract::{OriginalUri, Path, Query, State},
    response::{IntoResponse, Redirect, Response},
};
use http::StatusCode;
use longhaul_admin_api::{SchedulePage, ScheduleQuery};
use std::sync::Arc;

#[derive(Template)]
#[template(path = "schedules.html")]
struct SchedulesPage {
    frame: Frame,
    page: SchedulePage,
}

pub(super) async fn show(
    State(context): State<Arc<AdminContext>>,
    OriginalUri(uri): OriginalUri,
    Query(query): Query<ScheduleQuery>,
) -> Response {
    let address = uri.path_and_query().map_or("/schedules", |address| address.as_str());
    shown(&context, address.to_owned(), draw(&context, query)).await
}

async fn draw(context: &AdminContext, query: ScheduleQuery) -> Result<String, PageError> {
    let frame = Frame::of(context, "schedules");
    let page = context.schedules(&query).await?;
    Ok(drawn(&SchedulesPage { frame, page }))
}

pub(super) async fn act(
    State(context): State<Arc<AdminContext>>,
    Extension(actor): Extension<Actor>,
    Path((name, action)): Path<(String, String)>,
) -> Response {
    let Some(action) = ScheduleAction::named(&action) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    match context.act_on_schedule(&actor, &name, action).await {
        Ok(_) => Redirect::to("/schedules").into_response(),
        Err(error) => PageError::from(error).show(&context, "/schedules"),
    }
}
