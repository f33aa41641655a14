//! One attempt, from claim to end.

use crate::{
    active_attempts::{AttemptOrigin, ClaimGuard},
    backoff::Backoff,
    blocked,
    catalog::{INPUT_TIMEOUT, Intake},
    context::{ContextOptions, TaskContext, checkpoint, write_drafts},
    engine::{Inner, Runner, Unavailable},
    execution_end::ExecutionEnd,
    executor::{Executor, ExecutorAttempt},
    intake,
    isolated_retry::{Isolation, NotStarted},
    journal::{Divergence, Journal, beginning_of, message_of},
    node::Node,
    requestor::Requestor,
    slots::Slot,
    task_log,
};
use futures_util::FutureExt;
use longhaul_core::{
    AttemptEnd, BlockReason, EndedBy, Entry, Event, FailedAttempt, Failure, Fence, Json, OnNonDeterminism, Outcome,
    Retry, RetryOn, RpcFailure, State, StopReason, Task, UnixMillis, approximate_duration,
    store::{ApplyError, Change, Claimed},
};
use std::{any::Any, convert::Infallible, panic::AssertUnwindSafe, sync::Arc, time::Duration};
use tracing::{debug, error, warn};

/// Reports of a task are written at most this often.
const REPORT_INTERVAL: Duration = Duration::from_millis(500);

/// How many crashed attempts a failure names.
const MOST_HISTORY: usize = 20;

/// Entries read at once.
const JOURNAL_PAGE: usize = 1_000;

/// A claimed task with what its attempt needs.
pub(crate) struct Work {
    pub(crate) task: Task,
    pub(crate) arguments: Json,
    pub(crate) requestor: Arc<Requestor>,
}

impl From<Claimed> for Work {
    fn from(claimed: Claimed) -> Self {
        Self {
            task: claimed.task,
            arguments: claimed.arguments,
            requestor: Arc::new(Requestor::from_json(&claimed.requestor)),
        }
    }
}

/// Runs a claimed attempt and writes its end.
pub(crate) async fn drive(inner: Arc<Inner>, work: Work, slot: Slot, origin: AttemptOrigin, before: ClaimGuard) {
    let Work {
        task,
        arguments,
        requestor,
    } = work;
    let Some((fence, state)) = task.active_attempt().map(|attempt| (attempt.fence(), attempt.state)) else {
        error!("a claimed task has no active attempt");
        return inner.node.changed(&task);
    };
    let (stop, unsure) = (inner.node.active).insert(&task.id, fence, task.stop.map(|stop| stop.reason), before);
    // Rare branches are boxed here and below: the future of every attempt is as large as its largest branch.
    if unsure && let Err(error) = Box::pin(inner.node.read_attempt(&task.id)).await {
        // The next report reads it, too, and so does the slow re-read.
        warn!(%error, "whether a task was asked to stop could not be read");
    }
    let Ok((runner, options)) = prepare(&inner, &task, fence).await else {
        // The store is closed; the attempt is adopted at the next start.
        return inner.node.active.remove(&task.id, fence);
    };
    // It was reclaimed by a node that died before it had written its end, or whose answer was lost.
    let is_reclaimed =
        origin == AttemptOrigin::Adopted && task.active_attempt().is_some_and(|attempt| attempt.host.is_none());
    let origin = match &runner {
        Ok(runner) if is_reclaimed && runner.executor.host_bound() => AttemptOrigin::Reclaimed,
        _ => origin,
    };
    let _replaying = options.journal.is_some().then(|| inner.node.active.count_replayable());
    let cx = TaskContext::new(
        &inner.node,
        Arc::clone(&inner) as _,
        &task,
        requestor,
        options,
        stop,
        slot,
    );
    match origin {
        AttemptOrigin::Claimed => task_log::attempt_started(&task),
        AttemptOrigin::Adopted => task_log::attempt_adopted(&task),
        AttemptOrigin::Reclaimed => task_log::attempt_reclaimed(&task),
    }
    let (end, failed) = match runner {
        Ok(runner) => {
            let intake = runner.intake.clone().filter(|_| cx.requestor().asks_first);
            let checkpoint = match origin {
                AttemptOrigin::Claimed => None,
                AttemptOrigin::Adopted | AttemptOrigin::Reclaimed => {
                    match Box::pin(read_checkpoint(&inner.node, &task, &cx)).await {
                        Ok(checkpoint) => checkpoint,
                        // The store is closed; the attempt is adopted at the next start.
                        Err(_) => return inner.node.active.remove(&task.id, fence),
                    }
                }
            };
            let attempt = ExecutorAttempt {
                checkpoint,
                task: task.id.clone(),
                epoch: fence.epoch,
                state,
                arguments,
                deadline_at: task.deadline_at(),
            };
            let executor = Arc::clone(&runner.executor);
            let end_of_work = run_work(&inner, &cx, (executor, intake), attempt, origin).await;
            if matches!(end_of_work, WorkEnd::Lost) {
                return warn!(
                    task = task.id.short(),
                    "another server has taken over an attempt of this one"
                );
            }
            decide_end(&inner, &cx, &task, &runner, origin, end_of_work).await
        }
        Err(why) => (Box::pin(end_of_unavailable(&inner, &cx, &task, why)).await, None),
    };
    inner.node.active.begin_end(&task.id, fence);
    // The slot is freed before the end is written: a client that reads the end may start the next call at once.
    cx.close();
    write_end(&inner.node, &cx, end, failed).await;
}

/// The end of an attempt that no tool of this server can run. A durable task is blocked until a deploy offers its tool again; any other fails.
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

/// Finds what runs the task, and reads its journal if it is durable.
async fn prepare(
    inner: &Arc<Inner>,
    task: &Task,
    fence: Fence,
) -> Result<(Result<Runner, Unavailable>, ContextOptions), ApplyError> {
    let runner = inner.runner(task).await?;
    let mut options = ContextOptions {
        fence,
        concurrency: None,
        input_timeout: INPUT_TIMEOUT,
        asks_again: false,
        journal: None,
        isolation: None,
        is_first: task.attempts_used <= 1,
    };
    if let Ok(runner) = &runner {
        options.concurrency = runner.concurrency;
        options.input_timeout = runner.input_timeout;
        options.asks_again = runner.executor.asks_again();
        if runner.executor.replays() {
            // Attempts that were suspended are not counted.
            options.is_first = fence.epoch == 1;
            let entries = Box::pin(read_journal(&inner.node, task)).await?;
            let journal = Journal::of(entries, task.created_at);
            options.isolation = Isolation::of(task, &runner.retry, &journal);
            options.journal = Some(journal);
        }
    }
    Ok((runner, options))
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

/// What the present attempt of a task without a journal has stored in an earlier process.
async fn read_checkpoint(node: &Node, task: &Task, cx: &TaskContext) -> Result<Option<Json>, ApplyError> {
    if cx.keeps_journal() || task.journaled == 0 {
        return Ok(None);
    }
    let read = || async { Ok(node.store.journal(&task.id, 0, 1).await?) };
    let entries = node.retry_store("reading a checkpoint", read).await?;
    let epoch = cx.shared.fence.epoch;
    Ok(entries
        .into_iter()
        .find_map(|entry| checkpoint::of_attempt(entry, epoch)))
}

/// Why the work of an attempt ended.
enum WorkEnd {
    /// Its executor returned.
    Ended(ExecutionEnd),
    /// It is durable, and its executor did not return; with the message of a panic, if there was one.
    Broken(EndedBy, Option<String>),
    /// It diverged from its journal.
    Diverged(Divergence),
    /// Another node has taken the attempt over, so nothing of it can be written any more.
    Lost,
    /// All of it waits, and it can be replayed.
    Suspended {
        /// When the earliest of its timers fires.
        until: Option<UnixMillis>,
        /// How many wake-ups the task had seen by then.
        woken: u32,
    },
}

impl From<NotStarted> for WorkEnd {
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

/// Runs the work, and writes its drafts and reports meanwhile. Work that was asked to stop already is not started.
async fn run_work(
    inner: &Arc<Inner>,
    cx: &TaskContext,
    (executor, intake): (Arc<dyn Executor>, Option<Arc<dyn Intake>>),
    mut attempt: ExecutorAttempt,
    origin: AttemptOrigin,
) -> WorkEnd {
    if origin == AttemptOrigin::Claimed {
        let late = attempt.deadline_at.is_some_and(|deadline| deadline <= inner.node.now());
        if cx.stop_requested().is_none()
            && let Some(end) = cx.end_if_withdrawn()
        {
            return WorkEnd::Ended(end);
        }
        if let Some(reason) = cx.stop_requested().or(late.then_some(StopReason::Deadline)) {
            return WorkEnd::Ended(ExecutionEnd::Stopped(reason));
        }
    }
    if origin == AttemptOrigin::Reclaimed {
        return WorkEnd::Ended(ExecutionEnd::Crashed);
    }
    if origin == AttemptOrigin::Adopted && cx.keeps_journal() {
        // Its process and its code are gone. It is replayed, if the retry policy allows it.
        return match cx.was_waiting_for_isolation() {
            true => WorkEnd::Ended(ExecutionEnd::NeverStarted("it waited for isolation".to_owned())),
            false => WorkEnd::Broken(EndedBy::Crash, None),
        };
    }
    if cx.shared.isolation.is_some()
        && let Err(not_started) = Box::pin(cx.wait_for_isolation()).await
    {
        return not_started.into();
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
            Ok(end) => check_replay(cx, end),
            Err(panic) => panicked(cx, &*panic),
        },
        () = cx.lost() => WorkEnd::Lost,
        end = durable_end(&inner.node, cx) => end,
        never = write_drafts(cx) => match never {},
        never = write_reports(&inner.node, cx) => match never {},
    };
    // Closed before the code is dropped, so that questions and children that are dropped with it are not withdrawn and cancelled.
    cx.close();
    end
}

/// Completes when the code of a durable task must not go on; never for other code.
async fn durable_end(node: &Node, cx: &TaskContext) -> WorkEnd {
    if !cx.keeps_journal() {
        return std::future::pending().await;
    }
    let end = async {
        tokio::select! {
            biased;
            divergence = cx.diverged() => WorkEnd::Diverged(divergence),
            (until, woken) = cx.suspend() => WorkEnd::Suspended { until, woken },
            until = released(node) => WorkEnd::Suspended { until: Some(until), woken: 0 },
            never = cx.end_isolation_in_time() => match never {},
        }
    };
    Box::pin(end).await
}

/// The result of code that has diverged from its journal does not count. Code that was asked to stop, or has crashed, need not have reached all
/// entries.
fn check_replay(cx: &TaskContext, end: ExecutionEnd) -> WorkEnd {
    let Some(journal) = cx.shared.journal.as_ref().filter(|_| cx.stop_requested().is_none()) else {
        return WorkEnd::Ended(end);
    };
    let checked = match end {
        ExecutionEnd::Finished(_) | ExecutionEnd::Errored(_) => journal.finish(),
        _ => journal.has_diverged(),
    };
    match checked {
        Ok(()) => WorkEnd::Ended(end),
        Err(divergence) => WorkEnd::Diverged(divergence),
    }
}

/// Completes when the server is stopping; the work resumes in the next process at once.
async fn released(node: &Node) -> UnixMillis {
    node.released().await;
    node.now()
}

/// A panic is a non-determinism error if the code has diverged, a crash of other durable code, else an error of the tool. Its location and
/// backtrace are on standard error only.
fn panicked(cx: &TaskContext, panic: &(dyn Any + Send)) -> WorkEnd {
    let message = panic_message(panic);
    error!(tool = %cx.shared.header.tool, task = cx.task().short(), message, "an executor panicked");
    match &cx.shared.journal {
        None => WorkEnd::Ended(ExecutionEnd::Errored(panic_outcome(message))),
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
    Some(beginning_of(message))
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

/// Decides the attempt's end by the retry policy, and what is recorded of a failed attempt. Whether a stop was requested meanwhile is decided by
/// the transition.
async fn decide_end(
    inner: &Inner,
    cx: &TaskContext,
    task: &Task,
    runner: &Runner,
    origin: AttemptOrigin,
    end: WorkEnd,
) -> (AttemptEnd, Option<FailedAttempt>) {
    let retry = &runner.retry;
    let block = |reason, failure| {
        let block = blocked::block(inner, cx, task, &runner.spec, runner.blocked_timeout, reason, failure);
        Box::pin(block)
    };
    let used = cx.attempts_used(task);
    let asks_again = cx.shared.asks_again;
    // A retry after the deadline would never run, so the work's own error is the better end.
    let again = |why| {
        let wait = retry.wait_after(used, why)?;
        // Calls of an upstream that failed together must not be made again in step: one of them may be what ends it.
        let spread = match runner.executor.upstream() {
            Some(_) => inner.node.random() % (wait / 2 + 1),
            None => 0,
        };
        let at = inner.node.now().plus(wait.saturating_add(spread));
        task.deadline_at().is_none_or(|deadline| at < deadline).then_some(at)
    };
    let failed_with = |outcome: Outcome, why, by| {
        let retry_at = again(why);
        let outcome = match retry_at.is_none() && retry.wait_after(used, why).is_some() {
            true => outcome.with_note(&format!(
                "Attempt {used} of {}: no time was left for another one before the deadline.",
                retry.attempts
            )),
            false => outcome,
        };
        report_retry(cx, &outcome, retry_at);
        // A final error is in the outcome itself.
        let failed = retry_at.map(|_| cx.failed(by, message_of(&outcome).as_deref()));
        let end = AttemptEnd::Failed {
            outcome,
            retry_at,
            asks_again,
        };
        (end, failed)
    };
    let mut panic_message = None;
    let (end, by) = match end {
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
        WorkEnd::Broken(by, message) => {
            panic_message = message;
            (ExecutionEnd::Crashed, by)
        }
        // Nothing is written of it.
        WorkEnd::Lost => (ExecutionEnd::Crashed, EndedBy::Crash),
        // An executor returns `Crashed` only if its results could not be stored.
        WorkEnd::Ended(end) => (end, EndedBy::Store),
    };
    match end {
        ExecutionEnd::Finished(outcome) => (AttemptEnd::Finished(outcome.within_max_depth()), None),
        ExecutionEnd::Errored(outcome) => failed_with(outcome.within_max_depth(), RetryOn::Error, EndedBy::Error),
        ExecutionEnd::Crashed | ExecutionEnd::SupervisorKilled | ExecutionEnd::RecordDamaged => {
            let interrupted = match end {
                ExecutionEnd::SupervisorKilled => Failure::SupervisorKilled,
                ExecutionEnd::RecordDamaged => Failure::RecordDamaged,
                _ => Failure::Interrupted,
            };
            let failed = cx.failed(by, panic_message.as_deref());
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
                None => {
                    let outcome = crashed(retry, used, interrupted);
                    report_retry(cx, &outcome, retry_at);
                    outcome
                }
            };
            let end = AttemptEnd::Failed {
                outcome,
                retry_at,
                asks_again,
            };
            (end, Some(failed))
        }
        ExecutionEnd::OutcomeUnknown(outcome) => failed_with(outcome, RetryOn::Crash, EndedBy::Crash),
        ExecutionEnd::Lost(outcome) => {
            let end = AttemptEnd::Failed {
                outcome,
                retry_at: None,
                asks_again,
            };
            (end, None)
        }
        ExecutionEnd::Stopped(reason) => (AttemptEnd::Stopped(reason), None),
        ExecutionEnd::NeverStarted(why) => {
            let retry_at = (origin == AttemptOrigin::Claimed).then(|| delay_after_failed_start(cx, task, &why));
            (AttemptEnd::NeverStarted { retry_at }, None)
        }
        ExecutionEnd::NotBegun => {
            // In place of what it waited for.
            cx.status("not started yet");
            (AttemptEnd::NeverStarted { retry_at: None }, None)
        }
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

fn crashed(retry: &Retry, attempts: u32, interrupted: Failure) -> Outcome {
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
async fn write_end(node: &Arc<Node>, cx: &TaskContext, end: AttemptEnd, failed: Option<FailedAttempt>) {
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
