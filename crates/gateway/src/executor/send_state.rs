//! Whether a call that waits for its upstream may still be sent.

use super::{PAUSE, UpstreamExecutor};
use longhaul_core::{AttemptState, Json};
use longhaul_runtime::{ExecutionEnd, ExecutorAttempt, JournalError, TaskContext};
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::Notify;

/// The checkpoint of a call that its upstream has refused or not received.
const REFUSED: &str = r#"{"refused":true}"#;
/// The same once it is sent again.
const SENT_AGAIN: &str = r#"{"refused":false}"#;

/// Whether no process has sent the call of an attempt, or its upstream has refused it.
pub(crate) fn is_unsent(attempt: &ExecutorAttempt) -> bool {
    attempt.state == AttemptState::Starting || is_recorded_as_refused(attempt)
}

fn is_recorded_as_refused(attempt: &ExecutorAttempt) -> bool {
    attempt
        .checkpoint
        .as_ref()
        .is_some_and(|stored| stored.as_str() == REFUSED)
}

/// Whether the upstream may have received a call.
pub(crate) struct SendState {
    has_begun: AtomicBool,
    /// A later process takes the call for one that was refused.
    is_recorded_as_refused: AtomicBool,
    refused: Notify,
}

impl SendState {
    pub(crate) fn of(attempt: &ExecutorAttempt) -> Self {
        Self {
            has_begun: AtomicBool::new(!is_unsent(attempt)),
            is_recorded_as_refused: AtomicBool::new(is_recorded_as_refused(attempt)),
            refused: Notify::new(),
        }
    }

    /// The call is sent now.
    ///
    /// # Errors
    /// It must not be sent: a later process would send it again.
    pub(crate) async fn begins(&self, cx: &TaskContext) -> Result<(), JournalError> {
        if self.is_recorded_as_refused.load(Ordering::Relaxed) {
            cx.checkpoint(Json::trusted(SENT_AGAIN.to_owned())).await?;
            self.is_recorded_as_refused.store(false, Ordering::Relaxed);
        }
        self.has_begun.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// The upstream has not received the call, or has refused it. That is recorded for the next process.
    pub(crate) async fn was_refused(&self, attempt: &ExecutorAttempt, cx: &TaskContext) {
        if !is_unsent(attempt) {
            return;
        }
        self.has_begun.store(false, Ordering::Relaxed);
        self.refused.notify_one();
        match cx.checkpoint(Json::trusted(REFUSED.to_owned())).await {
            Ok(()) => self.is_recorded_as_refused.store(true, Ordering::Relaxed),
            Err(error) => {
                tracing::debug!(%error, task = cx.task().short(), "that a call was refused was not recorded");
            }
        }
    }

    /// How a call that was not sent must end now, if it may not be sent any more for a reason of this server.
    pub(crate) fn end_unless_it_may_begin(&self, cx: &TaskContext) -> Option<ExecutionEnd> {
        match self.has_begun.load(Ordering::Relaxed) {
            true => None,
            false => cx.end_unless_it_may_begin(),
        }
    }

    /// Completes once a call that was not sent may not be sent any more. While the upstream works on the call, this costs nothing.
    pub(super) async fn must_not_begin(&self, call: &UpstreamExecutor, cx: &TaskContext) -> ExecutionEnd {
        loop {
            match self.has_begun.load(Ordering::Relaxed) {
                true => self.refused.notified().await,
                false => {
                    if let Some(end) = call.end_if_refused().or_else(|| cx.end_unless_it_may_begin()) {
                        return end;
                    }
                    call.upstream.pause(PAUSE).await;
                }
            }
        }
    }
}
