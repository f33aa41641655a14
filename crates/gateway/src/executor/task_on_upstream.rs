//! Follows the task that an upstream has made of a call.

use super::{PAUSE, UpstreamExecutor, passed_on, progress::report};
use crate::question::Registration;
use longhaul_client::{Event, RequestError, TaskHandle, TaskStatus};
use longhaul_core::{Clock, Millis, Outcome, StopReason, whole_millis};
use longhaul_runtime::{ExecutionEnd, STOP_GRACE, TaskContext};
use std::time::Duration;

/// The pause while the upstream does not accept the gateway's credentials, in milliseconds.
const PAUSE_WITHOUT_LOGIN: Millis = 15_000;

/// The longest pause while the upstream does not say how its task stands, in milliseconds.
const LONGEST_PAUSE: Millis = 60_000;

/// What became of a task on the upstream.
pub(super) enum FollowOutcome {
    Ended(ExecutionEnd),
    /// The upstream does not know it any more.
    Lost(RequestError),
}

impl UpstreamExecutor {
    /// Waits for the end of a task on the upstream, and cancels it there if this task is asked to stop.
    pub(super) async fn follow(
        &self,
        handle: &TaskHandle,
        registration: &Registration,
        cx: &TaskContext,
    ) -> FollowOutcome {
        let followed = self.follow_to_end(handle, registration, cx).await;
        if !matches!(followed, FollowOutcome::Ended(ExecutionEnd::Stopped(_))) {
            registration.ends();
        }
        followed
    }

    /// Asks the upstream to cancel its task, and says on this one what came of that.
    async fn cancel_on_upstream(&self, handle: &TaskHandle, cx: &TaskContext) {
        let name = self.upstream.name();
        match handle.cancel().await {
            Ok(_) => cx.status(format!(
                "upstream `{name}` was asked to cancel its task, which may go on"
            )),
            Err(error) => {
                tracing::debug!(%error, "an upstream did not take the cancellation of a task");
                let why = self.public(&error, cx);
                cx.status(format!(
                    "upstream `{name}` has not cancelled its task, which may go on: {why}"
                ));
            }
        }
    }

    fn says_again(&self, cx: &TaskContext) {
        let name = self.upstream.name();
        cx.status(format!("upstream `{name}` says again how its task stands"));
    }

    async fn follow_to_end(&self, handle: &TaskHandle, registration: &Registration, cx: &TaskContext) -> FollowOutcome {
        registration.is_task(handle);
        let (mut stopping, mut silence): (Option<StopReason>, Option<Silence>) = (None, None);
        let clock = &*self.upstream.ports.clock;
        loop {
            let waiting = self.wait_for_end(handle, registration, cx, &mut stopping, &mut silence);
            let Some(ended) = waiting.await else {
                self.tell_cancelled(
                    cx,
                    format!(
                        "upstream `{}` was asked to cancel its task and has not ended it: it may go on",
                        self.upstream.name()
                    ),
                );
                return FollowOutcome::Ended(ExecutionEnd::Stopped(stopping.unwrap_or(StopReason::Cancel)));
            };
            // A server of 2025-11-25 has no outcome of a cancelled task, and answers with an error.
            let ended = match ended {
                Err(RequestError::Rpc(_)) if is_cancelled(handle).await => Ok(Outcome::Cancelled),
                ended => ended,
            };
            let pause = match (ended, stopping) {
                (Ok(Outcome::Cancelled), Some(reason)) => {
                    self.tell_cancelled(
                        cx,
                        format!("upstream `{}` has cancelled its task", self.upstream.name()),
                    );
                    return FollowOutcome::Ended(ExecutionEnd::Stopped(reason));
                }
                // Nobody here has asked for it.
                (Ok(Outcome::Cancelled), None) => {
                    return FollowOutcome::Ended(self.over("the upstream has cancelled its task"));
                }
                (Ok(outcome), _) => {
                    // Its last status must not say that nothing is known.
                    if silence.is_some() {
                        self.says_again(cx);
                    }
                    return FollowOutcome::Ended(ExecutionEnd::Finished(passed_on(outcome)));
                }
                (Err(RequestError::InvalidOutput { result, .. }), _) => {
                    return FollowOutcome::Ended(ExecutionEnd::Finished(passed_on(Outcome::result(result))));
                }
                // It was asked to cancel its task, and says no more.
                (Err(_), Some(reason)) => return FollowOutcome::Ended(ExecutionEnd::Stopped(reason)),
                (Err(error), _) if error.is_unknown_task() => return FollowOutcome::Lost(error),
                (Err(error @ (RequestError::Unauthorized { .. } | RequestError::Token { .. })), _) => {
                    cx.status(format!(
                        "upstream `{}`: {}; the task goes on",
                        self.upstream.name(),
                        self.public(&error, cx)
                    ));
                    PAUSE_WITHOUT_LOGIN
                }
                (Err(error), _) if error.is_transient() || matches!(error, RequestError::NotStarted { .. }) => PAUSE,
                // No such answer is the end of a task that may go on.
                (Err(error), _) if says_nothing(&error, handle).await => {
                    cx.status(format!(
                        "upstream `{}` does not say how its task stands, and is asked again: {}",
                        self.upstream.name(),
                        self.public(&error, cx)
                    ));
                    silence.get_or_insert_with(|| Silence::now(clock)).pause(clock)
                }
                (Err(error), _) => return FollowOutcome::Ended(self.over(&self.public(&error, cx))),
            };
            tokio::select! {
                biased;
                // Had it been asked to stop before, the error would have ended it.
                reason = self.stopped(registration, cx) => {
                    stopping = Some(reason);
                    self.cancel_on_upstream(handle, cx).await;
                }
                () = self.upstream.pause(pause) => {}
            }
        }
    }

    /// Waits for the end of the task, and asks the upstream to cancel it if this task is to stop. `None` if the upstream has not ended it some time after that.
    async fn wait_for_end(
        &self,
        handle: &TaskHandle,
        registration: &Registration,
        cx: &TaskContext,
        stopping: &mut Option<StopReason>,
        silence: &mut Option<Silence>,
    ) -> Option<Result<Outcome, RequestError>> {
        let on_event = &mut |event: Event<'_>| {
            if let Event::Status(task) = &event {
                let asks = task.status == TaskStatus::InputRequired;
                registration.asker.open.was_seen(asks);
                // It may say that it has ended, and not how. As it was created it is reported again and again.
                let is_news = !task.status.is_final() && handle.created() != Some(*task);
                if is_news && silence.take().is_some() {
                    self.says_again(cx);
                }
            }
            report(cx, &event);
        };
        let waiting = handle.wait(on_event);
        tokio::pin!(waiting);
        loop {
            tokio::select! {
                biased;
                ended = &mut waiting => return Some(ended),
                () = registration.asker.was_settled.notified() => {
                    if let Err(error) = registration.asker.store().await {
                        tracing::debug!(%error, "an answer that the upstream has taken was not recorded");
                    }
                }
                reason = self.stopped(registration, cx), if stopping.is_none() => {
                    *stopping = Some(reason);
                    self.cancel_on_upstream(handle, cx).await;
                }
                () = self.upstream.pause(whole_millis(STOP_GRACE)), if stopping.is_some() => return None,
            }
        }
    }
}

/// The time since which the upstream does not say how its task stands, by the monotonic clock.
struct Silence(Duration);

impl Silence {
    fn now(clock: &dyn Clock) -> Self {
        Self(clock.monotonic())
    }

    /// The pause before it is asked again, in milliseconds: the longer it has said nothing, the longer. There may be a proxy before it that never lets this pass.
    fn pause(&self, clock: &dyn Clock) -> Millis {
        let silent_for = clock.monotonic().saturating_sub(self.0);
        (whole_millis(silent_for) / 10).clamp(PAUSE, LONGEST_PAUSE)
    }
}

/// Whether an answer to the question how a task stands says nothing of it: it cannot be read, or the upstream has failed. Of a task of 2025-11-25 that has ended, an
/// error is the result.
async fn says_nothing(error: &RequestError, handle: &TaskHandle) -> bool {
    match error {
        RequestError::Invalid(_)
        // Such as of a proxy before an upstream that is replaced.
        | RequestError::Http { .. }
        | RequestError::Certificate { .. }
        | RequestError::HandshakeFailed(_)
        | RequestError::UnknownRevision { .. }
        | RequestError::UnsupportedRevisions { .. } => true,
        RequestError::Rpc(failure) if failure.code == -32603 => {
            !handle.get().await.is_ok_and(|task| task.status.is_final())
        }
        _ => false,
    }
}

/// Whether the upstream has cancelled its task.
async fn is_cancelled(handle: &TaskHandle) -> bool {
    let task = handle.get().await;
    task.is_ok_and(|task| task.status == TaskStatus::Cancelled)
}
