//! Waiting for a moment.

use crate::{TaskContext, time::Moment};
use longhaul_runtime::JournalError;
use std::time::Duration;

impl TaskContext {
    /// Waits, unless the work is asked to stop before the time is over. In a [durable](crate::Tool::durable) tool the time counts from when
    /// this was first reached, whatever becomes of the process, and a long wait holds nothing.
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

    /// Waits for a moment: a [`Moment`], a [`SystemTime`](std::time::SystemTime), or unix milliseconds. A moment that has passed is not
    /// waited for. In a durable tool it counts as it was when this was first reached.
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
    pub async fn sleep_until(&self, moment: impl Into<Moment>) -> Result<(), JournalError> {
        let moment = moment.into().0;
        if self.journal().keeps_journal() {
            return self.journal().sleep_until(moment).await;
        }
        loop {
            match moment.since(self.journal().wall()) {
                0 => return Ok(()),
                // The clock may jump: look at it now and then.
                left => self.sleep(Duration::from_millis(left.min(LONGEST_SLEEP))).await?,
            }
        }
    }
}

/// The longest sleep without a look at the clock.
const LONGEST_SLEEP: u64 = 60_000;
