//! What was found wrong a moment ago.

use longhaul_admin_api::ProblemView;
use longhaul_core::Clock;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::sync::Mutex;

/// It counts for so long: each page that is drawn asks.
const REMEMBERED: Duration = Duration::from_secs(1);

/// What was found last. Whoever asks while it is looked for waits for it.
#[derive(Default)]
pub(crate) struct Problems {
    known: Mutex<Option<(Duration, Arc<Vec<ProblemView>>)>>,
    /// Something was done about them since they were looked for.
    is_stale: AtomicBool,
}

impl Problems {
    /// Something was done about them: they are looked for again.
    pub(crate) fn forget(&self) {
        self.is_stale.store(true, Ordering::Relaxed);
    }

    /// What was found a moment ago, else what is found now.
    pub(crate) async fn known_or<E>(
        &self,
        clock: &dyn Clock,
        find: impl Future<Output = Result<Vec<ProblemView>, E>>,
    ) -> Result<Arc<Vec<ProblemView>>, E> {
        let mut known = self.known.lock().await;
        let is_stale = self.is_stale.swap(false, Ordering::Relaxed);
        if let Some((at, problems)) = &*known
            && !is_stale
            && clock.monotonic().saturating_sub(*at) < REMEMBERED
        {
            return Ok(Arc::clone(problems));
        }
        let problems = Arc::new(find.await?);
        *known = Some((clock.monotonic(), Arc::clone(&problems)));
        Ok(problems)
    }
}
