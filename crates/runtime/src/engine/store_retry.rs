//! Trying again while the store cannot write.

use crate::engine::Inner;
use longhaul_core::store::{ApplyError, StoreError};
use std::time::Duration;
use tracing::warn;

/// Between two tries; doubled from the first up to the last.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LAST_PAUSE: Duration = Duration::from_secs(5);

impl Inner {
    /// Does what must not be lost again and again while the store fails, for example for want of room (design section 5). An
    /// answer of the store's, also a refusal, ends it; so does the store's closing.
    pub(crate) async fn retry_store<T, F>(
        &self,
        what: &'static str,
        mut once: impl FnMut() -> F,
    ) -> Result<T, ApplyError>
    where
        F: Future<Output = Result<T, ApplyError>>,
    {
        let mut pause = FIRST_PAUSE;
        loop {
            match once().await {
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
