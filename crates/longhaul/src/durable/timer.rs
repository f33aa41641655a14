//! Durable timers.

use crate::{TaskContext, time::Timestamp};
use longhaul_runtime::JournalError;
use std::time::Duration;

impl TaskContext {
    /// Waits for this time, or until the task is asked to stop. In a [durable](crate::Tool::durable) tool the time counts from the first time that
    /// the code reached this point, also over restarts, and the task is suspended during a long wait.
    ///
    /// # Errors
    /// [`JournalError::Stopped`]; in a durable tool any [`JournalError`].
    pub async fn sleep(&self, time: Duration) -> Result<(), JournalError> {
        if self.journal().keeps_journal() {
            return self.journal().sleep(time).await;
        }
        tokio::select! {
            () = self.ports().clock.sleep(time) => Ok(()),
            reason = self.journal().stopped() => Err(JournalError::Stopped(reason)),
        }
    }

    /// Waits until a point in time: a [`Timestamp`], a [`SystemTime`](std::time::SystemTime), or unix milliseconds. Does not
    /// wait if it has passed. A durable tool records the point in time when its code first reaches this.
    ///
    /// ```
    /// # async fn f(cx: longhaul::TaskContext) -> longhaul::ToolResult<()> {
    /// use longhaul::time::hours;
    /// cx.sleep_until(cx.now().await? + hours(2)).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As for [`sleep`](Self::sleep).
    pub async fn sleep_until(&self, until: impl Into<Timestamp>) -> Result<(), JournalError> {
        let until = until.into().0;
        if self.journal().keeps_journal() {
            return self.journal().sleep_until(until).await;
        }
        loop {
            match until.since(self.journal().wall()) {
                0 => return Ok(()),
                // The clock may be set meanwhile: read it again now and then.
                left => self.sleep(Duration::from_millis(left.min(LONGEST_SLEEP))).await?,
            }
        }
    }
}

/// The longest sleep without reading the clock, in milliseconds.
const LONGEST_SLEEP: u64 = 60_000;
