//! The servers of the store.

use super::{Frame, PageError, drawn, render, shown};
use crate::{access::Actor, context::AdminContext, nodes::NodeView, words::length};
use askama::Template;
use axum::{
    Extension,
    extract::{OriginalUri, Path, State},
    response::{IntoResponse, Redirect, Response},
};
use std::{sync::Arc, time::Duration};

/// For so long a server that is stopped here goes on, so that the browser has the style of its last page, too.
const LAST_PAGE: Duration = Duration::from_secs(1);

#[derive(Template)]
#[template(path = "nodes.html")]
struct NodesPage {
    frame: Frame,
    rows: Vec<Row>,
    lost_after: String,
}

#[derive(Template)]
#[template(path = "drained.html")]
struct DrainedPage {
    frame: Frame,
}

struct Row {
    node: NodeView,
    lease: String,
}

pub(super) async fn show(State(context): State<Arc<AdminContext>>, OriginalUri(uri): OriginalUri) -> Response {
    shown(&context, uri.path().to_owned(), draw(&context)).await
}

async fn draw(context: &AdminContext) -> Result<String, PageError> {
    let frame = Frame::of(context, "nodes");
    let found = context.nodes().await?;
    let row = |node: NodeView| Row {
        lease: match (node.lease_millis, node.host_away_millis) {
            (Some(left), _) => format!("for {} more", length(left)),
            (None, Some(away)) => format!("its host is away for {}", length(away)),
            (None, None) => String::new(),
        },
        node,
    };
    Ok(drawn(&NodesPage {
        frame,
        rows: found.nodes.into_iter().map(row).collect(),
        lost_after: length(found.lost_after_millis),
    }))
}

/// Gives up the host of a dead server.
pub(super) async fn give_up(
    State(context): State<Arc<AdminContext>>,
    Extension(actor): Extension<Actor>,
    Path(node): Path<i64>,
) -> Response {
    match context.give_up_host(&actor, node).await {
        Ok(()) => Redirect::to("/nodes").into_response(),
        Err(error) => PageError::from(error).show(&context, "/nodes"),
    }
}

/// Stops this server.
pub(super) async fn drain(State(context): State<Arc<AdminContext>>, Extension(actor): Extension<Actor>) -> Response {
    let page = DrainedPage {
        frame: Frame::of(&context, "nodes"),
    };
    context.drain(&actor, LAST_PAGE);
    render(&page)
}

/// What was the page of a server that stops shows the server that was started since.
pub(super) async fn show_again() -> Redirect {
    Redirect::to("/nodes")
}
