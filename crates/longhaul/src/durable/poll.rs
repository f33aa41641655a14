//! Polling something outside until it is ready.

use super::{StepError, step::ResultReader, step_error::Operation, step_result::StepResult};
use crate::{TaskContext, time::whole_millis};
use longhaul_core::{BoxFuture, Json};
use longhaul_runtime::{PollPolicy, Polled, StepFailure};
use serde::{Serialize, de::DeserializeOwned};
use std::{future::IntoFuture, sync::Arc, time::Duration};

/// What one poll found; see [`TaskContext::poll_until`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Poll<T> {
    /// It is ready.
    Ready(T),
    /// Not yet.
    Pending,
    /// Not yet; the other side says how long to wait before the next poll.
    After(Duration),
}

impl<T> Poll<T> {
    /// Not yet: poll again after this time, as the other side says.
    pub fn after(time: Duration) -> Self {
        Self::After(time)
    }
}

impl TaskContext {
    /// Calls `poll` again and again until it returns [`Poll::Ready`], and records that value. A restart continues the polling. The whole is
    /// one entry of the journal, however long it takes.
    ///
    /// `poll` must change nothing. To start a job and wait for it, use a [`step`](Self::step) that starts it and returns its id, then poll.
    ///
    /// ```
    /// use longhaul::{Poll, StepError, TaskContext, ToolResult, time::{minutes, seconds}};
    /// async fn job(id: u64) -> Result<Poll<String>, StepError> {
    ///     let text = std::fs::read_to_string(format!("jobs/{id}"))?; // an error: poll again
    ///     Ok(if text.is_empty() { Poll::Pending } else { Poll::Ready(text) })
    /// }
    /// # async fn f(cx: TaskContext) -> ToolResult<String> {
    /// let report = cx
    ///     .poll_until("report", || job(7))
    ///     .interval(seconds(1), minutes(5))
    ///     .max_consecutive_failures(20)
    ///     .await?;
    /// # Ok(report) }
    /// ```
    pub fn poll_until<'a, F, W, T, E>(&'a self, name: impl Into<Arc<str>>, mut poll: F) -> PollUntil<'a, T>
    where
        F: FnMut() -> W + Send + 'a,
        W: Future<Output: StepResult<Value = Poll<T>, Error = E>> + Send + 'a,
        T: Serialize + DeserializeOwned,
        E: Into<StepError>,
    {
        PollUntil {
            cx: self,
            name: name.into(),
            policy: PollPolicy::default(),
            poll: Box::new(move || {
                let polled = poll();
                Box::pin(async move { to_runtime(polled.await.into_result()).map_err(Into::into) })
            }),
            read: StepError::read,
        }
    }
}

/// Polling that has not started; made by [`TaskContext::poll_until`]. Awaiting it polls and returns what was found, a `T`.
#[must_use = "nothing is polled until it is awaited"]
pub struct PollUntil<'a, T> {
    cx: &'a TaskContext,
    name: Arc<str>,
    policy: PollPolicy,
    poll: Box<dyn FnMut() -> BoxFuture<'a, Result<Polled, StepFailure>> + Send + 'a>,
    read: ResultReader<T>,
}

impl<T> PollUntil<'_, T> {
    /// How long to wait between the first polls, and how long at most. In between the wait is a tenth of the time that has passed. By default
    /// it is from a second to a minute.
    pub fn interval(mut self, first: Duration, longest: Duration) -> Self {
        self.policy.first = whole_millis(first);
        self.policy.longest = whole_millis(longest);
        self
    }

    /// How many polls may fail in a row, by default 9; the next failure ends the polling with an error. A
    /// [`NonRetryable`](crate::NonRetryable) error ends it at once.
    pub fn max_consecutive_failures(mut self, failures: u32) -> Self {
        self.policy.failures = failures.saturating_add(1);
        self
    }
}

impl<'a, T: 'a> IntoFuture for PollUntil<'a, T> {
    type Output = Result<T, StepError>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        let Self {
            cx,
            name,
            policy,
            poll,
            read,
        } = self;
        Box::pin(async move {
            let found = cx.journal().poll_until(&name, policy, poll).await;
            read(Operation::Poll, &name, found)
        })
    }
}

fn to_runtime<T: Serialize, E: Into<StepError>>(polled: Result<Poll<T>, E>) -> Result<Polled, StepError> {
    match polled.map_err(Into::into)? {
        Poll::Pending => Ok(Polled::Pending(None)),
        Poll::After(time) => Ok(Polled::Pending(Some(time))),
        Poll::Ready(value) => match serde_json::to_string(&value) {
            Ok(text) => Ok(Polled::Ready(Json::trusted(text))),
            Err(error) => Err(StepError::non_retryable(format!(
                "what was found cannot be written as JSON: {error}"
            ))),
        },
    }
}
