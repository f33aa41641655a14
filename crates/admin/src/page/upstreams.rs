//! The upstreams of a gateway.

use super::{
    Frame, PageError, drawn, shown,
    tools::{LastFailure, mean, rate},
};
use crate::{access::Actor, action::pauses, context::AdminContext};
use askama::Template;
use axum::{
    Extension,
    extract::{OriginalUri, Path, State},
    response::{IntoResponse, Redirect, Response},
};
use http::StatusCode;
use longhaul_admin_api::UpstreamView;
use std::sync::Arc;

#[derive(Template)]
#[template(path = "upstreams.html")]
struct UpstreamsPage {
    frame: Frame,
    rows: Vec<UpstreamRow>,
}

struct UpstreamRow {
    mean: String,
    rate: String,
    failure: Option<LastFailure>,
    upstream: UpstreamView,
}

pub(super) async fn show(State(context): State<Arc<AdminContext>>, OriginalUri(uri): OriginalUri) -> Response {
    shown(&context, uri.path().to_owned(), draw(&context)).await
}

async fn draw(context: &AdminContext) -> Result<String, PageError> {
    let frame = Frame::of(context, "upstreams");
    let row = |upstream: UpstreamView| UpstreamRow {
        mean: mean(upstream.mean_ms),
        rate: rate(upstream.per_minute),
        failure: upstream.last_failure.clone().map(LastFailure::of),
        upstream,
    };
    let rows = context.upstreams().await?.into_iter().map(row).collect();
    Ok(drawn(&UpstreamsPage { frame, rows }))
}

/// Pauses all tools of an upstream, or ends their pause.
pub(super) async fn act(
    State(context): State<Arc<AdminContext>>,
    Extension(actor): Extension<Actor>,
    Path((name, action)): Path<(String, String)>,
) -> Response {
    let Some(paused) = pauses(&action) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    match context.set_upstream_paused(&actor, &name, paused).await {
        Ok(_) => Redirect::to("/upstreams").into_response(),
        Err(error) => PageError::from(error).show(&context, "/upstreams"),
    }
}
