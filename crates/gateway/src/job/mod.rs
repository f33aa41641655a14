//! Runs a job of a job-style toolset: submits it, asks for its state until it has an end, and reads its result.

use crate::{
    config::job_tools::{JobTools, document, picked},
    executor::{UpstreamExecutor, is_unsent, meta_of},
    question::Context,
    raw_json,
    remote_job::{
        JobAnswer, JobStatus, NotCancelled, RemoteJob, follow,
        states::{failed_job, shown},
    },
    upstream::{Purpose, loops, public},
};
use longhaul_client::{CallOptions, CallResponse, RequestError};
use longhaul_core::{AttemptState, BoxFuture, Json, Millis, Outcome};
use longhaul_runtime::{ExecutionEnd, Executor, ExecutorAttempt, Ports, TaskContext};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::{collections::BTreeMap, sync::Arc};

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
            self.follow(stored.job, &attempt, &cx).await
        })
    }

    fn resume(self: Arc<Self>, attempt: ExecutorAttempt, cx: TaskContext) -> BoxFuture<'static, ExecutionEnd> {
        Box::pin(async move {
            if let Some(id) = attempt.checkpoint.as_ref().and_then(StoredJob::read) {
                return self.follow(id, &attempt, &cx).await;
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

/// A job that an upstream runs.
struct UpstreamJob {
    tools: Arc<JobExecutor>,
    /// As JSON.
    id: Box<RawValue>,
    attempt: ExecutorAttempt,
}

impl JobExecutor {
    /// Follows the job to its end.
    async fn follow(self: &Arc<Self>, id: Box<RawValue>, attempt: &ExecutorAttempt, cx: &TaskContext) -> ExecutionEnd {
        // A child in which the job runs must not be closed between the calls that ask for its state.
        let _in_use = self
            .submit
            .register(cx, &BTreeMap::new())
            .await
            .map(|(connection, _)| connection);
        let job = UpstreamJob {
            tools: Arc::clone(self),
            id,
            attempt: attempt.clone(),
        };
        follow(&Arc::new(job), cx).await
    }
}

impl RemoteJob for UpstreamJob {
    fn server(&self) -> String {
        format!("upstream `{}`", self.tools.submit.upstream.name())
    }

    fn shown(&self) -> String {
        format!("job {}", self.id)
    }

    fn ports(&self) -> &Ports {
        &self.tools.submit.upstream.ports
    }

    fn poll(&self) -> Millis {
        self.tools.job.poll
    }

    fn status<'a>(&'a self, cx: &'a TaskContext) -> BoxFuture<'a, JobAnswer<JobStatus>> {
        Box::pin(async move {
            let (tool, states) = (&self.tools.job.status, &self.tools.job.states);
            self.ask(tool, cx)
                .await
                .and_then(|answer| match states.status(document(&answer)) {
                    // The result of a job may be all that the tool has returned.
                    Some(status) => JobAnswer::Known(JobStatus { answer, ..status }),
                    None => {
                        let at = states.state.as_deref().unwrap_or_default();
                        let why = format!("the result of `{tool}` has no state at {at:?}");
                        JobAnswer::Refused(self.tools.submit.over(&why))
                    }
                })
        })
    }

    fn result<'a>(&'a self, status: JobStatus, cx: &'a TaskContext) -> BoxFuture<'a, JobAnswer<ExecutionEnd>> {
        Box::pin(async move {
            let job = &self.tools.job;
            let picked = |result: &Json| {
                let picked = picked(result, job.states.result_at.as_deref());
                JobAnswer::Known(ExecutionEnd::Finished(picked))
            };
            match &job.result {
                None => picked(&status.answer),
                Some(tool) => self.ask(tool, cx).await.and_then(|result| picked(&result)),
            }
        })
    }

    fn failure(&self, status: &JobStatus) -> ExecutionEnd {
        let answer = document(&status.answer);
        let reason = self.tools.job.states.reason(&answer);
        let reason = reason.unwrap_or_else(|| shown(answer.as_str()));
        ExecutionEnd::Finished(failed_job(&status.state, &reason))
    }

    fn cannot_cancel(&self) -> Option<String> {
        let none = self.tools.job.cancel.is_none();
        none.then(|| "no tool that cancels it is configured".to_owned())
    }

    fn cancel<'a>(&'a self, cx: &'a TaskContext) -> BoxFuture<'a, Result<(), NotCancelled>> {
        Box::pin(async move {
            match &self.tools.job.cancel {
                Some(tool) => self.call_cancel(tool, cx).await,
                None => Ok(()),
            }
        })
    }
}

impl UpstreamJob {
    /// Calls a tool with the id of the job. It may be called again.
    async fn ask(&self, tool: &str, cx: &TaskContext) -> JobAnswer<Json> {
        let executor = UpstreamExecutor {
            upstream: Arc::clone(&self.tools.submit.upstream),
            tool: tool.to_owned(),
            idempotent: true,
            purpose: Purpose::Job,
        };
        let attempt = ExecutorAttempt {
            arguments: self.arguments(),
            // The job runs, and its checkpoint names it.
            state: AttemptState::Live,
            checkpoint: None,
            ..self.attempt.clone()
        };
        match executor.call_to_end(&attempt, cx).await {
            ExecutionEnd::Finished(Outcome::Result { json, is_error: false }) => JobAnswer::Known(json),
            end @ ExecutionEnd::Finished(_) => JobAnswer::Refused(end),
            ExecutionEnd::Stopped(reason) => JobAnswer::Stopped(reason),
            end => {
                let why = executor.why(&end);
                JobAnswer::Away {
                    why: why.unwrap_or_else(|| format!("{} cannot be asked", self.server())),
                    retry_after: None,
                }
            }
        }
    }

    fn arguments(&self) -> Json {
        raw_json::object([(self.tools.job.id_argument.as_str(), self.id.get())])
    }

    async fn call_cancel(&self, tool: &str, cx: &TaskContext) -> Result<(), NotCancelled> {
        let upstream = &self.tools.submit.upstream;
        let registered = upstream.register(&Context::Task(cx.clone()), &BTreeMap::new()).await;
        let (connection, registration) = registered.map_err(|error| error.to_string())?;
        let mut options = CallOptions::default();
        options.source = Some(registration.number);
        options.without_task = true;
        options.arguments_text = Some(self.arguments());
        options.meta = meta_of(cx);
        loops::count_hop(&cx.requestor().meta, &mut options.meta)?;
        let connection = &connection.connection;
        let told = |error: RequestError| NotCancelled {
            why: public(upstream.name(), &error, cx.principal()),
            is_transient: error.is_transient() || matches!(error, RequestError::NotStarted { .. }),
        };
        let listed = connection.tool(tool).await.map_err(told)?;
        let listed = listed.ok_or_else(|| format!("it has no tool `{tool}`"))?;
        // For the headers that mirror arguments.
        let arguments = serde_json::from_str(self.arguments().as_str()).unwrap_or_default();
        let called = connection
            .call_tool_with(&listed, &arguments, &options, &mut |_| {})
            .await;
        match called.map_err(told)? {
            CallResponse::Done(Outcome::Result { json, is_error: true }) => Err(shown(document(&json).as_str()).into()),
            CallResponse::Done(Outcome::RpcError(failure)) => Err(failure.message.to_string().into()),
            _ => Ok(()),
        }
    }
}
