//! The slow re-read: what this node waits for is looked up in the store from time to time, since the store's events may be lost.
//!
//! One tokio task of the node reads on behalf of all that wait: the versions of watched tasks, which attempts the node holds and which of them are to stop,
//! the queues and the next timer. It also refuses the questions that nobody can answer any more.

use super::lease;
use crate::{
    call::withdrawn_questions,
    engine::{Engine, Inner},
    node::StoreTrouble,
    operator,
};
use longhaul_core::store::StoreError;
use std::{sync::Arc, time::Duration};
use tracing::warn;

/// The shortest and the longest pause between two re-reads, in milliseconds: drawn, so that the nodes of a store do not read at once.
const PAUSE: (u64, u64) = (20_000, 30_000);
/// After an error of the store.
const PAUSE_AFTER_ERROR: Duration = Duration::from_secs(1);
/// How many versions are read at once.
const BATCH: usize = 1_000;

/// Reads again from time to time, and when the store says that events may have been lost, until the node stops. `renews`: there is no other task that
/// renews the node's lease.
pub(crate) async fn run(inner: Arc<Inner>, renews: bool) {
    let node = &inner.node;
    let mut trouble = StoreTrouble::new("what this server waits for could not be read");
    loop {
        let pause = PAUSE.0 + node.random() % (PAUSE.1 - PAUSE.0);
        tokio::select! {
            biased;
            () = node.pauses_changed() => {
                // An error is not tried again here: the next re-read reads it.
                if let Err(error) = operator::read_paused(&inner).await {
                    warn!(%error, "which tools are paused could not be read");
                }
                continue;
            }
            () = node.resync_requested() => {}
            () = node.ports.clock.sleep(Duration::from_millis(pause)) => {}
        }
        while let Err(error) = resync(&inner, renews).await {
            if error == StoreError::LeaseLost {
                return;
            }
            trouble.failed(&error, node.ports.clock.monotonic());
            node.ports.clock.sleep(PAUSE_AFTER_ERROR).await;
        }
        trouble.is_over(node.ports.clock.monotonic());
    }
}

async fn resync(inner: &Arc<Inner>, renews: bool) -> Result<(), StoreError> {
    let node = &inner.node;
    for ids in node.change_feed.watched().chunks(BATCH) {
        let versions = node.store.versions(ids).await?;
        node.change_feed.publish_versions(ids, &versions);
    }
    if renews {
        lease::renew(inner).await?;
    }
    operator::read_paused(inner).await?;
    for tool in node.store.queued_tools().await? {
        if let Some(place) = node.store.next_ready(&tool, node.now()).await? {
            node.queues.offer(&tool, place);
        }
    }
    if let Some(next) = node.store.next_wake().await? {
        node.alarm.set(next);
    }
    withdrawn_questions::refuse(&Engine(Arc::clone(inner))).await?;
    Ok(())
}
