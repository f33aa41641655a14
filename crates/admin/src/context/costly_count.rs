//! Counts that cost as much as there is to count.

use longhaul_core::Clock;
use std::{sync::Arc, time::Duration};
use tokio::sync::Mutex;

/// A count is valid for so many times as long as it took: then counting takes a twentieth of a reader at most.
const VALID: u32 = 20;

/// The latest count. Whoever asks while it is made waits for it.
pub(crate) struct CostlyCount<T>(Mutex<Option<CachedCount<T>>>);

struct CachedCount<T> {
    until: Duration,
    count: Arc<T>,
}

impl<T> Default for CostlyCount<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T> CostlyCount<T> {
    /// What there is now, or was a moment ago.
    pub(crate) async fn known_or<E>(
        &self,
        clock: &dyn Clock,
        count: impl Future<Output = Result<T, E>>,
    ) -> Result<Arc<T>, E> {
        let mut counted = self.0.lock().await;
        let began = clock.monotonic();
        if let Some(known) = counted.as_ref().filter(|known| began < known.until) {
            return Ok(Arc::clone(&known.count));
        }
        let count = Arc::new(count.await?);
        let ended = clock.monotonic();
        *counted = Some(CachedCount {
            until: ended + (ended - began) * VALID,
            count: Arc::clone(&count),
        });
        Ok(count)
    }
}
