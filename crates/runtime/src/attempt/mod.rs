//! Attempts: one is driven from its claim to its end here. Beside it, what begins attempts, and what they have left behind.

pub(crate) mod blocked;
mod end;
mod intake;
mod past_attempts;
pub(crate) mod recovery;
pub(crate) mod remote_files;
pub(crate) mod scheduler;
pub(crate) mod timers;
mod work;

pub use recovery::{HOST_LOST_AFTER, KEPT_FOR_CLIENT, Recovered};
pub use remote_files::AttemptFilesError;

use crate::{
    catalog::INPUT_TIMEOUT,
    context::{ContextOptions, TaskContext, checkpoint},
    engine::{Inner, Runner, Unavailable},
    executor::ExecutorAttempt,
    journal::Journal,
    node::{AttemptOrigin, ClaimGuard, Isolation, Node, task_log},
    question::Requestor,
    queue::slots::Slot,
};
use end::{EndedAttempt, write_end};
use longhaul_core::{
    AttemptEnd, Entry, Failure, Fence, Json, Task,
    store::{ApplyError, Claimed},
};
use std::sync::Arc;
use tracing::{error, warn};
use work::run_work;

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
    let (runner, arguments) = with_clear_arguments(&inner, &task, arguments, origin, runner);
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
            let Some(work_result) = run_work(&inner, &cx, (executor, intake), attempt, origin).await else {
                return warn!(
                    task = task.id.short(),
                    "another server has taken over an attempt of this one"
                );
            };
            let ended = EndedAttempt {
                inner: &inner,
                cx: &cx,
                task: &task,
                runner: &runner,
                origin,
            };
            ended.decide(work_result).await
        }
        Err(why) => (Box::pin(end_of_unavailable(&inner, &cx, &task, why)).await, None),
    };
    inner.node.active.begin_end(&task.id, fence);
    // The slot is freed before the end is written: a client that reads the end may start the next call at once.
    cx.close();
    write_end(&inner.node, &cx, end, failed).await;
}

/// The arguments as the caller gave them. Without its secrets an attempt does not begin; a command that runs already has got them.
fn with_clear_arguments(
    inner: &Inner,
    task: &Task,
    arguments: Json,
    origin: AttemptOrigin,
    runner: Result<Runner, Unavailable>,
) -> (Result<Runner, Unavailable>, Json) {
    let error = match inner.decrypt_secrets(&task.id, arguments.clone()) {
        Ok((arguments, _)) => return (runner, arguments),
        Err(error) => error,
    };
    warn!(task = task.id.short(), %error, "an attempt lacks its arguments");
    let runner = runner.and_then(
        |runner| match origin != AttemptOrigin::Claimed && runner.executor.host_bound() {
            true => Ok(runner),
            false => Err(Unavailable {
                why: error.0,
                durable: runner.executor.replays(),
            }),
        },
    );
    (runner, arguments)
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
