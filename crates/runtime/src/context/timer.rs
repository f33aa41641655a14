//! Waiting for a moment.

use super::TaskContext;
use crate::{journal::JournalError, suspension::Wait};
use longhaul_core::{EntryKind, Json, Millis, UnixMillis};
use std::{sync::Arc, time::Duration};

/// The longest sleep without a look at the clock: the world's may be set, and the machine may sleep.
const LONGEST_SLEEP: u64 = 60_000;

impl TaskContext {
    /// Waits for `time`, from when this was first reached, over restarts of the process. Holds no slot meanwhile, and if it is long,
    /// nothing at all. However the system's clock is set, it takes as long.
    ///
    /// # Errors
    /// [`JournalError`].
    pub async fn sleep(&self, time: Duration) -> Result<(), JournalError> {
        let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let until = self.timer(|| self.now().plus(millis)).await?;
        self.wait_until(until).await
    }

    /// Waits until the world's clock says `at`, which counts as it was when this was first reached.
    ///
    /// # Errors
    /// [`JournalError`].
    pub async fn sleep_until(&self, at: UnixMillis) -> Result<(), JournalError> {
        let at = self.timer(|| at).await?;
        self.wait_for(Wait::Date(at), || at.since(self.wall())).await
    }

    /// The moment that was kept when this was first reached.
    async fn timer(&self, at: impl FnOnce() -> UnixMillis) -> Result<UnixMillis, JournalError> {
        let mut place = self.begin(EntryKind::Timer, &Arc::from(""))?;
        if let Some((_, value)) = &place.found {
            return Ok(UnixMillis(place.read(value)?));
        }
        let until = at();
        self.settle(&mut place, Json::trusted(until.0.to_string())).await?;
        Ok(until)
    }

    /// Waits for a moment that is in the journal.
    pub(super) async fn wait_until(&self, until: UnixMillis) -> Result<(), JournalError> {
        self.wait_for(Wait::Timer(until), || until.since(self.now())).await
    }

    async fn wait_for(&self, wait: Wait, left: impl Fn() -> Millis) -> Result<(), JournalError> {
        if left() == 0 {
            return Ok(());
        }
        let waiting = self.wait(wait);
        tokio::select! {
            biased;
            reason = self.stopped() => return Err(JournalError::Stopped(reason)),
            () = self.pass(left) => {}
        }
        self.go_on(waiting).await
    }

    /// Completes when the clock says `until`.
    pub(crate) async fn reach(&self, until: UnixMillis) {
        self.pass(|| until.since(self.now())).await;
    }

    /// Completes when nothing is `left`.
    async fn pass(&self, left: impl Fn() -> Millis) {
        loop {
            let left = left();
            if left == 0 {
                return;
            }
            let sleep = Duration::from_millis(left.min(LONGEST_SLEEP));
            self.ports().clock.sleep(sleep).await;
        }
    }
}
