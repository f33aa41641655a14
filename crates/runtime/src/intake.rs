//! Asking first within a task: a client of 2025-11-25 that asked for a task is given it before its user is asked anything (G1-11).

use crate::{
    catalog::{HandlerError, Intake},
    context::{StepError, StepPolicy, TaskContext},
    execution_end::End,
    journal::JournalError,
    progress_stream::ToolMessage,
    question::{AskError, Question},
    request::{RequestContext, Requesting},
};
use longhaul_core::{BoxFuture, Json, Outcome};
use std::sync::Arc;

/// What a journal calls the arguments that the intake gave.
const STEP: &str = "ask_before";

/// The arguments that the work runs with, or how the attempt ends without them. Work that keeps a journal is given the same ones at
/// each attempt: the intake is run again, answered by the journal, and what it gave at first counts.
pub(crate) async fn take(intake: Arc<dyn Intake>, arguments: Json, cx: &TaskContext) -> Result<Json, End> {
    let asking = Arc::new(WithinTask(cx.clone()));
    let request = RequestContext::new(
        cx.principal().clone(),
        Arc::clone(cx.requestor()),
        cx.ports().clone(),
        asking,
    );
    let taken = tokio::select! {
        biased;
        taken = intake.take(arguments, request) => taken,
        reason = cx.stopped() => return Err(End::Stopped(reason)),
    };
    let taken = taken.map_err(|error| refused(error, cx))?;
    if !cx.keeps_journal() {
        return Ok(taken);
    }
    let kept = cx
        .step(STEP, &StepPolicy::default(), || std::future::ready(Ok(taken.clone())))
        .await;
    kept.map_err(|error| match error {
        StepError::Journal(JournalError::Stopped(reason)) => End::Stopped(reason),
        other => End::Finished(Outcome::tool_error(&other.to_string())),
    })
}

/// Nothing is tried again: whoever was asked has said no, or cannot be asked.
fn refused(error: HandlerError, cx: &TaskContext) -> End {
    match cx.stop_requested() {
        Some(reason) => End::Stopped(reason),
        None => End::Finished(error.into_outcome(cx.requestor())),
    }
}

/// The way from an intake to the client of its task.
struct WithinTask(TaskContext);

impl Requesting for WithinTask {
    fn ask(&self, question: Question) -> BoxFuture<'static, Result<Json, AskError>> {
        let cx = self.0.clone();
        Box::pin(async move { cx.ask(question).await })
    }

    fn say(&self, said: ToolMessage) {
        match said {
            ToolMessage::Progress {
                current,
                total,
                message,
            } => self.0.report(current, total, message.as_deref()),
            ToolMessage::Log { level, logger, data } => self.0.log(level, logger.as_deref(), data),
            ToolMessage::ElicitationComplete { id } => self.0.elicitation_complete(&id),
            ToolMessage::Quiet => self.0.quiet(),
        }
    }
}
