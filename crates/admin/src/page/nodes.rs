//! The servers of the store.

use super::{Frame, PageError, drawn, shown};
use crate::{context::AdminContext, nodes::NodeView, words::length};
use askama::Template;
use axum::{
    extract::{OriginalUri, State},
    response::Response,
};
use std::sync::Arc;

#[derive(Template)]
#[template(path = "nodes.html")]
struct NodesPage {
    frame: Frame,
    rows: Vec<Row>,
    lost_after: String,
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
