//! The end of an attempt: what it is by the retry policy, and how it is written.

use super::{blocked, work::WorkResult};
use crate::{
    context::TaskContext,
    engine::{Inner, Runner},
    execution_end::ExecutionEnd,
    journal::{Divergence, Journal, message_of},
    node::{AttemptOrigin, Node, task_log},
    ports::backoff::Backoff,
};
use longhaul_core::{
    AttemptEnd, Block, BlockReason, EndedBy, Event, FailedAttempt, Failure, OnNonDeterminism, Outcome, Retry, RetryOn,
    State, Task, UnixMillis, approximate_duration, store::ApplyError,
};
use std::sync::Arc;
use tracing::warn;

/// How many crashed attempts a failure names.
const MOST_HISTORY: usize = 20;

/// When to retry an attempt that could not be started, for want of disk space or processes: later each time, with jitter.
fn delay_after_failed_start(cx: &TaskContext, task: &Task, why: &str) -> UnixMillis {
    // A durable task has attempts that do not count for other reasons.
    let earlier = match cx.keeps_journal() {
        true => 0,
        false => cx.shared.fence.epoch.saturating_sub(task.attempts_used),
    };
    let wait = Backoff::default().after(earlier.saturating_add(1), cx.random());
    let node = &cx.shared.node;
    node.failed_starts.failed(&task.tool, why, node.ports.clock.monotonic());
    cx.status(format!(
        "not started yet: {why}; next try within {}",
        approximate_duration(wait)
    ));
    cx.now().plus(wait)
}

/// An attempt whose work has ended, of which an end is to be written.
pub(super) struct EndedAttempt<'a> {
    pub(super) inner: &'a Inner,
    pub(super) cx: &'a TaskContext,
    pub(super) task: &'a Task,
    pub(super) runner: &'a Runner,
    pub(super) origin: AttemptOrigin,
}

/// The end to write, and what is recorded of a failed attempt.
pub(super) type DecidedEnd = (AttemptEnd, Option<FailedAttempt>);

impl EndedAttempt<'_> {
    /// Decides the end by the retry policy. Whether a stop was requested meanwhile is decided by the transition.
    pub(super) async fn decide(&self, work: WorkResult) -> DecidedEnd {
        match work {
            WorkResult::Suspended { until, woken } => (AttemptEnd::Suspended { until, woken }, None),
            WorkResult::Diverged(divergence) => Box::pin(self.diverged(&divergence)).await,
            WorkResult::Broken(by, message) => self.end_of_crash(Failure::Interrupted, by, message.as_deref()).await,
            WorkResult::Ended(end) => self.returned(end).await,
        }
    }

    async fn diverged(&self, divergence: &Divergence) -> DecidedEnd {
        let divergence = divergence.to_string();
        let failed = self.cx.failed_attempt(EndedBy::NonDeterminism, Some(&divergence));
        let failure = Failure::Diverged(divergence);
        match self.runner.on_non_determinism {
            OnNonDeterminism::Fail => (AttemptEnd::Finished(failure.into()), None),
            OnNonDeterminism::Block => {
                let block = self.block(BlockReason::NonDeterminism, failure).await;
                (AttemptEnd::Blocked(block), Some(failed))
            }
        }
    }

    /// The end of an attempt whose executor has returned.
    async fn returned(&self, end: ExecutionEnd) -> DecidedEnd {
        // An executor returns `Crashed` only if its results could not be stored.
        const CRASHED_BY: EndedBy = EndedBy::Store;
        match end {
            ExecutionEnd::Finished(outcome) => (AttemptEnd::Finished(outcome.within_max_depth()), None),
            ExecutionEnd::Errored(outcome) => self.end_of_error(outcome, RetryOn::Error),
            ExecutionEnd::Exited(code, outcome) => self.end_of_error(outcome, RetryOn::Exit(code)),
            ExecutionEnd::TimedOut(outcome) => self.end_of_error(outcome, RetryOn::Timeout),
            ExecutionEnd::Crashed => self.end_of_crash(Failure::Interrupted, CRASHED_BY, None).await,
            ExecutionEnd::SupervisorKilled => self.end_of_crash(Failure::SupervisorKilled, CRASHED_BY, None).await,
            ExecutionEnd::RecordDamaged => self.end_of_crash(Failure::RecordDamaged, CRASHED_BY, None).await,
            ExecutionEnd::OutcomeUnknown(outcome) => self.end_of_failure(outcome, RetryOn::Crash, EndedBy::Crash),
            ExecutionEnd::Lost(outcome) => (self.failed_end(outcome, None), None),
            ExecutionEnd::Stopped(reason) => (AttemptEnd::Stopped(reason), None),
            ExecutionEnd::NeverStarted(why) => {
                let retry_at =
                    (self.origin == AttemptOrigin::Claimed).then(|| delay_after_failed_start(self.cx, self.task, &why));
                (AttemptEnd::NeverStarted { retry_at }, None)
            }
            ExecutionEnd::NotBegun => {
                // In place of what it waited for.
                self.cx.status("not started yet");
                (AttemptEnd::NeverStarted { retry_at: None }, None)
            }
        }
    }

    /// The end of an attempt without a result, with the message of a panic, if there was one. `interrupted` is the failure if no attempt is left
    /// and no journal says more.
    async fn end_of_crash(&self, interrupted: Failure, by: EndedBy, panic_message: Option<&str>) -> DecidedEnd {
        let (cx, retry) = (self.cx, &self.runner.retry);
        let used = cx.attempts_used(self.task);
        let failed = cx.failed_attempt(by, panic_message);
        let retry_at = self.retry_at(RetryOn::Crash);
        let outcome = match &cx.shared.journal {
            Some(journal) => {
                let failure = poisoned(journal, used, failed.clone());
                if retry.wait_after(used, RetryOn::Crash).is_none() {
                    let block = self.block(BlockReason::Poisoned, failure).await;
                    return (AttemptEnd::Blocked(block), Some(failed));
                }
                failure.into()
            }
            None => {
                let outcome = crash_outcome(retry, used, interrupted);
                report_retry(cx, &outcome, retry_at);
                outcome
            }
        };
        (self.failed_end(outcome, retry_at), Some(failed))
    }

    fn end_of_error(&self, outcome: Outcome, on: RetryOn) -> DecidedEnd {
        self.end_of_failure(outcome.within_max_depth(), on, EndedBy::Error)
    }

    /// The end of an attempt with a result that is retried `on` this.
    fn end_of_failure(&self, outcome: Outcome, on: RetryOn, by: EndedBy) -> DecidedEnd {
        let retry = &self.runner.retry;
        let used = self.cx.attempts_used(self.task);
        let retry_at = self.retry_at(on);
        let outcome = match retry_at.is_none() && retry.wait_after(used, on).is_some() {
            true => outcome.with_note(&format!(
                "Attempt {used} of {}: no time was left for another one before the deadline.",
                retry.attempts
            )),
            false => outcome,
        };
        report_retry(self.cx, &outcome, retry_at);
        // A final error is in the outcome itself.
        let failed = retry_at.map(|_| self.cx.failed_attempt(by, message_of(&outcome).as_deref()));
        (self.failed_end(outcome, retry_at), failed)
    }

    fn failed_end(&self, outcome: Outcome, retry_at: Option<UnixMillis>) -> AttemptEnd {
        AttemptEnd::Failed {
            outcome,
            retry_at,
            asks_again: self.cx.shared.asks_again,
        }
    }

    /// When another attempt follows. A retry after the deadline would never run, so the work's own error is the better end.
    fn retry_at(&self, on: RetryOn) -> Option<UnixMillis> {
        let wait = self.runner.retry.wait_after(self.cx.attempts_used(self.task), on)?;
        let node = &self.inner.node;
        // Calls of an upstream that failed together must not be made again in step: one of them may be what ends it.
        let spread = match self.runner.executor.upstream() {
            Some(_) => node.random() % (wait / 2 + 1),
            None => 0,
        };
        let at = node.now().plus(wait.saturating_add(spread));
        self.task
            .deadline_at()
            .is_none_or(|deadline| at < deadline)
            .then_some(at)
    }

    async fn block(&self, reason: BlockReason, failure: Failure) -> Block {
        let Self {
            inner,
            cx,
            task,
            runner,
            ..
        } = *self;
        let block = blocked::block(inner, cx, task, &runner.spec, runner.blocked_timeout, reason, failure);
        Box::pin(block).await
    }
}

/// Says in the status why the attempt failed, if another one follows. A durable task has that in its journal, and goes on where it was.
fn report_retry(cx: &TaskContext, outcome: &Outcome, retry_at: Option<UnixMillis>) {
    if retry_at.is_some()
        && !cx.keeps_journal()
        && let Some(why) = outcome.failure_summary()
    {
        cx.status(format!("attempt {} failed: {why}", cx.shared.fence.epoch));
    }
}

/// The outcome of a task whose last attempt has crashed.
fn crash_outcome(retry: &Retry, attempts: u32, interrupted: Failure) -> Outcome {
    if attempts > 1 && retry.on.contains(&RetryOn::Crash) {
        Failure::AttemptsUsedUp { attempts }.into()
    } else {
        interrupted.into()
    }
}

/// The failure of a task that crashes without forward progress, with its latest attempts.
fn poisoned(journal: &Journal, attempts: u32, last: FailedAttempt) -> Failure {
    let before = usize::try_from(attempts.saturating_sub(1)).unwrap_or(usize::MAX);
    let mut history = journal.latest_failures(before.min(MOST_HISTORY - 1));
    history.push(last);
    Failure::Poisoned { attempts, history }
}

impl TaskContext {
    /// Attempts since the last forward progress, this one included.
    fn attempts_used(&self, task: &Task) -> u32 {
        let journal = self.shared.journal.as_ref();
        match journal.is_some_and(|journal| journal.has_advanced()) {
            true => task.attempts_used.min(1),
            false => task.attempts_used,
        }
    }
}

/// Writes the end, with the last reports if they are still legal. Retried while the store fails: an outcome must not be lost.
pub(super) async fn write_end(node: &Arc<Node>, cx: &TaskContext, end: AttemptEnd, failed: Option<FailedAttempt>) {
    const WHAT: &str = "writing the end of an attempt";
    // Drafts of the work may still be being written; the entry of its failure must come after them.
    let mut written = cx.shared.written.lock().await;
    let retry_at = match &end {
        AttemptEnd::Failed { retry_at, .. } => *retry_at,
        _ => None,
    };
    let mut events = cx.take_report().events();
    events.extend(failed.and_then(|failed| cx.failure_entry(failed)));
    events.push(Event::AttemptEnded(end));
    let change = cx.change_once(&mut written, events);
    let mut applied = node.retry_store(WHAT, || node.store.apply(change.clone())).await;
    if matches!(applied, Err(ApplyError::Illegal(_))) && change.events.len() > 1 {
        let end = change.events.last().cloned().into_iter().collect();
        let change = cx.change_once(&mut written, end);
        applied = Box::pin(node.retry_store(WHAT, || node.store.apply(change.clone()))).await;
    }
    match applied {
        // It may be queued again.
        Ok(task) => {
            node.active.end_written(cx.task(), cx.shared.fence);
            task_log::attempt_ended(&task);
            if let Some(at) = retry_at.filter(|_| task.state == State::Queued) {
                task_log::retry(&task, at, node.now());
            }
            node.changed(&task);
        }
        // Another node has reclaimed the attempt, or the store is closed. In any other case nobody may run it again.
        Err(error) => {
            if error == ApplyError::Stale {
                node.active.end_written(cx.task(), cx.shared.fence);
            }
            warn!(%error, task = cx.task().short(), "the end of an attempt was not written");
        }
    }
}
