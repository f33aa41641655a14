//! The last lock that somebody has waited for in vain, for operators.

use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// A lock that was met is told of for so long.
const TOLD_FOR: Duration = Duration::from_secs(30);

/// Who held it, and when it was met.
#[derive(Default)]
pub(crate) struct MetLock(Mutex<Option<(Instant, String)>>);

impl MetLock {
    #[expect(
        clippy::disallowed_methods,
        reason = "for how long a lock is told of decides nothing"
    )]
    pub(crate) fn note(&self, who: String) {
        *self.0.lock() = Some((Instant::now(), who));
    }

    /// Who held it, if that was lately.
    pub(crate) fn lately(&self) -> Option<String> {
        let met = self.0.lock();
        let (at, who) = met.as_ref()?;
        (at.elapsed() < TOLD_FOR).then(|| who.clone())
    }
}
