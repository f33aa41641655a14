//! Steps: work with an effect, whose result is recorded.

use super::{StepError, step_error::Operation, step_result::StepResult};
use crate::{TaskContext, time::whole_millis};
use longhaul_core::{BoxFuture, Json};
use longhaul_runtime::{Backoff, StepError as RuntimeStepError, StepFailure, StepPolicy};
use serde::{Serialize, de::DeserializeOwned};
use std::{future::IntoFuture, sync::Arc, time::Duration};

impl TaskContext {
    /// Runs `work` and records what it returns; when the function is replayed, the recorded value is returned and `work` does not run.
    ///
    /// `work` is an async function without arguments that returns a `Result`. The value must be readable from the JSON it is written as, of
    /// at most 896 KiB. The error is a [`StepError`], or anything that becomes one by `?`.
    ///
    /// **Steps run at least once.** If the process dies after the effect of `work` and before its result is recorded, `work` runs again.
    /// Give the other side an [idempotency key](Self::idempotency_key) if the effect must not happen twice.
    ///
    /// By default a step is attempted once; [`max_attempts`](Step::max_attempts) retries errors that are not
    /// [`NonRetryable`](crate::NonRetryable). A step that fails for good is recorded as well: awaiting it returns the same [`StepError`] in
    /// every replay.
    ///
    /// The name is for people, and tells steps apart; in a loop the same name may be used again. `work` must not use the context's other
    /// journaled operations: they are refused inside a step.
    ///
    /// ```
    /// use longhaul::{NonRetryable, StepError, TaskContext, ToolResult, time::seconds};
    /// async fn publish(to: &str) -> Result<u64, StepError> {
    ///     if to.is_empty() {
    ///         return Err(NonRetryable("there is no name to publish under").into());
    ///     }
    ///     Ok(upload(to).await?) // any other error: worth another attempt
    /// }
    /// # async fn upload(_: &str) -> Result<u64, std::io::Error> { Ok(1) }
    /// async fn release(cx: TaskContext) -> ToolResult<String> {
    ///     let to = String::from("here");
    ///     let size = cx.step("publish", || publish(&to)).max_attempts(5).timeout(seconds(30)).await?;
    ///     Ok(format!("{size} bytes"))
    /// }
    /// # longhaul::Tool::durable("release", release);
    /// ```
    pub fn step<'a, F, W, T, E>(&'a self, name: impl Into<Arc<str>>, mut work: F) -> Step<'a, T>
    where
        F: FnMut() -> W + Send + 'a,
        W: Future<Output: StepResult<Value = T, Error = E>> + Send + 'a,
        T: Serialize + DeserializeOwned,
        E: Into<StepError>,
    {
        Step {
            cx: self,
            name: name.into(),
            policy: StepPolicy::default(),
            attempt: Box::new(move || {
                let attempt = work();
                Box::pin(async move { to_json(attempt.await.into_result()).map_err(Into::into) })
            }),
            read: StepError::read,
        }
    }
}

/// A step that has not run yet; made by [`TaskContext::step`]. Awaiting it runs it and returns what its work returns, a `T`.
#[must_use = "a step does not run until it is awaited"]
pub struct Step<'a, T> {
    cx: &'a TaskContext,
    name: Arc<str>,
    policy: StepPolicy,
    attempt: Box<dyn FnMut() -> BoxFuture<'a, Result<Json, StepFailure>> + Send + 'a>,
    read: ResultReader<T>,
}

/// Reads a recorded result.
pub(super) type ResultReader<T> = fn(Operation, &Arc<str>, Result<Json, RuntimeStepError>) -> Result<T, StepError>;

impl<T> Step<'_, T> {
    /// How often the step is attempted in all, the first attempt included; by default once.
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.policy.attempts = attempts.max(1);
        self
    }

    /// How long to wait before the second attempt, and how long at most. The wait doubles with each attempt and varies by up to a half. By
    /// default it is from a second to a minute. The waits survive a restart; during a long one the task is suspended.
    pub fn backoff(mut self, first: Duration, longest: Duration) -> Self {
        self.policy.backoff = Backoff {
            first: whole_millis(first),
            longest: whole_millis(longest),
        };
        self
    }

    /// How long one attempt may take; by default there is no limit. Then its future is dropped, and the attempt has failed with a retryable
    /// error.
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.policy.timeout = Some(limit);
        self
    }

    /// Records the key by which the other side knows the effect, for people who read the journal. The work itself must send it: see
    /// [`TaskContext::idempotency_key`].
    pub fn idempotency_key(mut self, key: impl Into<Arc<str>>) -> Self {
        self.policy.key = Some(key.into());
        self
    }
}

impl<'a, T: 'a> IntoFuture for Step<'a, T> {
    type Output = Result<T, StepError>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        let Self {
            cx,
            name,
            policy,
            attempt,
            read,
        } = self;
        Box::pin(async move {
            let recorded = cx.journal().step(&name, &policy, attempt).await;
            read(Operation::Step, &name, recorded)
        })
    }
}

/// A value that cannot be written as JSON will not be writable in the next attempt either.
fn to_json<T: Serialize, E: Into<StepError>>(result: Result<T, E>) -> Result<Json, StepError> {
    let value = result.map_err(Into::into)?;
    match serde_json::to_string(&value) {
        Ok(text) => Ok(Json::trusted(text)),
        Err(error) => Err(StepError::non_retryable(format!(
            "its result cannot be written as JSON: {error}"
        ))),
    }
}
