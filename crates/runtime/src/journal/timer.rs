//! Waiting for a moment.

use super::JournalError;
use crate::{TaskContext, parking::Wait};
use longhaul_core::{EntryKind, Json, UnixMillis};
use std::{sync::Arc, time::Duration};

/// The longest sleep without a look at the clock, which may jump.
const LONGEST_SLEEP: u64 = 60_000;

impl TaskContext {
    /// Waits for `time`, from when this was first reached, over restarts of the process. Holds no slot meanwhile, and if it is long,
    /// nothing at all.
    ///
    /// # Errors
    /// [`JournalError`].
    pub async fn sleep(&self, time: Duration) -> Result<(), JournalError> {
        let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.sleep_until_at(|now| now.plus(millis)).await
    }

    /// Waits until `at`, which counts as it was when this was first reached.
    ///
    /// # Errors
    /// [`JournalError`].
    pub async fn sleep_until(&self, at: UnixMillis) -> Result<(), JournalError> {
        self.sleep_until_at(|_| at).await
    }

    async fn sleep_until_at(&self, at: impl FnOnce(UnixMillis) -> UnixMillis) -> Result<(), JournalError> {
        let mut place = self.begin(EntryKind::Timer, &Arc::from(""))?;
        let until = match &place.found {
            Some((_, value)) => UnixMillis(place.read(value)?),
            None => {
                let until = at(self.now());
                self.settle(&mut place, Json::trusted(until.0.to_string())).await?;
                until
            }
        };
        self.wait_until(until).await
    }

    /// Waits for a moment that is in the journal.
    pub(super) async fn wait_until(&self, until: UnixMillis) -> Result<(), JournalError> {
        if self.now() >= until {
            return Ok(());
        }
        let waiting = self.wait(Wait::Timer(until));
        tokio::select! {
            biased;
            reason = self.stopped() => return Err(JournalError::Stopped(reason)),
            () = self.reach(until) => {}
        }
        self.go_on(waiting).await
    }

    /// Completes when the clock says `until`.
    pub(crate) async fn reach(&self, until: UnixMillis) {
        loop {
            let left = until.since(self.now());
            if left == 0 {
                return;
            }
            let sleep = Duration::from_millis(left.min(LONGEST_SLEEP));
            self.ports().clock.sleep(sleep).await;
        }
    }
}
