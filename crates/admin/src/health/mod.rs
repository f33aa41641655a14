//! Whether the process lives and can be sent work, and what is wrong.

pub(crate) mod clock_fault;
pub(crate) mod disk_space;
mod problems;

use crate::{DiskSpace, context::AdminContext};
use axum::{extract::State, response::IntoResponse};
use http::StatusCode;
use longhaul_core::store::{NodeStatus, StoreError};
use longhaul_runtime::Engine;
use std::{sync::Arc, time::Duration};

/// What a server says to its operators that only reads.
pub(crate) const READS_ONLY: &str = "the server only reads: its database was restored, and nobody has accepted it. Stop it, and start it once with \
     --accept-restored-database (a server in Rust: `Server::accept_restored_database`): what is queued runs then, perhaps for the second time";
/// What a front says that is alone.
pub(crate) const NO_WORKER: &str = "no server lives that runs tasks: calls are accepted, and wait";
/// What a cordoned server says that is alone.
const CORDONED: &str = "this server is cordoned, and no other server begins work: calls are accepted, and wait";
/// What a front says when all servers behind it are cordoned, or drain.
const NONE_BEGINS: &str =
    "the servers that run tasks are cordoned or drain, and begin nothing: calls are accepted, and wait";
/// How long the store may take to answer.
const STORE_TIMEOUT: Duration = Duration::from_secs(2);
/// An answer counts for so long, in milliseconds: everybody who can connect may ask.
const REMEMBERED: u64 = 1_000;

pub(crate) async fn alive() -> &'static str {
    "ok\n"
}

pub(crate) async fn ready(State(context): State<Arc<AdminContext>>) -> impl IntoResponse {
    if context.reads_only.is_some() {
        let why = "the server only reads: its database was restored, and was not accepted\n";
        return (StatusCode::SERVICE_UNAVAILABLE, why.to_owned());
    }
    match why_not_ready(&context).await {
        None => match context.readiness.0.lock().await.no_worker {
            Some(why) => (StatusCode::OK, format!("ready, but {why}\n")),
            None => (StatusCode::OK, "ready\n".to_owned()),
        },
        Some(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
    }
}

/// Why the server takes no work; `None` if it does.
pub(crate) async fn why_not_ready(context: &AdminContext) -> Option<&'static str> {
    if context.stop.is_cancelled() {
        return Some("the server is stopping");
    }
    if context.engine.is_draining() {
        return Some("the server drains: it begins nothing more, and stops once what runs has ended");
    }
    // Under the lock, so that many who ask at once cost one question.
    let mut known = context.readiness.0.lock().await;
    let now = context.now();
    if known.at.is_some_and(|at| now.since(at) < REMEMBERED) {
        return known.why_not;
    }
    known.count_full_writes(context.metrics.full_writes(), now);
    if let Some(why) = context.metrics.take_unusable() {
        known.note_unusable(why, now);
    }
    if context.metrics.wrote_since() {
        known.note_write();
    }
    let engine = &context.engine;
    let has_tasks = !engine.store().capabilities().many_nodes;
    let space = context.data_dir.as_deref().and_then(DiskSpace::of);
    let is_full = known.is_full(now, || has_tasks && space.as_ref().is_some_and(DiskSpace::is_used_up));
    let answered = engine.ports().within(STORE_TIMEOUT, engine.store().next_wake()).await;
    let no_worker = engine.ports().within(STORE_TIMEOUT, why_no_worker(engine)).await;
    known.no_worker = no_worker.and_then(Result::ok).flatten();
    known.at = Some(context.now());
    known.why_not = match answered {
        Some(Ok(_)) if is_full || engine.store().refuses_payloads() => {
            Some(DiskSpace::why_no_work(space.as_ref(), has_tasks))
        }
        Some(Ok(_)) => known.unusable(now),
        Some(Err(StoreError::Unusable(why))) => Some(why),
        Some(Err(_)) => Some("the store fails; the server's log says why"),
        None => Some("the store has not answered for 2 s"),
    };
    known.why_not
}

/// Why no server begins work; `None` if one does.
async fn why_no_worker(engine: &Engine) -> Result<Option<&'static str>, StoreError> {
    if engine.has_worker().await? {
        return Ok(None);
    }
    if engine.cordon(engine.node_id()).is_some() {
        return Ok(Some(CORDONED));
    }
    let nodes = engine.nodes().await?;
    let is_cordoned = |node: &NodeStatus| node.lease.is_live() && engine.cordon(node.node).is_some();
    Ok(Some(match nodes.iter().any(is_cordoned) {
        true => NONE_BEGINS,
        false => NO_WORKER,
    }))
}
