//! Deleting what has been kept long enough, in small batches.

use crate::engine::Inner;
use std::{sync::Arc, time::Duration};
use tracing::warn;

/// Small, so that a delete never holds up a create for long.
const BATCH: usize = 128;
const PAUSE: Duration = Duration::from_secs(2);

/// Deletes expired tasks until the engine stops.
pub(crate) async fn run(inner: Arc<Inner>) {
    loop {
        match delete_batch(&inner).await {
            Ok(BATCH) => {}
            Ok(_) => inner.ports.clock.sleep(PAUSE).await,
            Err(error) => {
                warn!(error, "expired tasks could not be deleted");
                inner.ports.clock.sleep(PAUSE).await;
            }
        }
    }
}

/// Files go before the row: should the process die between the two, the row is found again and nothing is left behind.
async fn delete_batch(inner: &Arc<Inner>) -> Result<usize, String> {
    let now = inner.ports.clock.now();
    let mut ids = inner
        .store
        .expired(now, BATCH)
        .await
        .map_err(|error| error.to_string())?;
    let mut kept = Vec::new();
    for provider in &inner.providers {
        for id in &ids {
            if let Err(error) = provider.forget(id).await {
                warn!(error, "files of an expired task could not be removed");
                kept.push(id.clone());
            }
        }
    }
    ids.retain(|id| !kept.contains(id));
    if ids.is_empty() {
        return Ok(0);
    }
    inner.store.delete(ids, now).await.map_err(|error| error.to_string())
}
