//! A call that goes on by itself.

use crate::{
    CallError, CallResponse, CallStatus, InputResponse, Outcome, PendingCall, TaskHandle,
    call::driver::{CancelReport, Channels, DriverAnswer, UnrecordedOutcome, drive, follow, without_answered},
    journal::call_record::CallRecord,
};
use futures_util::{Stream, stream};
use std::sync::Arc;
use tokio::{sync::watch, task::JoinHandle};

/// A call that was started with [`Client::start`](crate::Client::start), or a task of an earlier process that is [followed](TaskHandle::follow). It is driven to its end
/// beside everything else.
///
/// Dropping it stops that. A task keeps running, and with a journal [`Client::tasks`](crate::Client::tasks) finds it again. A call that the server has not
/// answered is cancelled; it goes on at the server if it has an idempotency key, or asked a legacy server for a task.
///
/// ```no_run
/// # async fn example(client: longhaul_client::Client) -> Result<(), longhaul_client::CallError> {
/// use futures_util::StreamExt;
/// use serde_json::json;
///
/// let call = client.start("build", json!({"target": "release"})).await?;
/// let mut status = std::pin::pin!(call.status());
/// while let Some(status) = status.next().await {
///     println!("{status:?}");
/// }
/// println!("{:?}", call.result().await?.verdict());
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct RunningCall {
    status: watch::Receiver<CallStatus>,
    answer: watch::Receiver<Option<DriverAnswer>>,
    cancelled: watch::Sender<bool>,
    cancel_report: watch::Receiver<Option<CancelReport>>,
    driver: Driver,
}

/// Drives the call, until it is dropped.
#[derive(Debug)]
struct Driver {
    driving: JoinHandle<Result<UnrecordedOutcome, CallError>>,
    record: Option<CallRecord>,
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.driving.abort();
        // The task above ends later than this. The same call may be made at once, and then it is this one.
        if let Some(record) = &self.record {
            record.abandon();
        }
    }
}

impl RunningCall {
    pub(crate) fn start(call: PendingCall) -> Self {
        let record = call.call_record().cloned();
        Self::driven(CallStatus::Sent(None), None, record, |channels| drive(call, channels))
    }

    #[expect(clippy::disallowed_methods, reason = "the client is not simulated")]
    fn driven<D>(
        status: CallStatus,
        answer: Option<DriverAnswer>,
        record: Option<CallRecord>,
        drive: impl FnOnce(Channels) -> D,
    ) -> Self
    where
        D: Future<Output = Result<UnrecordedOutcome, CallError>> + Send + 'static,
    {
        let (status_sender, status) = watch::channel(status);
        let (answer_sender, answer) = watch::channel(answer);
        let (cancelled, is_cancelled) = watch::channel(false);
        let (report_sender, cancel_report) = watch::channel(None);
        let driving = drive(Channels {
            status: status_sender,
            answer: answer_sender,
            is_cancelled,
            cancel_report: report_sender,
        });
        Self {
            status,
            answer,
            cancelled,
            cancel_report,
            driver: Driver {
                driving: tokio::spawn(driving),
                record,
            },
        }
    }

    /// How it stands now.
    pub fn current_status(&self) -> CallStatus {
        shown(&self.status.borrow(), &self.answer)
    }

    /// How it stands, and then each change. A slow reader misses what was changed again meanwhile. The stream ends with the call.
    pub fn status(&self) -> impl Stream<Item = CallStatus> + Send + use<> {
        let (mut receiver, answer) = (self.status.clone(), self.answer.clone());
        receiver.mark_changed();
        stream::unfold((receiver, answer), |(mut receiver, answer)| async move {
            receiver.changed().await.ok()?;
            let status = shown(&receiver.borrow_and_update(), &answer);
            Some((status, (receiver, answer)))
        })
    }

    /// Waits until the server has answered, and returns the task if it has made one.
    pub async fn task(&self) -> Option<TaskHandle> {
        let mut answer = self.answer.clone();
        // Without a sender the call has ended.
        let answer = answer.wait_for(Option::is_some).await.ok()?.clone();
        match answer {
            Some(DriverAnswer::Task(task)) => Some(task),
            _ => None,
        }
    }

    /// Waits for the outcome. With a journal the call is recorded as finished then.
    ///
    /// # Errors
    /// [`CallError`]; after [`cancel`](Self::cancel) [`CallError::Cancelled`] if nothing of the call runs any more, and [`CallError::OutcomeUnknown`] if the server has not
    /// answered. The task of a call that was cancelled is [`Outcome::Cancelled`], if the tool has not ended first.
    pub async fn result(mut self) -> Result<Outcome, CallError> {
        let driven = match (&mut self.driver.driving).await {
            Ok(driven) => driven?,
            Err(ended) if ended.is_panic() => std::panic::resume_unwind(ended.into_panic()),
            Err(_) => return Err(CallError::Cancelled),
        };
        let (outcome, recorded) = driven.finish().await;
        if let Err(error) = recorded {
            tracing::warn!(%error, "a finished call is not recorded as such");
        }
        Ok(outcome)
    }

    /// Cancels the call, and returns when the server was asked to cancel its task. The task may still end with any outcome, which [`result`](Self::result) tells. To cancel again, or
    /// a call that has ended, changes nothing and is no error.
    ///
    /// If the server has not answered, it has two seconds to name the task, which is cancelled then: also when the server is away for a while. Without a word of it the request is
    /// cancelled as MCP says, and the outcome of the call is unknown: with an idempotency key it goes on at the server.
    ///
    /// # Errors
    /// [`CallError::OutcomeUnknown`] if the server has not answered, [`CallError::Request`] if it has not taken the cancellation of the task.
    pub async fn cancel(&self) -> Result<(), CallError> {
        let answer = self.answer.borrow().clone();
        match answer {
            Some(DriverAnswer::Outcome) => return Ok(()),
            Some(DriverAnswer::Task(_)) if self.driver.driving.is_finished() => return Ok(()),
            Some(DriverAnswer::Task(task)) => return Ok(task.cancel().await.map(drop)?),
            None => drop(self.cancelled.send_replace(true)),
        }
        let mut report = self.cancel_report.clone();
        let report = match report.wait_for(Option::is_some).await {
            Ok(report) => report.clone(),
            // It has ended before.
            Err(_) => return Ok(()),
        };
        match report {
            Some(CancelReport::Unknown(idempotency_key)) => Err(CallError::OutcomeUnknown { idempotency_key }),
            Some(CancelReport::Failed(error)) => error.lock().take().map_or(Ok(()), |error| Err(error.into())),
            Some(CancelReport::Done) | None => Ok(()),
        }
    }

    /// Answers a question of the task, as [`TaskHandle::answer`] does. With [`Inputs::deferred`](crate::Inputs::deferred) this is the only answer.
    ///
    /// # Errors
    /// As [`TaskHandle::answer`]; [`CallError::AsksNothing`] if there is no task.
    pub async fn answer(&self, key: &str, answer: InputResponse) -> Result<(), CallError> {
        let answered = self.answer.borrow().clone();
        match answered {
            Some(DriverAnswer::Task(task)) => Ok(task.answer(key, answer).await?),
            _ => Err(CallError::AsksNothing),
        }
    }

    /// Waits until the server has answered, and then leaves the task alone. A result that came at once is returned, and recorded as finished.
    ///
    /// # Errors
    /// As [`result`](Self::result).
    pub async fn detach(self) -> Result<CallResponse, CallError> {
        match self.task().await {
            Some(task) => Ok(CallResponse::Task(task)),
            None => self.result().await.map(CallResponse::Done),
        }
    }
}

impl TaskHandle {
    /// Waits for the task beside everything else: what is returned can do what a call can that was [started](crate::Client::start) just now. Its first status is what the journal knows.
    ///
    /// ```no_run
    /// # async fn example(client: longhaul_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use futures_util::StreamExt;
    ///
    /// for task in client.tasks().await? {
    ///     let call = task.follow();
    ///     let mut status = std::pin::pin!(call.status());
    ///     while let Some(status) = status.next().await {
    ///         println!("{}: {status:?}", task.id());
    ///     }
    ///     println!("{}", call.result().await?.text());
    /// }
    /// # Ok(()) }
    /// ```
    pub fn follow(&self) -> RunningCall {
        let status = CallStatus::Task(Arc::new(self.known_status()));
        let answer = Some(DriverAnswer::Task(self.clone()));
        let task = self.clone();
        RunningCall::driven(status, answer, None, |channels| follow(task, channels))
    }
}

/// The status as it is shown: without questions that are answered.
fn shown(status: &CallStatus, answer: &watch::Receiver<Option<DriverAnswer>>) -> CallStatus {
    match (status, &*answer.borrow()) {
        (CallStatus::Task(snapshot), Some(DriverAnswer::Task(task))) if !snapshot.input_requests.is_empty() => {
            CallStatus::Task(Arc::new(without_answered(snapshot, task)))
        }
        _ => status.clone(),
    }
}
