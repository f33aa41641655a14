use super::{retry, text};
use longhaul_core::{BoxFuture, Outcome, RetryOn};
use longhaul_runtime::{
    ExecutionEnd, Executor, ExecutorAttempt, JournalError, StepError, StepFailure, StepPolicy, TaskContext,
    ToolSettings,
};
use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

/// Why a program ended without its last words.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error(transparent)]
    Step(#[from] StepError),
    #[error(transparent)]
    Ask(#[from] longhaul_runtime::AskError),
    #[error(transparent)]
    Child(#[from] longhaul_runtime::ChildError),
}

type Code = dyn Fn(TaskContext) -> BoxFuture<'static, Result<String, Fault>> + Send + Sync;

/// Code that keeps a journal.
pub(crate) struct Program(Box<Code>);

impl Executor for Program {
    fn replays(&self) -> bool {
        true
    }

    fn run(self: Arc<Self>, _attempt: ExecutorAttempt, cx: TaskContext) -> BoxFuture<'static, ExecutionEnd> {
        Box::pin(async move {
            match (self.0)(cx).await {
                Ok(words) => ExecutionEnd::Finished(text(&words)),
                Err(Fault::Journal(JournalError::Stopped(reason))) => ExecutionEnd::Stopped(reason),
                Err(Fault::Ask(longhaul_runtime::AskError::Stopped(reason))) => ExecutionEnd::Stopped(reason),
                Err(Fault::Child(longhaul_runtime::ChildError::Journal(JournalError::Stopped(reason)))) => {
                    ExecutionEnd::Stopped(reason)
                }
                Err(Fault::Step(StepError::Journal(JournalError::Stopped(reason)))) => ExecutionEnd::Stopped(reason),
                Err(fault) => ExecutionEnd::Errored(Outcome::tool_error(&fault.to_string())),
            }
        })
    }
}

/// A tool that runs `code`, five times if it crashes without coming further, and at once.
pub(crate) fn program<F>(name: &str, code: impl Fn(TaskContext) -> F + Send + Sync + 'static) -> ToolSettings
where
    F: Future<Output = Result<String, Fault>> + Send + 'static,
{
    ToolSettings {
        retry: retry(5, 0, [RetryOn::Crash]),
        ..super::tool(name, Arc::new(Program(Box::new(move |cx| Box::pin(code(cx))))))
    }
}

/// How often something happened.
#[derive(Clone, Default)]
pub(crate) struct Effects(Arc<AtomicU32>);

impl Effects {
    pub(crate) fn happen(&self) -> u32 {
        self.0.fetch_add(1, Ordering::SeqCst) + 1
    }

    pub(crate) fn count(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }

    /// A step that counts how often it was done.
    pub(crate) async fn step(&self, cx: &TaskContext, name: &str) -> Result<u32, StepError> {
        let policy = StepPolicy::default();
        let work = || async { Ok(longhaul_core::Json::trusted(self.happen().to_string())) };
        let done = cx.step(name, &policy, work);
        Ok(done.await?.as_str().parse().unwrap())
    }
}

/// A failure that another try may mend.
pub(crate) fn failure(message: &str) -> StepFailure {
    StepFailure {
        message: message.to_owned(),
        retriable: true,
    }
}
