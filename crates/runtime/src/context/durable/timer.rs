//! Durable timers.

use crate::{context::TaskContext, journal::JournalError, node::Wait, ports::LONGEST_SLEEP};
use longhaul_core::{EntryKind, Json, Millis, UnixMillis, whole_millis};
use std::{sync::Arc, time::Duration};

impl TaskContext {
    /// Waits for `time` from when this was first reached, also over restarts. The slot is free meanwhile, and during a long wait the task is
    /// suspended. Setting the system's clock does not change how long it takes.
    ///
    /// # Errors
    /// [`JournalError`].
    pub async fn sleep(&self, time: Duration) -> Result<(), JournalError> {
        let millis = whole_millis(time);
        let until = self.timer(|| self.now().plus(millis)).await?;
        self.wait_until(until).await
    }

    /// Waits until `at` by the system's clock. Replay keeps the time that was passed when this was first reached.
    ///
    /// # Errors
    /// [`JournalError`].
    pub async fn sleep_until(&self, at: UnixMillis) -> Result<(), JournalError> {
        let at = self.timer(|| at).await?;
        self.wait_for(Wait::Date(at), || at.since(self.wall())).await
    }

    /// The time that was recorded when this was first reached.
    async fn timer(&self, at: impl FnOnce() -> UnixMillis) -> Result<UnixMillis, JournalError> {
        let mut operation = self.begin(EntryKind::Timer, &Arc::from(""))?;
        if let Some((_, value)) = &operation.found {
            return Ok(UnixMillis(operation.read(value)?));
        }
        let until = at();
        self.record(&mut operation, Json::trusted(until.0.to_string())).await?;
        Ok(until)
    }

    /// Waits for a time that is recorded already.
    pub(crate) async fn wait_until(&self, until: UnixMillis) -> Result<(), JournalError> {
        self.wait_for(Wait::Timer(until), || until.since(self.now())).await
    }

    async fn wait_for(&self, wait: Wait, left: impl Fn() -> Millis) -> Result<(), JournalError> {
        if left() == 0 {
            return Ok(());
        }
        let waiting = self.begin_wait(wait);
        tokio::select! {
            biased;
            reason = self.stopped() => return Err(JournalError::Stopped(reason)),
            () = self.pass(left) => {}
        }
        self.end_wait(waiting).await
    }

    /// Completes at `until`, by the engine's clock.
    pub(crate) async fn reach(&self, until: UnixMillis) {
        self.pass(|| until.since(self.now())).await;
    }

    /// Completes when no time is `left`, in milliseconds.
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
