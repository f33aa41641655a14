//! One attempt, from claim to end.

use crate::{Attempt, End, Executor, TaskContext, engine::Inner, slots::Slot};
use longhaul_core::{
    AttemptEnd, Event, Failure, Outcome, Retry, RetryOn, State, Task,
    store::{ApplyError, Claimed, StoreError},
};
use std::{sync::Arc, time::Duration};
use tracing::{debug, error, warn};

/// News of one task are written at most this often (design section 5).
const NEWS_INTERVAL: Duration = Duration::from_millis(500);
/// How long an attempt that could not be started waits before it goes back to the queue, so that a full disk is not a hot loop.
const UNSTARTED_PAUSE: Duration = Duration::from_secs(1);
/// Between tries to write the end of an attempt; grows up to the second.
const FIRST_RETRY: Duration = Duration::from_millis(50);
const LAST_RETRY: Duration = Duration::from_secs(5);

/// How an attempt comes to this process.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Begin {
    /// Just claimed: nothing has happened yet.
    Fresh,
    /// Begun, or about to be, by an earlier process.
    Resumed,
}

/// What runs a task: the catalog's tool if it is still the same, else what was frozen with the task.
pub(crate) struct Runner {
    pub(crate) executor: Arc<dyn Executor>,
    pub(crate) retry: Retry,
    pub(crate) concurrency: Option<usize>,
}

/// Runs a claimed attempt and writes its end.
pub(crate) async fn drive(inner: Arc<Inner>, claimed: Claimed, slot: Slot, begin: Begin) {
    let Claimed { task, arguments } = claimed;
    let Some(fence) = task.active_attempt().map(longhaul_core::Attempt::fence) else {
        error!("a claimed task has no active attempt");
        return;
    };
    let stop = inner.active.enter(&task.id, task.stop.map(|stop| stop.reason));
    let runner = inner.runner(&task).await;
    let concurrency = runner.as_ref().ok().and_then(|runner| runner.concurrency);
    let cx = TaskContext::new(&inner, &task, fence, concurrency, stop, slot);
    let end = match runner {
        Ok(runner) => {
            let attempt = Attempt {
                task: task.id.clone(),
                epoch: fence.epoch,
                arguments,
                deadline_at: task.deadline_at(),
            };
            let run = match begin {
                Begin::Fresh => runner.executor.run(attempt, cx.clone()),
                Begin::Resumed => runner.executor.resume(attempt, cx.clone()),
            };
            let end = with_news(&inner, &cx, run).await;
            judge(&inner, &task, &runner.retry, end).await
        }
        Err(why) => AttemptEnd::Failed {
            outcome: Failure::Unavailable(why).into(),
            retry_at: None,
        },
    };
    inner.active.leave(&task.id);
    // The slot goes back first: whoever learns of the end may at once ask for the next.
    cx.release_slot();
    if let Some(task) = write_end(&inner, &cx, end).await
        && task.state == State::Queued
    {
        inner.queues.offer(&task.tool);
    }
}

/// Runs the work and writes its news on the way.
async fn with_news(inner: &Inner, cx: &TaskContext, mut run: longhaul_core::BoxFuture<'static, End>) -> End {
    loop {
        tokio::select! {
            end = &mut run => return end,
            () = cx.has_news() => {}
        }
        if let Err(error) = cx.apply(cx.take_news()).await {
            // News are best effort: the next ones may be written. What matters is written at the end.
            debug!(%error, "news were not written");
        }
        tokio::select! {
            end = &mut run => return end,
            () = inner.ports.clock.sleep(NEWS_INTERVAL) => {}
        }
    }
}

/// What the executor's words mean under the retry policy. Whether a stop was asked for meanwhile is decided by the transition.
async fn judge(inner: &Inner, task: &Task, retry: &Retry, end: End) -> AttemptEnd {
    let used = task.attempts_used;
    let again = |why| {
        retry
            .wait_after(used, why)
            .map(|wait| inner.ports.clock.now().plus(wait))
    };
    match end {
        End::Finished(outcome) => AttemptEnd::Finished(outcome),
        End::Errored(outcome) => AttemptEnd::Failed {
            outcome,
            retry_at: again(RetryOn::Error),
        },
        End::Crashed => AttemptEnd::Failed {
            outcome: crashed(used),
            retry_at: again(RetryOn::Crash),
        },
        End::Stopped(reason) => AttemptEnd::Stopped(reason),
        End::NeverStarted(why) => {
            warn!(why, "an attempt could not be started and goes back to its queue");
            inner.ports.clock.sleep(UNSTARTED_PAUSE).await;
            AttemptEnd::NeverStarted
        }
    }
}

fn crashed(attempts: u32) -> Outcome {
    if attempts > 1 {
        Failure::AttemptsUsedUp { attempts }.into()
    } else {
        Failure::Interrupted.into()
    }
}

/// Writes the end, again and again while the store has no room: a finished outcome is not to be lost (design section 5).
async fn write_end(inner: &Inner, cx: &TaskContext, end: AttemptEnd) -> Option<Task> {
    let mut pause = FIRST_RETRY;
    loop {
        match cx.apply(vec![Event::AttemptEnded(end.clone())]).await {
            Ok(task) => return Some(task),
            Err(ApplyError::Store(StoreError::Closed)) => return None,
            Err(ApplyError::Store(error)) => {
                warn!(%error, "the end of an attempt could not be written; trying again");
                inner.ports.clock.sleep(pause).await;
                pause = (pause * 2).min(LAST_RETRY);
            }
            Err(error) => {
                // Another node has taken the attempt over, or the task is gone: what it became is no longer ours to say.
                warn!(%error, "the end of an attempt was refused");
                return None;
            }
        }
    }
}
