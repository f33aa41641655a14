//! Who has how many live tasks.

use super::{Frame, PageError, drawn, shown};
use crate::context::AdminContext;
use askama::Template;
use axum::{
    extract::{OriginalUri, State},
    response::Response,
};
use longhaul_admin_api::PrincipalView;
use longhaul_core::{approximate_duration, plain_line};
use std::sync::Arc;

#[derive(Template)]
#[template(path = "principals.html")]
struct PrincipalsPage {
    frame: Frame,
    counted: usize,
    or_more: bool,
    rows: Vec<PrincipalRow>,
}

struct PrincipalRow {
    shown: String,
    oldest: String,
    view: PrincipalView,
}

pub(super) async fn show(State(context): State<Arc<AdminContext>>, OriginalUri(uri): OriginalUri) -> Response {
    shown(&context, uri.path().to_owned(), draw(&context)).await
}

async fn draw(context: &AdminContext) -> Result<String, PageError> {
    let frame = Frame::of(context, "principals");
    let found = context.principals().await?;
    let row = |view: &PrincipalView| PrincipalRow {
        shown: plain_line(&view.principal),
        oldest: approximate_duration(view.oldest_ms),
        view: view.clone(),
    };
    Ok(drawn(&PrincipalsPage {
        frame,
        counted: found.counted,
        or_more: found.or_more,
        rows: found.principals.iter().map(row).collect(),
    }))
}
