//! What was found wrong a moment ago.

use longhaul_core::Clock;
use serde::Serialize;
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

/// Something that keeps work from going on.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ProblemView {
    /// What is wrong, and why.
    pub(crate) what: String,
    /// What to do.
    pub(crate) advice: String,
    /// The command of `longhaul admin` that does it, and what follows the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) command: Option<Vec<String>>,
    /// The page that shows more.
    pub(crate) page: String,
}

impl ProblemView {
    pub(crate) fn new(what: String, advice: impl Into<String>, page: impl Into<String>) -> Self {
        Self {
            what,
            advice: advice.into(),
            command: None,
            page: page.into(),
        }
    }

    pub(crate) fn with_command(mut self, words: &[&str]) -> Self {
        self.command = Some(words.iter().map(ToString::to_string).collect());
        self
    }
}

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
