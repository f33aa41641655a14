//! Retrying while the store fails.

use super::Node;
use longhaul_core::store::{ApplyError, StoreError};
use std::time::Duration;
use tracing::warn;

/// The pause between two tries is doubled from the first to the last.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LAST_PAUSE: Duration = Duration::from_secs(5);

impl Node {
    /// Retries an operation that must not be lost while the store fails, as on a full disk. Any answer of the store, also a
    /// refusal, is final; so is a closed store.
    pub(crate) async fn retry_store<T, F>(
        &self,
        what: &'static str,
        mut operation: impl FnMut() -> F,
    ) -> Result<T, ApplyError>
    where
        F: Future<Output = Result<T, ApplyError>>,
    {
        let mut pause = FIRST_PAUSE;
        loop {
            match operation().await {
                Err(ApplyError::Store(error)) if error != StoreError::Closed => {
                    if error != StoreError::Locked {
                        warn!(%error, what, "the store failed; trying again");
                    }
                    self.ports.clock.sleep(pause).await;
                    pause = (pause * 2).min(LAST_PAUSE);
                }
                answer => return answer,
            }
        }
    }
}
