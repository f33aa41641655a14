//! Tools that are functions in this process.
//!
//! Their work lives and dies with the process: what ran when it died ends as interrupted, or runs again if the tool's retry
//! policy says so.

use longhaul_core::{BoxFuture, Json};
use longhaul_runtime::{ExecutionEnd, Executor, ExecutorAttempt, STOP_GRACE, TaskContext};
use serde_json::{Map, Value};
use std::sync::Arc;

/// The kind of executor, as kept with each tool's definition. No provider revives it: a closure cannot be stored.
pub const KIND: &str = "in_process";

/// An async function as a tool: [`Function::new`], ready for a catalog.
///
/// ```
/// use longhaul_core::{Outcome, text_result};
/// use longhaul_runtime::{ExecutionEnd, Executor};
/// use longhaul_command::in_process::function;
/// let greet = function(|_arguments, _cx| async { ExecutionEnd::Finished(Outcome::result(text_result("Hello!", false))) });
/// assert!(!greet.host_bound());
/// ```
pub fn function<F, W>(run: F) -> Arc<dyn Executor>
where
    F: Fn(Json, TaskContext) -> W + Send + Sync + 'static,
    W: Future<Output = ExecutionEnd> + Send + 'static,
{
    Arc::new(Function::new(run))
}

type Check = Box<dyn Fn(&Map<String, Value>) -> Result<(), String> + Send + Sync>;

/// An async function as an executor.
///
/// The function is given the arguments as they came and the attempt's context. It should return [`ExecutionEnd::Stopped`] soon after
/// [`TaskContext::stopped`]; [`STOP_GRACE`] later its future is dropped. A panic ends the attempt as an error, like [`ExecutionEnd::Errored`].
pub struct Function<F> {
    run: F,
    durable: bool,
    check: Option<Check>,
}

impl<F, W> Function<F>
where
    F: Fn(Json, TaskContext) -> W + Send + Sync + 'static,
    W: Future<Output = ExecutionEnd> + Send + 'static,
{
    /// A function without a journal that takes all arguments that fit its tool's schema.
    pub fn new(run: F) -> Self {
        Self {
            run,
            durable: false,
            check: None,
        }
    }

    /// Whether the function keeps a journal, and so [replays](Executor::replays).
    #[must_use]
    pub fn durable(self, durable: bool) -> Self {
        Self { durable, ..self }
    }

    /// Checks arguments that fit the schema before a task is created; the error tells the caller what to change.
    #[must_use]
    pub fn check(self, check: impl Fn(&Map<String, Value>) -> Result<(), String> + Send + Sync + 'static) -> Self {
        Self {
            check: Some(Box::new(check)),
            ..self
        }
    }
}

impl<F, W> Executor for Function<F>
where
    F: Fn(Json, TaskContext) -> W + Send + Sync + 'static,
    W: Future<Output = ExecutionEnd> + Send + 'static,
{
    fn check(&self, _: &str, members: &Map<String, Value>) -> Result<(), String> {
        self.check.as_ref().map_or(Ok(()), |check| check(members))
    }

    fn replays(&self) -> bool {
        self.durable
    }

    fn run(self: Arc<Self>, attempt: ExecutorAttempt, cx: TaskContext) -> BoxFuture<'static, ExecutionEnd> {
        Box::pin(async move {
            // Inside of the future, where a panic is caught.
            let work = (self.run)(attempt.arguments, cx.clone());
            let grace_is_over = async {
                let reason = cx.stopped().await;
                cx.ports().clock.sleep(STOP_GRACE).await;
                reason
            };
            tokio::select! {
                // Work that has finished counts, however late.
                biased;
                end = work => end,
                reason = grace_is_over => ExecutionEnd::Stopped(reason),
            }
        })
    }
}
