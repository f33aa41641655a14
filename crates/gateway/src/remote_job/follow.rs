//! Asks for the state of a job until it has an end.

use super::{JobAnswer, JobPhase, JobStatus, RemoteJob, cancel::cancel};
use longhaul_core::Millis;
use longhaul_runtime::{ExecutionEnd, TaskContext};
use std::{sync::Arc, time::Duration};

/// How often in a row a job may be without a state, or the server may refuse to tell it or the result.
const MOST_REFUSALS: u32 = 5;
/// The longest pause before a server that cannot be asked is asked again, unless it asks for a longer one, in milliseconds.
const LONGEST_PAUSE: Millis = 15_000;
/// The longest pause that a server can ask for, in milliseconds.
const LONGEST_RETRY_AFTER: Millis = 3_600_000;

/// Follows the job to its end. While its server is away, the job goes on. If the task is to stop, the job is cancelled.
pub(crate) async fn follow<J: RemoteJob>(job: &Arc<J>, cx: &TaskContext) -> ExecutionEnd {
    let mut follower = JobFollower {
        job,
        cx,
        refusals: 0,
        times_away: 0,
        last_message: None,
        pause: job.poll(),
    };
    loop {
        if let Some(reason) = cx.stop_requested() {
            cancel(job, cx).await;
            return ExecutionEnd::Stopped(reason);
        }
        follower.pause = job.poll();
        if let Some(end) = follower.ask().await {
            return end;
        }
        tokio::select! {
            biased;
            reason = cx.stopped() => {
                cancel(job, cx).await;
                return ExecutionEnd::Stopped(reason);
            }
            () = job.ports().clock.sleep(Duration::from_millis(follower.pause)) => {}
        }
    }
}

struct JobFollower<'a, J> {
    job: &'a Arc<J>,
    cx: &'a TaskContext,
    /// In a row.
    refusals: u32,
    /// In a row.
    times_away: u32,
    last_message: Option<String>,
    /// Before the server is asked again, in milliseconds.
    pause: Millis,
}

impl<J: RemoteJob> JobFollower<'_, J> {
    /// Asks for the state, and for the result of a job that is done. `None` if the job is to be asked for again.
    async fn ask(&mut self) -> Option<ExecutionEnd> {
        let status = match self.job.status(self.cx).await {
            JobAnswer::Known(status) => status,
            JobAnswer::Stopped(reason) => {
                cancel(self.job, self.cx).await;
                return Some(ExecutionEnd::Stopped(reason));
            }
            other => return self.not_known(other, "the state of the job is asked again"),
        };
        self.tell(&status);
        self.times_away = 0;
        match status.phase {
            JobPhase::Running => {
                self.refusals = 0;
                self.wait_for(status.retry_after);
                None
            }
            JobPhase::Failed => Some(self.job.failure(&status)),
            JobPhase::Done => match self.job.result(status, self.cx).await {
                JobAnswer::Known(end) => Some(end),
                // The job has ended, so there is nothing to cancel.
                other => self.not_known(other, "the result of the job is asked again"),
            },
        }
    }

    /// Reports what is known of a job that runs. That the server was away must not stay the last status of the task.
    fn tell(&mut self, status: &JobStatus) {
        let is_told = status.phase == JobPhase::Running || self.times_away > 0;
        if is_told && self.last_message.as_ref() != Some(&status.message) {
            self.cx.status(status.message.as_str());
            self.last_message = Some(status.message.clone());
        }
        if let Some((current, total)) = status.progress {
            self.cx.progress(current, total);
        }
    }

    fn not_known<T>(&mut self, answer: JobAnswer<T>, next: &str) -> Option<ExecutionEnd> {
        match answer {
            JobAnswer::Known(_) => None,
            JobAnswer::Stopped(reason) => Some(ExecutionEnd::Stopped(reason)),
            JobAnswer::Away { why, retry_after } => {
                self.cx.status(format!("{why}; {next}"));
                self.last_message = None;
                self.refusals = 0;
                self.pause = (self.pause << self.times_away.min(16)).min(LONGEST_PAUSE.max(self.pause));
                self.times_away += 1;
                self.wait_for(retry_after);
                None
            }
            JobAnswer::Refused(end) => {
                self.refusals += 1;
                if self.refusals < MOST_REFUSALS {
                    return None;
                }
                let (shown, server) = (self.job.shown(), self.job.server());
                self.cx
                    .status(format!("{shown} of {server} cannot be followed, and may go on"));
                Some(end)
            }
        }
    }

    fn wait_for(&mut self, retry_after: Option<Millis>) {
        if let Some(asked) = retry_after {
            self.pause = self.pause.max(asked.min(LONGEST_RETRY_AFTER));
        }
    }
}
