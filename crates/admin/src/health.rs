//! Whether the process lives, and whether it can be sent work.

use crate::context::AdminContext;
use axum::{extract::State, response::IntoResponse};
use http::StatusCode;
use std::{sync::Arc, time::Duration};

/// How long the store may take to answer.
const STORE_TIMEOUT: Duration = Duration::from_secs(2);

pub(crate) async fn alive() -> &'static str {
    "ok\n"
}

pub(crate) async fn ready(State(context): State<Arc<AdminContext>>) -> impl IntoResponse {
    match why_not_ready(&context).await {
        None => (StatusCode::OK, "ready\n"),
        Some(why) => (StatusCode::SERVICE_UNAVAILABLE, why),
    }
}

async fn why_not_ready(context: &AdminContext) -> Option<&'static str> {
    if context.stop.is_cancelled() {
        return Some("the server is stopping\n");
    }
    let counted = context
        .engine
        .ports()
        .within(STORE_TIMEOUT, context.engine.store().counts());
    match counted.await {
        Some(Ok(_)) => None,
        Some(Err(_)) => Some("the store fails; the server's log says why\n"),
        None => Some("the store has not answered for 2 s\n"),
    }
}
