//! One attempt, from claim to end.

use crate::{
    active::Missed,
    backoff::Backoff,
    blocked,
    catalog::{INPUT_TIMEOUT, Intake},
    context::{TaskContext, Terms, write_drafts},
    engine::{Inner, Runner, Unavailable},
    execution_end::End,
    executor::{Attempt, Executor},
    intake,
    isolated_retry::{Isolation, NotStarted},
    journal::{Divergence, Journal, bounded, words},
    node::Node,
    requestor::Requestor,
    slots::Slot,
    task_log,
};
use futures_util::FutureExt;
use longhaul_core::{
    AttemptEnd, BlockReason, EndedBy, Entry, Event, FailedAttempt, Failure, Fence, OnNonDeterminism, Outcome, Retry,
    RetryOn, RpcFailure, State, StopReason, Task, TaskId, UnixMillis, format_duration,
    store::{ApplyError, Claimed},
};
use std::{any::Any, convert::Infallible, panic::AssertUnwindSafe, sync::Arc, time::Duration};
use tokio::sync::watch;
use tracing::{debug, error, warn};

/// PendingReport of one task are written at most this often (design section 5).
const REPORT_INTERVAL: Duration = Duration::from_millis(500);

/// So many crashed attempts a failure names.
const MOST_HISTORY: usize = 20;

/// Entries read at once.
const JOURNAL_PAGE: usize = 1_000;

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
    let Some((fence, state)) = task.active_attempt().map(|attempt| (attempt.fence(), attempt.state)) else {
        error!("a claimed task has no active attempt");
        return inner.node.changed(&task);
    };
    let stop = enter(&inner.node, &task, missed).await;
    let Ok((runner, terms)) = prepare(&inner, &task, fence).await else {
        // The store is closed: what was begun is adopted at the next start.
        return inner.node.active.leave(&task.id);
    };
    let _replaying = terms.journal.is_some().then(|| inner.node.active.replays());
    let requestor = Arc::new(Requestor::from_json(&requestor));
    let cx = TaskContext::new(
        &inner.node,
        Arc::clone(&inner) as _,
        &task,
        requestor,
        terms,
        stop,
        slot,
    );
    match begin {
        Begin::Fresh => task_log::attempt_started(&task),
        Begin::Resumed => task_log::attempt_adopted(&task),
    }
    let (end, failed) = match runner {
        Ok(runner) => {
            let intake = runner.intake.clone().filter(|_| cx.requestor().asks_first);
            let attempt = Attempt {
                task: task.id.clone(),
                epoch: fence.epoch,
                state,
                arguments,
                deadline_at: task.deadline_at(),
            };
            let executor = Arc::clone(&runner.executor);
            let left = work(&inner, &cx, (executor, intake), attempt, begin).await;
            judge(&inner, &cx, &task, &runner, begin, left).await
        }
        Err(why) => (end_of_unavailable(&inner, &cx, &task, why).await, None),
    };
    inner.node.active.leave(&task.id);
    // The slot goes back first: whoever learns of the end may at once ask for the next.
    cx.close();
    write_end(&inner.node, &cx, end, failed).await;
}

/// Nothing here runs the tool. The task of a durable one waits for a deploy that offers it again; any other is over, because a definition in
/// the store would have brought its tool back.
async fn end_of_unavailable(inner: &Inner, cx: &TaskContext, task: &Task, unavailable: Unavailable) -> AttemptEnd {
    let failure = Failure::Unavailable(unavailable.why);
    match unavailable.durable {
        true => AttemptEnd::Blocked(blocked::block_without_tool(inner, cx, task, failure).await),
        false => AttemptEnd::Failed {
            outcome: failure.into(),
            retry_at: None,
            asks_again: false,
        },
    }
}

/// What runs the task, and what its attempt runs under: with the journal, if there is one.
async fn prepare(
    inner: &Arc<Inner>,
    task: &Task,
    fence: Fence,
) -> Result<(Result<Runner, Unavailable>, Terms), ApplyError> {
    let runner = inner.runner(task).await?;
    let mut terms = Terms {
        fence,
        concurrency: None,
        input_timeout: INPUT_TIMEOUT,
        asks_again: false,
        journal: None,
        isolation: None,
    };
    if let Ok(runner) = &runner {
        terms.concurrency = runner.concurrency;
        terms.input_timeout = runner.input_timeout;
        terms.asks_again = runner.executor.asks_again();
        if runner.executor.replays() {
            let journal = Journal::of(read_journal(&inner.node, task).await?, task.created_at);
            terms.isolation = Isolation::of(task, &runner.retry, &journal);
            terms.journal = Some(journal);
        }
    }
    Ok((runner, terms))
}

async fn read_journal(node: &Node, task: &Task) -> Result<Vec<Entry>, ApplyError> {
    let mut entries = Vec::new();
    while entries.len() < task.journaled as usize {
        let after = entries.last().map_or(0, |entry: &Entry| entry.seq);
        let read = || async { Ok(node.store.journal(&task.id, after, JOURNAL_PAGE).await?) };
        let page = node.retry_store("reading a journal", read).await?;
        if page.is_empty() {
            break;
        }
        entries.extend(page);
    }
    Ok(entries)
}

/// Makes the attempt known, so that it can be asked to stop, and asks whether that has happened already.
async fn enter(node: &Node, task: &Task, missed: Missed) -> watch::Receiver<Option<StopReason>> {
    let (stop, unsure) = node.active.enter(&task.id, task.stop.map(|stop| stop.reason), missed);
    if unsure {
        look_for_stop(node, &task.id).await;
    }
    stop
}

async fn look_for_stop(node: &Node, id: &TaskId) {
    match node.store.peek(id).await {
        Ok(Some(record)) => {
            if let Some(stop) = record.task.stop {
                node.active.stop(id, stop.reason);
            }
        }
        Ok(None) => {}
        // The answer to the next news tells as well.
        Err(error) => warn!(%error, "whether a task was asked to stop could not be read"),
    }
}

/// Why work is not done any longer.
enum WorkEnd {
    /// Its executor has said so.
    Ended(End),
    /// It keeps a journal, and its executor could not say anything; a panic's message, if there is one.
    Broken(EndedBy, Option<String>),
    /// It keeps a journal, and does not follow it.
    Diverged(Divergence),
    /// All of it waits, and it can be run again from its start.
    Suspended {
        /// When the earliest of its timers fires.
        until: Option<UnixMillis>,
        /// What the task had been woken by then.
        woken: u32,
    },
}

impl From<NotStarted> for WorkEnd {
    fn from(not_started: NotStarted) -> Self {
        match not_started {
            NotStarted::Stopped(reason) => Self::Ended(End::Stopped(reason)),
            NotStarted::Released(now) => Self::Suspended {
                until: Some(now),
                woken: 0,
            },
            NotStarted::Unwritten(error) => Self::Ended(End::NeverStarted(error.to_string())),
        }
    }
}

/// Does the work and writes its news on the way. Work that is to stop already is not begun.
async fn work(
    inner: &Arc<Inner>,
    cx: &TaskContext,
    (executor, intake): (Arc<dyn Executor>, Option<Arc<dyn Intake>>),
    mut attempt: Attempt,
    begin: Begin,
) -> WorkEnd {
    if begin == Begin::Fresh {
        let late = attempt.deadline_at.is_some_and(|deadline| deadline <= inner.node.now());
        if let Some(reason) = cx.stop_requested().or(late.then_some(StopReason::Deadline)) {
            return WorkEnd::Ended(End::Stopped(reason));
        }
    }
    if begin == Begin::Resumed && cx.keeps_journal() {
        // Its process is gone, and its code with it. It runs again from its start, if it may.
        return match cx.was_waiting_for_isolation() {
            true => WorkEnd::Ended(End::NeverStarted("it waited for its turn".to_owned())),
            false => WorkEnd::Broken(EndedBy::Crash, None),
        };
    }
    if let Err(not_started) = cx.wait_for_isolation().await {
        return not_started.into();
    }
    let run = async {
        match begin {
            Begin::Fresh => {
                if let Some(intake) = intake {
                    match intake::take(intake, attempt.arguments, cx).await {
                        Ok(arguments) => attempt.arguments = arguments,
                        Err(end) => return end,
                    }
                }
                executor.run(attempt, cx.clone()).await
            }
            Begin::Resumed => executor.resume(attempt, cx.clone()).await,
        }
    };
    let mut run = std::pin::pin!(AssertUnwindSafe(run).catch_unwind());
    let run = std::future::poll_fn(|waker| {
        let polled = run.as_mut().poll(waker);
        if polled.is_pending() {
            cx.rest();
        }
        polled
    });
    let left = tokio::select! {
        biased;
        end = run => match end {
            Ok(end) => followed(cx, end),
            Err(panic) => panicked(cx, &*panic),
        },
        divergence = cx.diverged() => WorkEnd::Diverged(divergence),
        (until, woken) = cx.suspend(), if cx.keeps_journal() => WorkEnd::Suspended { until, woken },
        until = released(&inner.node), if cx.keeps_journal() => WorkEnd::Suspended { until: Some(until), woken: 0 },
        never = write_drafts(cx) => match never {},
        never = write_reports(&inner.node, cx) => match never {},
        never = cx.watch_isolated() => match never {},
    };
    // Before the code is dropped, so that what it drops on the way is not taken for its wish.
    cx.close();
    left
}

/// An end of code that did not follow its journal is worth nothing, whatever it says. Code that was told to stop, or has crashed, need
/// not have come to its end.
fn followed(cx: &TaskContext, end: End) -> WorkEnd {
    let Some(journal) = cx.shared.journal.as_ref().filter(|_| cx.stop_requested().is_none()) else {
        return WorkEnd::Ended(end);
    };
    let followed = match end {
        End::Finished(_) | End::Errored(_) => journal.finish(),
        _ => journal.has_diverged(),
    };
    match followed {
        Ok(()) => WorkEnd::Ended(end),
        Err(divergence) => WorkEnd::Diverged(divergence),
    }
}

/// Completes when the work is to go on in another process, at once.
async fn released(node: &Node) -> UnixMillis {
    node.released().await;
    node.now()
}

/// What a panic means: the end of code that does not follow its journal, a crash of other code that keeps one, else an error. Where it
/// happened, and its backtrace, are on standard error only.
fn panicked(cx: &TaskContext, panic: &(dyn Any + Send)) -> WorkEnd {
    let message = panic_message(panic);
    error!(tool = %cx.shared.header.tool, task = cx.task().short(), message, "an executor panicked");
    match &cx.shared.journal {
        None => WorkEnd::Ended(End::Errored(panic_outcome(message))),
        Some(journal) => match journal.has_diverged() {
            Err(divergence) if cx.stop_requested().is_none() => WorkEnd::Diverged(divergence),
            _ => WorkEnd::Broken(EndedBy::Panic, message.map(str::to_owned)),
        },
    }
}

/// The beginning of what `panic!` was given, if that was a text.
fn panic_message(panic: &(dyn Any + Send)) -> Option<&str> {
    let literal = panic.downcast_ref::<&'static str>().copied();
    let message = literal.or_else(|| panic.downcast_ref::<String>().map(String::as_str))?;
    Some(bounded(message))
}

fn panic_outcome(message: Option<&str>) -> Outcome {
    let message = match message {
        Some(message) => format!("the tool panicked: {message}").into(),
        None => "the tool panicked".into(),
    };
    Outcome::RpcError(RpcFailure {
        code: -32603,
        message,
        data: None,
    })
}

/// Writes news as they come, the latest only. They are best effort: what matters is written at the end.
async fn write_reports(node: &Arc<Node>, cx: &TaskContext) -> Infallible {
    loop {
        cx.has_report().await;
        let report = cx.take_report();
        match cx.apply(report.events()).await {
            // Should a request to stop have passed us by, here it is.
            Ok(task) => node.changed(&task),
            Err(ApplyError::Store(error)) => {
                debug!(%error, "a report could not be written");
                cx.put_back(report);
            }
            Err(refused) => debug!(%refused, "a report was refused"),
        }
        node.ports.clock.sleep(REPORT_INTERVAL).await;
    }
}

/// When to try again what could not be started just now, as in want of room or of processes: later each time, and not all at once. What was
/// voided in an earlier process had nothing in its way, and goes back to its queue at once.
fn put_off(cx: &TaskContext, task: &Task, why: &str) -> UnixMillis {
    // What keeps a journal has attempts that cost nothing for other reasons.
    let earlier = match cx.keeps_journal() {
        true => 0,
        false => cx.shared.fence.epoch.saturating_sub(task.attempts_used),
    };
    let wait = Backoff::default().after(earlier.saturating_add(1), cx.spread());
    warn!(
        tool = &*task.tool,
        why, wait, "an attempt could not be started; its task is queued again, at no cost of attempts"
    );
    cx.status(format!(
        "not started yet: {why}; next try within {}",
        format_duration(wait)
    ));
    cx.now().plus(wait)
}

/// What the end of the work means under the retry policy, and what is to be kept of an attempt that came to nothing. Whether a stop was
/// asked for meanwhile is decided by the transition.
async fn judge(
    inner: &Inner,
    cx: &TaskContext,
    task: &Task,
    runner: &Runner,
    begin: Begin,
    left: WorkEnd,
) -> (AttemptEnd, Option<FailedAttempt>) {
    let retry = &runner.retry;
    let block =
        |reason, failure| blocked::block(inner, cx, task, &runner.spec, runner.blocked_timeout, reason, failure);
    let used = cx.attempts_used(task);
    let asks_again = cx.shared.asks_again;
    // A retry that could only begin after the deadline would never be: the work's own words are the better end.
    let again = |why| {
        let at = inner.node.now().plus(retry.wait_after(used, why)?);
        task.deadline_at().is_none_or(|deadline| at < deadline).then_some(at)
    };
    let mut said_last = None;
    let (end, by) = match left {
        WorkEnd::Suspended { until, woken } => return (AttemptEnd::Suspended { until, woken }, None),
        WorkEnd::Diverged(divergence) => {
            let divergence = divergence.to_string();
            let failed = cx.failed(EndedBy::NonDeterminism, Some(&divergence));
            let failure = Failure::Diverged(divergence);
            return match runner.on_non_determinism {
                OnNonDeterminism::Fail => (AttemptEnd::Finished(failure.into()), None),
                OnNonDeterminism::Block => {
                    let block = block(BlockReason::NonDeterminism, failure).await;
                    (AttemptEnd::Blocked(block), Some(failed))
                }
            };
        }
        WorkEnd::Broken(by, said) => {
            said_last = said;
            (End::Crashed, by)
        }
        // Only an executor that cannot keep what its work comes to says that this has crashed.
        WorkEnd::Ended(end) => (end, EndedBy::Store),
    };
    match end {
        End::Finished(outcome) => (AttemptEnd::Finished(outcome.within_max_depth()), None),
        End::Errored(outcome) => {
            let outcome = outcome.within_max_depth();
            let retry_at = again(RetryOn::Error);
            // An error that is the end is told by the outcome itself.
            let failed = retry_at.map(|_| cx.failed(EndedBy::Error, words(&outcome).as_deref()));
            let end = AttemptEnd::Failed {
                outcome,
                retry_at,
                asks_again,
            };
            (end, failed)
        }
        End::Crashed | End::SupervisorKilled | End::RecordDamaged => {
            let interrupted = match end {
                End::SupervisorKilled => Failure::SupervisorKilled,
                End::RecordDamaged => Failure::RecordDamaged,
                _ => Failure::Interrupted,
            };
            let failed = cx.failed(by, said_last.as_deref());
            let retry_at = again(RetryOn::Crash);
            let outcome = match &cx.shared.journal {
                Some(journal) => {
                    let failure = poisoned(journal, used, failed.clone());
                    if retry.wait_after(used, RetryOn::Crash).is_none() {
                        let block = block(BlockReason::Poisoned, failure).await;
                        return (AttemptEnd::Blocked(block), Some(failed));
                    }
                    failure.into()
                }
                None => crashed(retry, used, interrupted),
            };
            let end = AttemptEnd::Failed {
                outcome,
                retry_at,
                asks_again,
            };
            (end, Some(failed))
        }
        End::Lost(outcome) => {
            let end = AttemptEnd::Failed {
                outcome,
                retry_at: None,
                asks_again,
            };
            (end, None)
        }
        End::Stopped(reason) => (AttemptEnd::Stopped(reason), None),
        End::NeverStarted(why) => {
            let retry_at = (begin == Begin::Fresh).then(|| put_off(cx, task, &why));
            (AttemptEnd::NeverStarted { retry_at }, None)
        }
    }
}

fn crashed(retry: &Retry, attempts: u32, interrupted: Failure) -> Outcome {
    if attempts > 1 && retry.on.contains(&RetryOn::Crash) {
        Failure::AttemptsUsedUp { attempts }.into()
    } else {
        interrupted.into()
    }
}

/// Why code is given up that came no further, with what is known of its latest attempts.
fn poisoned(journal: &Journal, attempts: u32, last: FailedAttempt) -> Failure {
    let before = usize::try_from(attempts.saturating_sub(1)).unwrap_or(usize::MAX);
    let mut history = journal.latest_failures(before.min(MOST_HISTORY - 1));
    history.push(last);
    Failure::Poisoned { attempts, history }
}

impl TaskContext {
    /// Attempts since the work last came further, this one included.
    fn attempts_used(&self, task: &Task) -> u32 {
        let journal = self.shared.journal.as_ref();
        match journal.is_some_and(|journal| journal.has_advanced()) {
            true => task.attempts_used.min(1),
            false => task.attempts_used,
        }
    }
}

/// Writes the end, with the last news if they may still be told, and insists on it: a finished outcome is not to be lost.
async fn write_end(node: &Arc<Node>, cx: &TaskContext, end: AttemptEnd, failed: Option<FailedAttempt>) {
    const WHAT: &str = "writing the end of an attempt";
    // What the work had handed in may still be on its way: the entry that says how it failed comes after that, and not in its place.
    let _turn = cx.shared.asked.lock().await;
    let retry_at = match &end {
        AttemptEnd::Failed { retry_at, .. } => *retry_at,
        _ => None,
    };
    let mut events = cx.take_report().events();
    events.extend(failed.and_then(|failed| cx.failure_entry(failed)));
    events.push(Event::AttemptEnded(end));
    let mut written = node.retry_store(WHAT, || cx.apply(events.clone())).await;
    if matches!(written, Err(ApplyError::Illegal(_))) && events.len() > 1 {
        let end = events.split_off(events.len() - 1);
        written = node.retry_store(WHAT, || cx.apply(end.clone())).await;
    }
    match written {
        // It may be queued again.
        Ok(task) => {
            task_log::attempt_ended(&task);
            if let Some(at) = retry_at.filter(|_| task.state == State::Queued) {
                task_log::retry(&task, at, node.now());
            }
            node.changed(&task);
        }
        // Another node has taken the attempt over, or the store is closed: what it becomes is no longer ours to say.
        Err(error) => warn!(%error, task = cx.task().short(), "the end of an attempt was not written"),
    }
}
