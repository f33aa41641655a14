//! Looking at something outside until it is ready.

use super::{StepError, StepFault, Tried, step_error::Kind};
use crate::{TaskContext, tool::millis};
use longhaul_core::{BoxFuture, Json};
use longhaul_runtime::{Pace, Polled};
use serde::{Serialize, de::DeserializeOwned};
use std::{future::IntoFuture, sync::Arc, time::Duration};

/// What a look found; see [`TaskContext::poll_until`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Poll<T> {
    /// It is ready.
    Ready(T),
    /// Not yet.
    Pending,
    /// Not yet; the other side says after how long to look again.
    After(Duration),
}

impl<T> Poll<T> {
    /// Not yet: look again after so long, as the other side says.
    pub fn after(time: Duration) -> Self {
        Self::After(time)
    }
}

impl TaskContext {
    /// Looks, at a pace, until what is looked for is ready, and keeps what was found: the function, run again, is given that. A restart
    /// goes on looking where it was. The whole is one entry of the journal, however long it takes.
    ///
    /// A look must change nothing. To start a job somewhere and wait for it, take a [`step`](Self::step) that starts it and returns its
    /// id, then poll.
    ///
    /// ```
    /// use longhaul::{Poll, StepFault, TaskContext, ToolResult, time::{minutes, seconds}};
    /// async fn job(id: u64) -> Result<Poll<String>, StepFault> {
    ///     let text = std::fs::read_to_string(format!("jobs/{id}"))?; // an error: look again
    ///     Ok(if text.is_empty() { Poll::Pending } else { Poll::Ready(text) })
    /// }
    /// # async fn f(cx: TaskContext) -> ToolResult<String> {
    /// let report = cx.poll_until("report", || job(7)).pace(seconds(1), minutes(5)).tolerate(20).await?;
    /// # Ok(report) }
    /// ```
    pub fn poll_until<'a, F, W, T>(&'a self, name: impl Into<Arc<str>>, look: F) -> PollUntil<'a, F>
    where
        F: FnMut() -> W + Send + 'a,
        W: Future<Output: Tried<Value = Poll<T>, Fault: Into<StepFault>>> + Send + 'a,
        T: Serialize + DeserializeOwned,
    {
        PollUntil {
            cx: self,
            name: name.into(),
            pace: Pace::default(),
            look,
        }
    }
}

/// Looks that are to be taken; made by [`TaskContext::poll_until`]. Awaiting it takes them.
#[must_use = "nobody looks until it is awaited"]
pub struct PollUntil<'a, F> {
    cx: &'a TaskContext,
    name: Arc<str>,
    pace: Pace,
    look: F,
}

impl<F> PollUntil<'_, F> {
    /// How long to wait between the first looks, and at most. In between it is a tenth of the time that has passed. By default from a
    /// second to a minute.
    pub fn pace(mut self, first: Duration, longest: Duration) -> Self {
        self.pace.first = millis(first);
        self.pace.longest = millis(longest);
        self
    }

    /// How many looks may fail one after the other before the failure counts; by default 10. A [`Final`](super::Final) one counts at once.
    pub fn tolerate(mut self, failures: u32) -> Self {
        self.pace.failures = failures.saturating_add(1);
        self
    }
}

impl<'a, F, W, T> IntoFuture for PollUntil<'a, F>
where
    F: FnMut() -> W + Send + 'a,
    W: Future<Output: Tried<Value = Poll<T>, Fault: Into<StepFault>>> + Send + 'a,
    T: Serialize + DeserializeOwned,
{
    type Output = Result<T, StepError>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        let Self {
            cx,
            name,
            pace,
            mut look,
        } = self;
        Box::pin(async move {
            let looked = || {
                let looked = look();
                async move { found(looked.await.tried()).map_err(Into::into) }
            };
            let ready = cx.journal().poll_until(&name, pace, looked).await;
            StepError::read(Kind::Poll, &name, ready)
        })
    }
}

fn found<T: Serialize, E: Into<StepFault>>(looked: Result<Poll<T>, E>) -> Result<Polled, StepFault> {
    match looked.map_err(Into::into)? {
        Poll::Pending => Ok(Polled::Pending(None)),
        Poll::After(time) => Ok(Polled::Pending(Some(time))),
        Poll::Ready(value) => match serde_json::to_string(&value) {
            Ok(text) => Ok(Polled::Ready(Json::trusted(text))),
            Err(error) => Err(StepFault::fatal(format!(
                "what was found cannot be written as JSON: {error}"
            ))),
        },
    }
}
