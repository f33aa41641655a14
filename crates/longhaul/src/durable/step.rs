//! Work with an effect, done and then never again.

use super::{StepError, StepFault, Tried, step_error::Kind};
use crate::{TaskContext, tool::millis};
use longhaul_core::{BoxFuture, Json};
use longhaul_runtime::{Backoff, StepPolicy};
use serde::{Serialize, de::DeserializeOwned};
use std::{future::IntoFuture, sync::Arc, time::Duration};

impl TaskContext {
    /// Runs `work` once and keeps what it returned: the function, run again after a crash or a long wait, is given that instead. What
    /// happens between the effect and its entry in the journal is nobody's to know: a process that dies there runs the step again. So
    /// what must not happen twice goes under an [`idempotency_key`](Step::idempotency_key) that the other side knows.
    ///
    /// An error of `work` is tried again if [`retry`](Step::retry) allows it; [`Final`](super::Final) says that no other try would do
    /// better. All tries are kept, and so is the failure: the function is given the same [`StepError`] each time.
    ///
    /// `name` is for people and for telling steps apart: in a loop the same name may come again and again. What `work` returns is written
    /// as JSON of at most 1 MiB. Inside of it the context's other journaled operations are not to be used: they would not be asked for
    /// once the step is known.
    ///
    /// ```
    /// use longhaul::{Final, StepFault, TaskContext, ToolResult, time::seconds};
    /// async fn publish(to: &str) -> Result<u64, StepFault> {
    ///     if to.is_empty() {
    ///         return Err(Final("there is no name to publish under").into());
    ///     }
    ///     Ok(upload(to).await?) // any error: worth another try
    /// }
    /// # async fn upload(_: &str) -> Result<u64, std::io::Error> { Ok(1) }
    /// async fn release(cx: TaskContext) -> ToolResult<String> {
    ///     let to = String::from("here");
    ///     let size = cx.step("publish", || publish(&to)).retry(5).timeout(seconds(30)).await?;
    ///     Ok(format!("{size} bytes"))
    /// }
    /// # longhaul::Tool::durable("release", release);
    /// ```
    pub fn step<'a, F, W>(&'a self, name: impl Into<Arc<str>>, work: F) -> Step<'a, F>
    where
        F: FnMut() -> W + Send + 'a,
        W: Future<Output: Tried<Value: Serialize + DeserializeOwned, Fault: Into<StepFault>>> + Send + 'a,
    {
        Step {
            cx: self,
            name: name.into(),
            policy: StepPolicy::default(),
            work,
        }
    }
}

/// A step, not taken yet; made by [`TaskContext::step`]. Awaiting it takes it.
#[must_use = "no step is taken until it is awaited"]
pub struct Step<'a, F> {
    cx: &'a TaskContext,
    name: Arc<str>,
    policy: StepPolicy,
    work: F,
}

impl<F> Step<'_, F> {
    /// How often it is tried in all, the first try included; by default once.
    pub fn retry(mut self, attempts: u32) -> Self {
        self.policy.attempts = attempts.max(1);
        self
    }

    /// How long to wait before the second try, and at most: it doubles with each, spread by up to a half either way. By default from a
    /// second to a minute. A wait survives the process, and if it is long, the function is let go meanwhile.
    pub fn backoff(mut self, first: Duration, longest: Duration) -> Self {
        self.policy.backoff = Backoff {
            first: millis(first),
            longest: millis(longest),
        };
        self
    }

    /// How long one try may take: then it is dropped, and has failed in a way that is worth another try. By default as long as it takes.
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.policy.timeout = Some(limit);
        self
    }

    /// Keeps with the step by what key the other side knows its effect, for whoever looks into the journal. The work itself must send it:
    /// see [`TaskContext::key`].
    pub fn idempotency_key(mut self, key: impl Into<Arc<str>>) -> Self {
        self.policy.key = Some(key.into());
        self
    }
}

impl<'a, F, W> IntoFuture for Step<'a, F>
where
    F: FnMut() -> W + Send + 'a,
    W: Future<Output: Tried<Value: Serialize + DeserializeOwned, Fault: Into<StepFault>>> + Send + 'a,
{
    type Output = Result<<W::Output as Tried>::Value, StepError>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        let Self {
            cx,
            name,
            policy,
            mut work,
        } = self;
        Box::pin(async move {
            let tried = || {
                let tried = work();
                async move { kept(tried.await.tried()).map_err(Into::into) }
            };
            let done = cx.journal().step(&name, &policy, tried).await;
            StepError::read(Kind::Step, &name, done)
        })
    }
}

/// What a try came to, as it is kept. A value that cannot be written will not be written the next time either.
fn kept<T: Serialize, E: Into<StepFault>>(tried: Result<T, E>) -> Result<Json, StepFault> {
    let value = tried.map_err(Into::into)?;
    match serde_json::to_string(&value) {
        Ok(text) => Ok(Json::trusted(text)),
        Err(error) => Err(StepFault::fatal(format!(
            "its result cannot be written as JSON: {error}"
        ))),
    }
}
