//! The servers of the store.

use super::{Frame, PageError, drawn, filters, render, shown};
use crate::{access::Actor, action::NodeAction, context::AdminContext};
use askama::Template;
use axum::{
    Extension,
    extract::{OriginalUri, Path, State},
    response::{IntoResponse, Redirect, Response},
};
use http::StatusCode;
use longhaul_admin_api::NodeView;
use longhaul_core::{approximate_duration, whole_millis};
use std::{sync::Arc, time::Duration};

/// For so long a server that is stopped here goes on, so that the browser has the style of its last page, too.
const LAST_PAGE: Duration = Duration::from_secs(1);

#[derive(Template)]
#[template(path = "nodes.html")]
struct NodesPage {
    frame: Frame,
    rows: Vec<NodeRow>,
    lost_after: String,
    drain_timeout: Option<String>,
}

#[derive(Template)]
#[template(path = "drained.html")]
struct DrainedPage {
    frame: Frame,
    timeout: Option<String>,
}

struct NodeRow {
    node: NodeView,
    can_be_cordoned: bool,
    lease: String,
}

pub(super) async fn show(State(context): State<Arc<AdminContext>>, OriginalUri(uri): OriginalUri) -> Response {
    shown(&context, uri.path().to_owned(), draw(&context)).await
}

async fn draw(context: &AdminContext) -> Result<String, PageError> {
    let frame = Frame::of(context, "nodes");
    let found = context.nodes().await?;
    let row = |node: NodeView| NodeRow {
        can_be_cordoned: node.state == "alive" && node.role != "front" && node.cordon.as_deref() != Some("draining"),
        lease: match (node.lease_ms, node.host_away_ms) {
            (Some(left), _) => format!("for {} more", approximate_duration(left)),
            (None, Some(away)) => format!("its host is away for {}", approximate_duration(away)),
            (None, None) => String::new(),
        },
        node,
    };
    Ok(drawn(&NodesPage {
        frame,
        rows: found.nodes.into_iter().map(row).collect(),
        lost_after: approximate_duration(found.lost_after_ms),
        drain_timeout: drain_timeout(context),
    }))
}

/// How long what runs may take to end before the server stops, if it may.
fn drain_timeout(context: &AdminContext) -> Option<String> {
    let timeout = Some(whole_millis(context.drain_timeout)).filter(|millis| *millis > 0);
    timeout.map(approximate_duration)
}

/// Gives up the host of a dead server, has one begin nothing, or begin work again.
pub(super) async fn act(
    State(context): State<Arc<AdminContext>>,
    Extension(actor): Extension<Actor>,
    Path((node, action)): Path<(i64, String)>,
) -> Response {
    let Some(action) = NodeAction::named(&action) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    match context.act_on_node(&actor, node, action).await {
        Ok(()) => Redirect::to("/nodes").into_response(),
        Err(error) => PageError::from(error).show(&context, "/nodes"),
    }
}

/// Stops this server.
pub(super) async fn drain(State(context): State<Arc<AdminContext>>, Extension(actor): Extension<Actor>) -> Response {
    let page = DrainedPage {
        frame: Frame::of(&context, "nodes"),
        timeout: drain_timeout(&context),
    };
    context.drain(&actor, LAST_PAGE, context.drain_timeout);
    render(&page)
}

/// What was the page of a server that stops shows the server that was started since.
pub(super) async fn show_again() -> Redirect {
    Redirect::to("/nodes")
}
