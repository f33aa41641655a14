//! The work of an attempt: runs its executor, and writes its drafts and reports meanwhile.

use super::intake;
use crate::{
    catalog::Intake,
    context::{TaskContext, write_drafts},
    engine::Inner,
    execution_end::ExecutionEnd,
    executor::{Executor, ExecutorAttempt},
    journal::{Divergence, beginning_of},
    node::{AttemptOrigin, Node, NotStarted},
};
use futures_util::FutureExt;
use longhaul_core::{
    EndedBy, Outcome, RpcFailure, StopReason, UnixMillis,
    store::{ApplyError, Change},
};
use std::{any::Any, convert::Infallible, panic::AssertUnwindSafe, sync::Arc, time::Duration};
use tracing::{debug, error};

/// Reports of a task are written at most this often.
const REPORT_INTERVAL: Duration = Duration::from_millis(500);

/// How the work of an attempt ended: what its executor returned, or why that does not count or did not come.
pub(super) enum WorkResult {
    /// Its executor returned.
    Ended(ExecutionEnd),
    /// It is durable, and its executor did not return; with the message of a panic, if there was one.
    Broken(EndedBy, Option<String>),
    /// It diverged from its journal.
    Diverged(Divergence),
    /// All of it waits, and it can be replayed.
    Suspended {
        /// When the earliest of its timers fires.
        until: Option<UnixMillis>,
        /// How many wake-ups the task had seen by then.
        woken: u32,
    },
}

impl From<NotStarted> for WorkResult {
    fn from(not_started: NotStarted) -> Self {
        match not_started {
            NotStarted::Stopped(reason) => Self::Ended(ExecutionEnd::Stopped(reason)),
            NotStarted::Released(now) => Self::Suspended {
                until: Some(now),
                woken: 0,
            },
            NotStarted::Unwritten(error) => Self::Ended(ExecutionEnd::NeverStarted(error.to_string())),
        }
    }
}

/// Runs the work, and writes its drafts and reports meanwhile. Work that was asked to stop already is not started. `None` if another node has
/// taken the attempt over: nothing of it can be written any more.
pub(super) async fn run_work(
    inner: &Arc<Inner>,
    cx: &TaskContext,
    (executor, intake): (Arc<dyn Executor>, Option<Arc<dyn Intake>>),
    mut attempt: ExecutorAttempt,
    origin: AttemptOrigin,
) -> Option<WorkResult> {
    if origin == AttemptOrigin::Claimed {
        let late = attempt.deadline_at.is_some_and(|deadline| deadline <= inner.node.now());
        if cx.stop_requested().is_none()
            && let Some(end) = cx.end_if_withdrawn()
        {
            return Some(WorkResult::Ended(end));
        }
        if let Some(reason) = cx.stop_requested().or(late.then_some(StopReason::Deadline)) {
            return Some(WorkResult::Ended(ExecutionEnd::Stopped(reason)));
        }
    }
    if origin == AttemptOrigin::Reclaimed {
        return Some(WorkResult::Ended(ExecutionEnd::Crashed));
    }
    if origin == AttemptOrigin::Adopted && cx.keeps_journal() {
        // Its process and its code are gone. It is replayed, if the retry policy allows it.
        return Some(match cx.was_waiting_for_isolation() {
            true => WorkResult::Ended(ExecutionEnd::NeverStarted("it waited for isolation".to_owned())),
            false => WorkResult::Broken(EndedBy::Crash, None),
        });
    }
    if cx.shared.isolation.is_some()
        && let Err(not_started) = Box::pin(cx.wait_for_isolation()).await
    {
        return Some(not_started.into());
    }
    let run = async {
        match origin {
            AttemptOrigin::Claimed => {
                if let Some(intake) = intake {
                    match Box::pin(intake::take(intake, attempt.arguments, cx)).await {
                        Ok(arguments) => attempt.arguments = arguments,
                        Err(end) => return end,
                    }
                }
                executor.run(attempt, cx.clone()).await
            }
            AttemptOrigin::Adopted | AttemptOrigin::Reclaimed => executor.resume(attempt, cx.clone()).await,
        }
    };
    let mut run = std::pin::pin!(AssertUnwindSafe(run).catch_unwind());
    let run = std::future::poll_fn(|waker| {
        let polled = run.as_mut().poll(waker);
        if polled.is_pending() {
            cx.polled();
        }
        polled
    });
    let end = tokio::select! {
        biased;
        end = run => match end {
            Ok(end) => Some(check_replay(cx, end)),
            Err(panic) => Some(panicked(cx, &*panic)),
        },
        () = cx.lost() => None,
        end = durable_end(&inner.node, cx) => Some(end),
        never = write_drafts(cx) => match never {},
        never = write_reports(&inner.node, cx) => match never {},
    };
    // Closed before the code is dropped, so that questions and children that are dropped with it are not withdrawn and cancelled.
    cx.close();
    end
}

/// Completes when the code of a durable task must not go on; never for other code.
async fn durable_end(node: &Node, cx: &TaskContext) -> WorkResult {
    if !cx.keeps_journal() {
        return std::future::pending().await;
    }
    let end = async {
        tokio::select! {
            biased;
            divergence = cx.diverged() => WorkResult::Diverged(divergence),
            (until, woken) = cx.suspend() => WorkResult::Suspended { until, woken },
            until = released(node) => WorkResult::Suspended { until: Some(until), woken: 0 },
            never = cx.end_isolation_in_time() => match never {},
        }
    };
    Box::pin(end).await
}

/// The result of code that has diverged from its journal does not count. Code that was asked to stop, or has crashed, need not have reached all
/// entries.
fn check_replay(cx: &TaskContext, end: ExecutionEnd) -> WorkResult {
    let Some(journal) = cx.shared.journal.as_ref().filter(|_| cx.stop_requested().is_none()) else {
        return WorkResult::Ended(end);
    };
    let checked = match end {
        ExecutionEnd::Finished(_) | ExecutionEnd::Errored(_) => journal.finish(),
        _ => journal.has_diverged(),
    };
    match checked {
        Ok(()) => WorkResult::Ended(end),
        Err(divergence) => WorkResult::Diverged(divergence),
    }
}

/// Completes when the server is stopping; the work resumes in the next process at once.
async fn released(node: &Node) -> UnixMillis {
    node.released().await;
    node.now()
}

/// A panic is a non-determinism error if the code has diverged, a crash of other durable code, else an error of the tool. Its location and
/// backtrace are on standard error only.
fn panicked(cx: &TaskContext, panic: &(dyn Any + Send)) -> WorkResult {
    let message = panic_message(panic);
    error!(tool = %cx.shared.header.tool, task = cx.task().short(), message, "an executor panicked");
    match &cx.shared.journal {
        None => WorkResult::Ended(ExecutionEnd::Errored(panic_outcome(message))),
        Some(journal) => match journal.has_diverged() {
            Err(divergence) if cx.stop_requested().is_none() => WorkResult::Diverged(divergence),
            _ => WorkResult::Broken(EndedBy::Panic, message.map(str::to_owned)),
        },
    }
}

/// The beginning of what `panic!` was given, if that was a text.
fn panic_message(panic: &(dyn Any + Send)) -> Option<&str> {
    let literal = panic.downcast_ref::<&'static str>().copied();
    let message = literal.or_else(|| panic.downcast_ref::<String>().map(String::as_str))?;
    Some(beginning_of(message))
}

fn panic_outcome(message: Option<&str>) -> Outcome {
    let message = match message {
        Some(message) => format!("the tool panicked: {message}"),
        None => "the tool panicked".to_owned(),
    };
    Outcome::RpcError(RpcFailure::new(-32603, message))
}

/// Writes the latest reports. Best effort: what matters is written at the end.
async fn write_reports(node: &Arc<Node>, cx: &TaskContext) -> Infallible {
    loop {
        cx.has_report().await;
        Box::pin(write_report(node, cx)).await;
        node.ports.clock.sleep(REPORT_INTERVAL).await;
    }
}

async fn write_report(node: &Arc<Node>, cx: &TaskContext) {
    let report = cx.take_report();
    let change = Change {
        can_wait: true,
        ..cx.change(report.events())
    };
    match node.store.apply(change).await {
        // The task may have been asked to stop.
        Ok(task) => node.changed(&task),
        Err(ApplyError::Store(error)) => {
            debug!(%error, "a report could not be written");
            cx.put_back(report);
        }
        Err(refused) => debug!(%refused, "a report was refused"),
    }
}
