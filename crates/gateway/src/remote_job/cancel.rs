//! Cancels a job at its server, also after its task has ended: the server may be away, or still starting.

use super::{NotCancelled, RemoteJob};
use longhaul_core::Millis;
use longhaul_runtime::TaskContext;
use std::{sync::Arc, time::Duration};

/// How long a server may take to answer the cancellation of a job: less than a stopping task has.
const LONGEST_CANCEL: Duration = Duration::from_secs(8);
/// The first pause before a cancellation is tried again, and the longest one, in milliseconds.
const PAUSES: (Millis, Millis) = (1_000, 30_000);
/// How long it is tried again.
const LONGEST_RETRY: Duration = Duration::from_secs(600);

/// Cancels the job, if that can be done, and says on the task what came of it. This task is asked to stop already, so it does not wait long; what could not be
/// cancelled by then is cancelled later.
pub(super) async fn cancel<J: RemoteJob>(job: &Arc<J>, cx: &TaskContext) {
    let server = job.server();
    if let Some(why) = job.cannot_cancel() {
        return cx.status(format!("the job goes on at {server}: {why}"));
    }
    let NotCancelled { why, is_transient } = match try_cancel(&**job, cx).await {
        Ok(()) => return cx.status(format!("{server} has taken the cancellation of the job")),
        Err(not_cancelled) => not_cancelled,
    };
    tracing::warn!(
        server,
        why_not = why,
        task = cx.task().short(),
        "a server did not take the cancellation of a job"
    );
    let again = match is_transient {
        true => ". It is tried again",
        false => "",
    };
    cx.status(format!(
        "{server} has not taken the cancellation of the job, which may go on: {why}{again}"
    ));
    if is_transient {
        let later = cancel_later(Arc::clone(job), cx.clone());
        job.ports().spawner.spawn(Box::pin(later));
    }
}

/// Tries again until the server has taken or refused the cancellation, for ten minutes, or until this server ends.
async fn cancel_later<J: RemoteJob>(job: Arc<J>, cx: TaskContext) {
    let (server, task, clock) = (job.server(), cx.task().short(), &job.ports().clock);
    let until = clock.monotonic() + LONGEST_RETRY;
    let mut pause = PAUSES.0;
    loop {
        clock.sleep(Duration::from_millis(pause)).await;
        pause = (pause * 2).min(PAUSES.1);
        let why_not = match try_cancel(&*job, &cx).await {
            Ok(()) => {
                return tracing::info!(server, task, "a server has taken the cancellation of a job");
            }
            Err(NotCancelled { is_transient: true, .. }) if clock.monotonic() < until => continue,
            Err(NotCancelled { why, .. }) => why,
        };
        return tracing::warn!(
            server,
            why_not,
            task,
            "the cancellation of a job is not tried again; the job may go on"
        );
    }
}

async fn try_cancel(job: &impl RemoteJob, cx: &TaskContext) -> Result<(), NotCancelled> {
    let cancelled = job.ports().within(LONGEST_CANCEL, job.cancel(cx)).await;
    cancelled.unwrap_or_else(|| {
        Err(NotCancelled {
            why: "it has not answered".to_owned(),
            is_transient: true,
        })
    })
}
