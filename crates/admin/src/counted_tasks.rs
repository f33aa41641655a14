//! Counts of live tasks, which cost as much as there are.

use crate::metrics::Present;
use longhaul_core::store::StoreError;
use longhaul_runtime::Engine;
use std::{sync::Arc, time::Duration};
use tokio::sync::Mutex;

/// A count is valid for so many times as long as it took: then counting takes a twentieth of a reader at most.
const VALID: u32 = 20;

/// The latest count. Whoever asks while it is made waits for it.
#[derive(Default)]
pub(crate) struct CountedTasks(Mutex<Option<Counted>>);

struct Counted {
    until: Duration,
    present: Arc<Present>,
}

impl CountedTasks {
    /// What the server is now, or was a moment ago.
    pub(crate) async fn present(&self, engine: &Engine) -> Result<Arc<Present>, StoreError> {
        let mut counted = self.0.lock().await;
        let clock = &engine.ports().clock;
        let began = clock.monotonic();
        if let Some(known) = counted.as_ref().filter(|known| began < known.until) {
            return Ok(Arc::clone(&known.present));
        }
        let present = Arc::new(Present {
            live: engine.store().live_tasks().await?,
            usage: engine.store().usage(None).await?,
            running_attempts: engine.running(),
            now: clock.now(),
        });
        let ended = clock.monotonic();
        *counted = Some(Counted {
            until: ended + (ended - began) * VALID,
            present: Arc::clone(&present),
        });
        Ok(present)
    }
}
