//! Intakes inside a task: a client of 2025-11-25 that asked for a task gets it before its user is asked anything.

use crate::{
    catalog::{HandlerError, Intake},
    context::{StepError, StepPolicy, TaskContext},
    execution_end::ExecutionEnd,
    journal::JournalError,
    node::ToolMessage,
    question::{AskError, Question, RequestChannel, RequestContext},
};
use longhaul_core::{BoxFuture, Json, Outcome};
use std::sync::Arc;

/// The step that records the arguments of an intake.
const STEP: &str = "ask_before";

/// The arguments that the work runs with, or how the attempt ends without them. A durable task gets the same ones in each attempt: they are
/// recorded as a step.
pub(crate) async fn take(intake: Arc<dyn Intake>, arguments: Json, cx: &TaskContext) -> Result<Json, ExecutionEnd> {
    let asking = Arc::new(WithinTask(cx.clone()));
    let request = RequestContext::new(
        cx.owner().clone(),
        Arc::clone(cx.requestor()),
        cx.ports().clone(),
        asking,
    );
    let taken = tokio::select! {
        biased;
        taken = intake.take(arguments, request) => taken,
        reason = cx.stopped() => return Err(ExecutionEnd::Stopped(reason)),
    };
    let taken = taken.map_err(|error| refused(error, cx))?;
    if !cx.keeps_journal() {
        return Ok(taken);
    }
    let kept = cx
        .step(STEP, &StepPolicy::default(), || std::future::ready(Ok(taken.clone())))
        .await;
    kept.map_err(|error| match error {
        StepError::Journal(JournalError::Stopped(reason)) => ExecutionEnd::Stopped(reason),
        other => ExecutionEnd::Finished(Outcome::tool_error(&other.to_string())),
    })
}

/// The attempt is not retried: the client has refused, or cannot be asked.
fn refused(error: HandlerError, cx: &TaskContext) -> ExecutionEnd {
    match cx.stop_requested() {
        Some(reason) => ExecutionEnd::Stopped(reason),
        None => ExecutionEnd::Finished(error.into_outcome(cx.requestor())),
    }
}

/// Carries an intake's questions and messages to the client of its task.
struct WithinTask(TaskContext);

impl RequestChannel for WithinTask {
    fn ask(&self, question: Question) -> BoxFuture<'static, Result<Json, AskError>> {
        let cx = self.0.clone();
        Box::pin(async move { cx.ask(question).await })
    }

    fn send(&self, message: ToolMessage) {
        self.0.send(message);
    }
}
