//! Cancels a job at its upstream, also after its task has ended: the upstream may be away, or still starting.

use super::JobExecutor;
use crate::{
    config::job_tools::{document, shown},
    executor::meta_of,
    question::Context,
    upstream::{loops, public},
};
use longhaul_client::{CallOptions, CallResponse, RequestError};
use longhaul_core::{Millis, Outcome};
use longhaul_runtime::TaskContext;
use serde_json::value::RawValue;
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// How long an upstream may take to answer the cancellation of a job: less than a stopping task has.
const LONGEST_CANCEL: Duration = Duration::from_secs(8);
/// The first pause before a cancellation is tried again, and the longest one, in milliseconds.
const PAUSES: (Millis, Millis) = (1_000, 30_000);
/// How long it is tried again.
const LONGEST_RETRY: Duration = Duration::from_secs(600);

/// Why a job is not known to be cancelled.
struct NotCancelled {
    why: String,
    /// Whether another request may have more success.
    is_transient: bool,
}

impl From<String> for NotCancelled {
    fn from(why: String) -> Self {
        Self {
            why,
            is_transient: false,
        }
    }
}

impl JobExecutor {
    /// Cancels the job, if there is a tool for that, and says on the task what came of it. This task is asked to stop already, so it does not wait long; what
    /// could not be cancelled by then is cancelled later.
    pub(crate) async fn cancel(self: &Arc<Self>, id: &RawValue, cx: &TaskContext) {
        let name = self.submit.upstream.name();
        let Some(tool) = &self.job.cancel else {
            return cx.status(format!(
                "the job goes on at upstream `{name}`: no tool that cancels it is configured"
            ));
        };
        let NotCancelled { why, is_transient } = match self.try_cancel(tool, id, cx).await {
            Ok(()) => return cx.status(format!("upstream `{name}` has taken the cancellation of the job")),
            Err(not_cancelled) => not_cancelled,
        };
        tracing::warn!(
            upstream = name,
            why_not = why,
            task = cx.task().short(),
            "an upstream did not take the cancellation of a job"
        );
        let again = match is_transient {
            true => ". It is tried again",
            false => "",
        };
        cx.status(format!(
            "upstream `{name}` has not taken the cancellation of the job, which may go on: {why}{again}"
        ));
        if is_transient {
            let later = Arc::clone(self).cancel_later(tool.clone(), id.to_owned(), cx.clone());
            self.submit.upstream.ports.spawner.spawn(Box::pin(later));
        }
    }

    /// Tries again until the upstream has taken or refused the cancellation, for ten minutes, or until this server ends.
    async fn cancel_later(self: Arc<Self>, tool: String, id: Box<RawValue>, cx: TaskContext) {
        let upstream = &self.submit.upstream;
        let (name, task) = (upstream.name(), cx.task().short());
        let clock = &upstream.ports.clock;
        let until = clock.monotonic() + LONGEST_RETRY;
        let mut pause = PAUSES.0;
        loop {
            upstream.pause(pause).await;
            pause = (pause * 2).min(PAUSES.1);
            let why_not = match self.try_cancel(&tool, &id, &cx).await {
                Ok(()) => {
                    return tracing::info!(upstream = name, task, "an upstream has taken the cancellation of a job");
                }
                Err(NotCancelled { is_transient: true, .. }) if clock.monotonic() < until => continue,
                Err(NotCancelled { why, .. }) => why,
            };
            return tracing::warn!(
                upstream = name,
                why_not,
                task,
                "the cancellation of a job is not tried again; the job may go on"
            );
        }
    }

    async fn try_cancel(&self, tool: &str, id: &RawValue, cx: &TaskContext) -> Result<(), NotCancelled> {
        let ports = &self.submit.upstream.ports;
        let called = ports.within(LONGEST_CANCEL, self.call_cancel(tool, id, cx)).await;
        called.unwrap_or_else(|| {
            Err(NotCancelled {
                why: "it has not answered".to_owned(),
                is_transient: true,
            })
        })
    }

    async fn call_cancel(&self, tool: &str, id: &RawValue, cx: &TaskContext) -> Result<(), NotCancelled> {
        let registered = (self.submit.upstream)
            .register(&Context::Task(cx.clone()), &BTreeMap::new())
            .await;
        let (connection, registration) = registered.map_err(|error| error.to_string())?;
        let mut options = CallOptions::default();
        options.source = Some(registration.number);
        options.without_task = true;
        options.arguments_text = Some(self.arguments(id));
        options.meta = meta_of(cx);
        loops::count_hop(&cx.requestor().meta, &mut options.meta)?;
        let connection = &connection.connection;
        let told = |error: RequestError| NotCancelled {
            why: public(self.submit.upstream.name(), &error, cx.principal()),
            is_transient: error.is_transient() || matches!(error, RequestError::NotStarted { .. }),
        };
        let listed = connection.tool(tool).await.map_err(told)?;
        let listed = listed.ok_or_else(|| format!("it has no tool `{tool}`"))?;
        // For the headers that mirror arguments.
        let arguments = serde_json::from_str(self.arguments(id).as_str()).unwrap_or_default();
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
