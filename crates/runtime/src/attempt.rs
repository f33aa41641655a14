//! One attempt, from claim to end.

use crate::{
    Attempt, End, Executor, Requestor, TaskContext,
    active::Missed,
    engine::{Inner, Runner},
    question::open_questions,
    slots::Slot,
};
use futures_util::FutureExt;
use longhaul_core::{
    AttemptEnd, Event, Failure, Outcome, Retry, RetryOn, RpcFailure, StopReason, Task, TaskId,
    store::{ApplyError, Claimed},
};
use std::{convert::Infallible, panic::AssertUnwindSafe, sync::Arc, time::Duration};
use tokio::sync::watch;
use tracing::{debug, error, warn};

/// News of one task are written at most this often (design section 5).
const NEWS_INTERVAL: Duration = Duration::from_millis(500);
/// How long an attempt that could not be started waits before it goes back to the queue, so that a full disk is not a hot loop.
const UNSTARTED_PAUSE: Duration = Duration::from_secs(1);

/// How an attempt comes to this process.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Begin {
    /// Just claimed: nothing has happened yet.
    Fresh,
    /// Begun, or about to be, by an earlier process.
    Resumed,
}

/// Runs a claimed attempt and writes its end. `missed` was noted before the claim.
pub(crate) async fn drive(inner: Arc<Inner>, claimed: Claimed, slot: Slot, begin: Begin, missed: Missed) {
    let Claimed {
        task,
        arguments,
        requestor,
    } = claimed;
    let Some(fence) = task.active_attempt().map(longhaul_core::Attempt::fence) else {
        error!("a claimed task has no active attempt");
        return inner.changed(&task);
    };
    let stop = enter(&inner, &task, missed).await;
    let runner = match inner.runner(&task).await {
        Ok(runner) => runner,
        // The store is closed: what was begun is taken up at the next start.
        Err(_) => return inner.active.leave(&task.id),
    };
    let concurrency = runner.as_ref().ok().and_then(|runner| runner.concurrency);
    let requestor = Arc::new(Requestor::from_json(&requestor));
    let cx = TaskContext::new(&inner, &task, requestor, fence, concurrency, stop, slot);
    let end = match runner {
        Ok(Runner { executor, retry, .. }) => {
            let attempt = Attempt {
                task: task.id.clone(),
                epoch: fence.epoch,
                arguments,
                deadline_at: task.deadline_at(),
            };
            let end = work(&inner, &cx, executor, attempt, begin).await;
            if let End::NeverStarted(why) = &end {
                unstarted(&inner, &cx, why, begin).await;
            }
            judge(&inner, &task, &retry, end)
        }
        Err(why) => AttemptEnd::Failed {
            outcome: Failure::Unavailable(why).into(),
            retry_at: None,
        },
    };
    inner.active.leave(&task.id);
    // The slot goes back first: whoever learns of the end may at once ask for the next.
    cx.release_slot();
    write_end(&inner, &cx, end).await;
}

/// Makes the attempt known, so that it can be asked to stop, and asks whether that has happened already.
async fn enter(inner: &Inner, task: &Task, missed: Missed) -> watch::Receiver<Option<StopReason>> {
    let (stop, unsure) = inner.active.enter(&task.id, task.stop.map(|stop| stop.reason), missed);
    if unsure {
        look_for_stop(inner, &task.id).await;
    }
    stop
}

async fn look_for_stop(inner: &Inner, id: &TaskId) {
    match inner.store.peek(id).await {
        Ok(Some(record)) => {
            if let Some(stop) = record.task.stop {
                inner.active.stop(id, stop.reason);
            }
        }
        Ok(None) => {}
        // The answer to the next news tells as well.
        Err(error) => warn!(%error, "whether a task was asked to stop could not be read"),
    }
}

/// Does the work and writes its news on the way. Work that is to stop already is not begun.
async fn work(inner: &Inner, cx: &TaskContext, executor: Arc<dyn Executor>, attempt: Attempt, begin: Begin) -> End {
    if begin == Begin::Fresh {
        let late = attempt.deadline_at.is_some_and(|deadline| deadline <= inner.now());
        if let Some(reason) = cx.stop_requested().or(late.then_some(StopReason::Deadline)) {
            return End::Stopped(reason);
        }
    }
    let run = async {
        match begin {
            Begin::Fresh => executor.run(attempt, cx.clone()).await,
            Begin::Resumed => executor.resume(attempt, cx.clone()).await,
        }
    };
    tokio::select! {
        biased;
        end = AssertUnwindSafe(run).catch_unwind() => end.unwrap_or_else(|_| {
            error!("an executor panicked");
            End::Errored(panicked())
        }),
        never = open_questions(cx) => match never {},
        never = write_news(inner, cx) => match never {},
    }
}

/// The panic's own words may hold anything; they are on stderr already.
fn panicked() -> Outcome {
    Outcome::RpcError(RpcFailure {
        code: -32603,
        message: "the tool failed unexpectedly".into(),
        data: None,
    })
}

/// Writes news as they come, the latest only. They are best effort: what matters is written at the end.
async fn write_news(inner: &Inner, cx: &TaskContext) -> Infallible {
    loop {
        cx.has_news().await;
        let news = cx.take_news();
        match cx.apply(news.events()).await {
            // Should a request to stop have passed us by, here it is.
            Ok(task) => inner.changed(&task),
            Err(ApplyError::Store(error)) => {
                debug!(%error, "news could not be written");
                cx.put_back(news);
            }
            Err(refused) => debug!(%refused, "news were refused"),
        }
        inner.ports.clock.sleep(NEWS_INTERVAL).await;
    }
}

/// What was voided in an earlier process goes back to its queue at once; what could not be started just now waits a moment.
async fn unstarted(inner: &Inner, cx: &TaskContext, why: &str, begin: Begin) {
    if begin == Begin::Resumed {
        return;
    }
    warn!(why, "an attempt could not be started and goes back to its queue");
    tokio::select! {
        () = inner.ports.clock.sleep(UNSTARTED_PAUSE) => {}
        _ = cx.stopped() => {}
    }
}

/// What the executor's words mean under the retry policy. Whether a stop was asked for meanwhile is decided by the transition.
fn judge(inner: &Inner, task: &Task, retry: &Retry, end: End) -> AttemptEnd {
    let used = task.attempts_used;
    // A retry that could only begin after the deadline would never be: the work's own words are the better end.
    let again = |why| {
        let at = inner.now().plus(retry.wait_after(used, why)?);
        task.deadline_at().is_none_or(|deadline| at < deadline).then_some(at)
    };
    match end {
        End::Finished(outcome) => AttemptEnd::Finished(outcome),
        End::Errored(outcome) => AttemptEnd::Failed {
            outcome,
            retry_at: again(RetryOn::Error),
        },
        End::Crashed => AttemptEnd::Failed {
            outcome: crashed(retry, used),
            retry_at: again(RetryOn::Crash),
        },
        End::Stopped(reason) => AttemptEnd::Stopped(reason),
        End::NeverStarted(_) => AttemptEnd::NeverStarted,
    }
}

fn crashed(retry: &Retry, attempts: u32) -> Outcome {
    if attempts > 1 && retry.on.contains(&RetryOn::Crash) {
        Failure::AttemptsUsedUp { attempts }.into()
    } else {
        Failure::Interrupted.into()
    }
}

/// Writes the end, with the last news if they may still be told, and insists on it: a finished outcome is not to be lost.
async fn write_end(inner: &Inner, cx: &TaskContext, end: AttemptEnd) {
    const WHAT: &str = "writing the end of an attempt";
    let mut events = cx.take_news().events();
    events.push(Event::AttemptEnded(end));
    let mut written = inner.insist(WHAT, || cx.apply(events.clone())).await;
    if matches!(written, Err(ApplyError::Illegal(_))) && events.len() > 1 {
        let end = events.split_off(events.len() - 1);
        written = inner.insist(WHAT, || cx.apply(end.clone())).await;
    }
    match written {
        // It may be queued again.
        Ok(task) => inner.changed(&task),
        // Another node has taken the attempt over, or the store is closed: what it becomes is no longer ours to say.
        Err(error) => warn!(%error, "the end of an attempt was not written"),
    }
}
