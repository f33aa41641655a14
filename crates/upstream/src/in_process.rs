//! Tools that are functions in this process.
//!
//! Their work lives and dies with the process: what ran when it died ends as interrupted, or runs again if the tool's retry
//! policy says so.

use longhaul_core::{BoxFuture, Json, StopReason};
use longhaul_runtime::{Attempt, End, Executor, TaskContext};
use std::{sync::Arc, time::Duration};

/// The kind of executor, as kept with each tool's definition. No provider revives it: a closure cannot be stored.
pub const KIND: &str = "in_process";

/// How long a function may take to follow a request to stop before it is dropped.
const GRACE: Duration = Duration::from_secs(10);

/// An async function as a tool.
///
/// The function is given the arguments as they came and the attempt's context. It should return [`End::Stopped`] soon after
/// [`TaskContext::stopped`]; 10 s later its future is dropped. A panic ends the attempt as an error, like [`End::Errored`].
///
/// ```
/// use longhaul_core::{Outcome, text_result};
/// use longhaul_runtime::{End, Executor};
/// use longhaul_upstream::in_process::function;
/// let greet = function(|_arguments, _cx| async { End::Finished(Outcome::result(text_result("Hello!", false))) });
/// assert!(!greet.host_bound());
/// ```
pub fn function<F, W>(function: F) -> Arc<dyn Executor>
where
    F: Fn(Json, TaskContext) -> W + Send + Sync + 'static,
    W: Future<Output = End> + Send + 'static,
{
    Arc::new(Function(function))
}

struct Function<F>(F);

impl<F, W> Executor for Function<F>
where
    F: Fn(Json, TaskContext) -> W + Send + Sync + 'static,
    W: Future<Output = End> + Send + 'static,
{
    fn run(self: Arc<Self>, attempt: Attempt, cx: TaskContext) -> BoxFuture<'static, End> {
        Box::pin(async move {
            let work = (self.0)(attempt.arguments, cx.clone());
            tokio::select! {
                // Work that is done is done, however late.
                biased;
                end = work => end,
                reason = outlasted(&cx) => End::Stopped(reason),
            }
        })
    }
}

/// Completes when a request to stop is older than the grace, 10 s: the work is then to be dropped.
pub async fn outlasted(cx: &TaskContext) -> StopReason {
    let reason = cx.stopped().await;
    cx.ports().clock.sleep(GRACE).await;
    reason
}
