//! Runs a job of a job-style toolset: submits it, asks for its state until it has an end, and reads its result.

mod cancel;

use crate::{
    config::job_tools::{JobTools, document, failure, names, picked, text_at},
    executor::{UpstreamExecutor, is_unsent},
    raw_json,
    upstream::Purpose,
};
use longhaul_core::{AttemptState, BoxFuture, Json, Outcome, StopReason};
use longhaul_runtime::{ExecutionEnd, Executor, ExecutorAttempt, TaskContext};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::{collections::BTreeMap, sync::Arc};

/// How often in a row a job may be without a state, or the upstream may refuse to tell it or the result.
const MOST_REFUSALS: u32 = 5;

/// A set of tools of an upstream, as one tool.
pub(crate) struct JobExecutor {
    /// Calls the tool that submits a job.
    pub(crate) submit: UpstreamExecutor,
    pub(crate) job: JobTools,
}

/// What a job is found again by, version 1.
#[derive(Serialize, Deserialize)]
struct StoredJob {
    version: u32,
    /// Its id, as JSON.
    job: Box<RawValue>,
}

impl StoredJob {
    fn read(checkpoint: &Json) -> Option<Box<RawValue>> {
        let stored: Self = serde_json::from_str(checkpoint.as_str()).ok()?;
        (stored.version == 1).then_some(stored.job)
    }
}

impl Executor for JobExecutor {
    fn upstream(&self) -> Option<&str> {
        self.submit.upstream()
    }

    fn may_log(&self) -> bool {
        self.submit.may_log()
    }

    fn asks_again(&self) -> bool {
        true
    }

    fn run(self: Arc<Self>, attempt: ExecutorAttempt, cx: TaskContext) -> BoxFuture<'static, ExecutionEnd> {
        Box::pin(async move {
            let _slot = match self.submit.slot(&attempt, &cx).await {
                Ok(slot) => slot,
                Err(end) => return end,
            };
            let submitted = match self.submit.call_to_end(&attempt, &cx).await {
                ExecutionEnd::Finished(Outcome::Result { json, is_error: false }) => json,
                end => return end,
            };
            let submitted = document(&submitted);
            let Some(id) = raw_json::at(submitted.as_str(), &self.job.id)
                .filter(|id| *id != "null")
                .and_then(|id| RawValue::from_string(id.to_owned()).ok())
            else {
                let (submit, at) = (&self.job.submit, &self.job.id);
                return self.submit.over(&format!(
                    "the result of `{submit}` has no id of a job at {at:?}, so nobody can follow it"
                ));
            };
            let stored = StoredJob { version: 1, job: id };
            let checkpoint = Json::trusted(serde_json::to_string(&stored).unwrap_or_default());
            if let Err(error) = cx.checkpoint(checkpoint).await {
                tracing::warn!(%error, task = cx.task().short(), "the id of a job was not recorded");
            }
            cx.becomes_task();
            self.follow(&stored.job, &attempt, &cx).await
        })
    }

    fn resume(self: Arc<Self>, attempt: ExecutorAttempt, cx: TaskContext) -> BoxFuture<'static, ExecutionEnd> {
        Box::pin(async move {
            if let Some(id) = attempt.checkpoint.as_ref().and_then(StoredJob::read) {
                return self.follow(&id, &attempt, &cx).await;
            }
            match cx.stop_requested() {
                Some(reason) => {
                    if !is_unsent(&attempt) {
                        self.submit.tell_cancelled(&cx, format!(
                            "the gateway was stopped while it submitted the job to upstream `{}`, so nobody can cancel it: one may go on",
                            self.submit.upstream.name()
                        ));
                    }
                    ExecutionEnd::Stopped(reason)
                }
                None if is_unsent(&attempt) || self.submit.idempotent => self.run(attempt, cx).await,
                None => self.submit.lost("the gateway was stopped while it submitted the job"),
            }
        })
    }
}

/// What came of asking about a job.
enum JobAnswer {
    /// A result.
    Result(Json),
    /// It was refused.
    Refused(Outcome),
    /// This task is to stop.
    Stopped(StopReason),
    /// The upstream cannot be asked now, for this reason.
    Away(String),
}

impl JobExecutor {
    /// Asks for the state of the job until it has an end. While the upstream is away, the job goes on.
    async fn follow(self: &Arc<Self>, id: &RawValue, attempt: &ExecutorAttempt, cx: &TaskContext) -> ExecutionEnd {
        let (mut refusals, mut last_message, mut was_away) = (0, None, false);
        // A child in which the job runs must not be closed between the calls that ask for its state.
        let _in_use = self
            .submit
            .register(cx, &BTreeMap::new())
            .await
            .map(|(connection, _)| connection);
        loop {
            if let Some(reason) = cx.stop_requested() {
                self.cancel(id, cx).await;
                return ExecutionEnd::Stopped(reason);
            }
            let refused = match self.ask(&self.job.status, id, attempt, cx).await {
                JobAnswer::Stopped(reason) => {
                    self.cancel(id, cx).await;
                    return ExecutionEnd::Stopped(reason);
                }
                JobAnswer::Away(why) => {
                    cx.status(format!("{why}; the state of the job is asked again"));
                    (last_message, was_away) = (None, true);
                    None
                }
                JobAnswer::Refused(outcome) => Some(ExecutionEnd::Finished(outcome)),
                JobAnswer::Result(status) => match text_at(&document(&status), &self.job.state) {
                    None => {
                        let (tool, at) = (&self.job.status, &self.job.state);
                        let why = format!("the result of `{tool}` has no state at {at:?}");
                        Some(self.submit.over(&why))
                    }
                    Some(state) => {
                        let (has_failed, is_done) = (names(&self.job.failed, &state), names(&self.job.done, &state));
                        let message = self.job.status_message(&document(&status), &state);
                        // That the upstream was away must not stay the last status of the task.
                        let is_told = !has_failed && !is_done || was_away;
                        if is_told && last_message.as_ref() != Some(&message) {
                            cx.status(message.as_str());
                            last_message = Some(message);
                        }
                        was_away = false;
                        match &self.job.result {
                            _ if has_failed => {
                                return ExecutionEnd::Finished(failure(&status, &state, self.job.error_at.as_deref()));
                            }
                            _ if !is_done => None,
                            None => return self.finished(&status),
                            Some(tool) => match self.ask(tool, id, attempt, cx).await {
                                JobAnswer::Result(result) => return self.finished(&result),
                                JobAnswer::Stopped(reason) => return ExecutionEnd::Stopped(reason),
                                JobAnswer::Refused(outcome) => Some(ExecutionEnd::Finished(outcome)),
                                // The job has ended, so it is asked once more.
                                JobAnswer::Away(why) => {
                                    cx.status(format!("{why}; the result of the job is asked again"));
                                    (last_message, was_away) = (None, true);
                                    None
                                }
                            },
                        }
                    }
                },
            };
            match refused {
                None => refusals = 0,
                Some(end) => {
                    refusals += 1;
                    if refusals >= MOST_REFUSALS {
                        let name = self.submit.upstream.name();
                        cx.status(format!(
                            "job {id} of upstream `{name}` cannot be followed, and may go on"
                        ));
                        return end;
                    }
                }
            }
            tokio::select! {
                biased;
                reason = cx.stopped() => {
                    self.cancel(id, cx).await;
                    return ExecutionEnd::Stopped(reason);
                }
                () = self.submit.upstream.pause(self.job.poll) => {}
            }
        }
    }

    fn finished(&self, result: &Json) -> ExecutionEnd {
        ExecutionEnd::Finished(picked(result, self.job.result_at.as_deref()))
    }

    /// Calls a tool with the id of the job. It may be called again.
    async fn ask(&self, tool: &str, id: &RawValue, attempt: &ExecutorAttempt, cx: &TaskContext) -> JobAnswer {
        let executor = UpstreamExecutor {
            upstream: Arc::clone(&self.submit.upstream),
            tool: tool.to_owned(),
            idempotent: true,
            purpose: Purpose::Job,
        };
        let attempt = ExecutorAttempt {
            arguments: self.arguments(id),
            // The job runs, and its checkpoint names it.
            state: AttemptState::Live,
            checkpoint: None,
            ..attempt.clone()
        };
        match executor.call_to_end(&attempt, cx).await {
            ExecutionEnd::Finished(Outcome::Result { json, is_error: false }) => JobAnswer::Result(json),
            ExecutionEnd::Finished(outcome) => JobAnswer::Refused(outcome),
            ExecutionEnd::Stopped(reason) => JobAnswer::Stopped(reason),
            end => {
                let why = executor.why(&end);
                let name = self.submit.upstream.name();
                JobAnswer::Away(why.unwrap_or_else(|| format!("upstream `{name}` cannot be asked")))
            }
        }
    }

    pub(crate) fn arguments(&self, id: &RawValue) -> Json {
        raw_json::object([(self.job.id_argument.as_str(), id.get())])
    }
}
