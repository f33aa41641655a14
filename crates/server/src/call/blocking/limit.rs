//! How long a plain call is waited for.

use crate::call::policy::WaitPolicy;
use longhaul_core::{BoxFuture, Clock};
use std::time::Duration;

/// How long it may take until work begins, before the time counts after which its call becomes a task.
const LONGEST_PREPARATION: Duration = Duration::from_secs(30);

/// When a call that is still running becomes a task, and what the client is answered then.
pub(super) struct WaitLimit {
    over: Option<BoxFuture<'static, ()>>,
    pub(super) answer: Option<Instead>,
    /// How long after the work has begun, if that is awaited.
    once_begun: Option<Duration>,
}

/// The answer that takes the place of the outcome.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Instead {
    /// The task.
    Task,
    /// How to follow it.
    Text,
}

impl WaitLimit {
    pub(super) fn of(policy: WaitPolicy, clock: &dyn Clock) -> Self {
        let (after, answer) = match policy {
            WaitPolicy::Unlimited => (None, None),
            WaitPolicy::Promote(millis) | WaitPolicy::PromoteOnceBegun(millis) => (Some(millis), Some(Instead::Task)),
            WaitPolicy::HandOff(millis) => (Some(millis), Some(Instead::Text)),
        };
        let after = after.map(Duration::from_millis);
        let once_begun = after.filter(|_| matches!(policy, WaitPolicy::PromoteOnceBegun(_)));
        let preparation = once_begun.map_or(Duration::ZERO, |_| LONGEST_PREPARATION);
        Self {
            over: after.map(|after| clock.sleep(after + preparation)),
            answer,
            once_begun,
        }
    }

    /// The work begins now.
    pub(super) fn begin(&mut self, clock: &dyn Clock) {
        if let Some(after) = self.once_begun.take() {
            self.over = Some(clock.sleep(after));
        }
    }

    /// Completes again in a while.
    pub(super) fn renew(&mut self, pause: Duration, clock: &dyn Clock) {
        self.over = Some(clock.sleep(pause));
    }

    /// Completes once; never for a call that is waited for as long as it takes.
    pub(super) async fn is_over(&mut self) {
        match &mut self.over {
            Some(sleep) => sleep.await,
            None => std::future::pending().await,
        }
        self.over = None;
    }
}
