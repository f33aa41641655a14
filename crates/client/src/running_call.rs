//! A call that goes on by itself.

use crate::{
    CallError, CallResponse, Connection, Event, InputResponse, JournalError, Outcome, PendingCall, Progress,
    RequestError, TaskHandle, TaskSnapshot, call_record::CallRecord, polling,
};
use futures_util::{Stream, stream};
use longhaul_core::Millis;
use std::{convert::Infallible, sync::Arc};
use tokio::{sync::watch, task::JoinHandle};

/// How a call stands.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum CallStatus {
    /// It was sent, and the server has not answered. With the progress that the tool has reported so far.
    Sent(Option<Progress>),
    /// The server has made it a task. What it asks, in either era, is in [`TaskSnapshot::input_requests`].
    Task(Arc<TaskSnapshot>),
    /// A request failed and will be sent again.
    Retrying {
        /// Why, for people.
        reason: String,
        /// Milliseconds until then.
        retry_in: Millis,
    },
}

/// A call that was started with [`Client::start`](crate::Client::start), and is driven to its end beside everything else.
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
    answer: watch::Receiver<Option<Answer>>,
    cancelled: watch::Sender<bool>,
    driver: Driver,
}

/// What the server has answered.
#[derive(Debug, Clone)]
enum Answer {
    Task(TaskHandle),
    /// A result or an error.
    Outcome,
}

/// Drives the call, until it is dropped.
#[derive(Debug)]
struct Driver {
    driving: JoinHandle<Result<Driven, CallError>>,
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

/// A call with its outcome, which is not recorded yet.
#[derive(Debug)]
enum Driven {
    Call(Box<PendingCall>, Outcome),
    Task(TaskHandle, Outcome),
}

impl Driven {
    async fn finish(self) -> (Outcome, Result<(), JournalError>) {
        match self {
            Self::Call(call, outcome) => {
                let recorded = call.finish(&outcome).await;
                (outcome, recorded)
            }
            Self::Task(task, outcome) => {
                let recorded = task.finish(&outcome).await;
                (outcome, recorded)
            }
        }
    }
}

impl RunningCall {
    #[expect(clippy::disallowed_methods, reason = "the client is not simulated")]
    pub(crate) fn start(call: PendingCall) -> Self {
        let (status_sender, status) = watch::channel(CallStatus::Sent(None));
        let (answer_sender, answer) = watch::channel(None);
        let (cancelled, is_cancelled) = watch::channel(false);
        let record = call.call_record().cloned();
        let driving = drive(call, status_sender, answer_sender, is_cancelled);
        Self {
            status,
            answer,
            cancelled,
            driver: Driver {
                driving: tokio::spawn(driving),
                record,
            },
        }
    }

    /// How it stands now.
    pub fn current_status(&self) -> CallStatus {
        self.status.borrow().clone()
    }

    /// How it stands, and then each change. A slow reader misses what was changed again meanwhile. The stream ends with the call.
    pub fn status(&self) -> impl Stream<Item = CallStatus> + Send + use<> {
        let mut receiver = self.status.clone();
        receiver.mark_changed();
        stream::unfold(receiver, |mut receiver| async move {
            receiver.changed().await.ok()?;
            let status = receiver.borrow_and_update().clone();
            Some((status, receiver))
        })
    }

    /// Waits until the server has answered, and returns the task if it has made one.
    pub async fn task(&self) -> Option<TaskHandle> {
        let mut answer = self.answer.clone();
        // Without a sender the call has ended.
        let answer = answer.wait_for(Option::is_some).await.ok()?.clone();
        match answer {
            Some(Answer::Task(task)) => Some(task),
            _ => None,
        }
    }

    /// Waits for the outcome. With a journal the call is recorded as finished then.
    ///
    /// # Errors
    /// [`CallError`]; [`CallError::Cancelled`] after [`cancel`](Self::cancel) if the server had not answered.
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

    /// Asks the server to cancel the task, which may still end with any outcome. If the server has not answered, the call is given up; with an
    /// idempotency key it may go on at the server. A legacy server that was asked for a task has two seconds to name it, and the task is cancelled then.
    ///
    /// # Errors
    /// [`CallError::Request`]; a legacy server refuses a task that has ended.
    pub async fn cancel(&self) -> Result<(), CallError> {
        let answer = self.answer.borrow().clone();
        match answer {
            Some(Answer::Task(task)) => task.cancel().await.map(drop)?,
            Some(Answer::Outcome) => {}
            None => drop(self.cancelled.send_replace(true)),
        }
        Ok(())
    }

    /// Answers a question of the task, as [`TaskHandle::answer`] does. With [`Inputs::deferred`](crate::Inputs::deferred) this is the only answer.
    ///
    /// # Errors
    /// As [`TaskHandle::answer`]; [`CallError::AsksNothing`] if there is no task.
    pub async fn answer(&self, key: &str, answer: InputResponse) -> Result<(), CallError> {
        let answered = self.answer.borrow().clone();
        match answered {
            Some(Answer::Task(task)) => Ok(task.answer(key, answer).await?),
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

async fn drive(
    mut call: PendingCall,
    status: watch::Sender<CallStatus>,
    answer: watch::Sender<Option<Answer>>,
    mut cancelled: watch::Receiver<bool>,
) -> Result<Driven, CallError> {
    let connection = call.connection().clone();
    let mut observe = |event: Event<'_>| {
        let now = match event {
            Event::Progress(progress) => CallStatus::Sent(Some(progress)),
            Event::Status(task) => CallStatus::Task(Arc::new(with_questions(task, &connection))),
            Event::Retrying { error, retry_in, .. } => CallStatus::Retrying {
                reason: error.to_string(),
                retry_in,
            },
            Event::NotRecorded { error } => {
                tracing::warn!(%error, "the task of a call is not recorded");
                return;
            }
            Event::AnswerRefused { error } => {
                tracing::warn!(%error, "the server refused an answer");
                return;
            }
            Event::StreamLost { reason } => {
                tracing::debug!(reason, "a stream of the server was lost");
                return;
            }
            // The status of the task says it.
            Event::TaskProgress(_) | Event::Recovered | Event::StreamReopened => return,
        };
        status.send_replace(now);
    };
    let response = call.send_unless(until_cancelled(&mut cancelled), &mut observe).await;
    let task = match response {
        Some(Ok(CallResponse::Task(task))) => task,
        Some(Ok(CallResponse::Done(outcome))) => {
            answer.send_replace(Some(Answer::Outcome));
            return Ok(Driven::Call(Box::new(call), outcome));
        }
        Some(Err(error)) => return Err(error.into()),
        None => {
            call.give_up("it was cancelled before the server had answered").await;
            return Err(CallError::Cancelled);
        }
    };
    answer.send_replace(Some(Answer::Task(task.clone())));
    let waited = {
        let waiting = async {
            tokio::select! {
                waited = task.wait(&mut observe) => waited,
                never = show_questions(&task, &status) => match never {},
            }
        };
        let mut waiting = std::pin::pin!(waiting);
        // A cancellation that came before the task could be seen.
        let cancelling = async {
            until_cancelled(&mut cancelled).await;
            cancel_surely(&task).await;
        };
        tokio::select! {
            biased;
            // A task that has ended has an outcome all the same.
            () = cancelling => waiting.await,
            waited = &mut waiting => waited,
        }
    };
    match waited {
        Ok(outcome) => Ok(Driven::Task(task, outcome)),
        Err(error) => {
            if let RequestError::InvalidOutput { result, .. } = &error {
                // The result is in the error, so nothing more can be done.
                let recorded = task.finish(&Outcome::result(result.clone())).await;
                recorded.unwrap_or_else(|error| tracing::warn!(%error, "the end of a call is not recorded"));
            }
            Err(CallError::Task {
                task: task.id().to_owned(),
                error,
            })
        }
    }
}

/// The task with what it asks this process: a legacy server does not say that in the task.
fn with_questions(task: &TaskSnapshot, connection: &Connection) -> TaskSnapshot {
    let mut task = task.clone();
    if task.input_requests.is_empty() {
        task.input_requests = connection.listening().open_questions(&task.id);
    }
    task
}

/// Adds what a legacy server asks to the status as soon as it comes, and takes it away when it is answered.
async fn show_questions(task: &TaskHandle, status: &watch::Sender<CallStatus>) -> Infallible {
    let connection = task.connection();
    let mut asked = connection.listening().asked();
    while asked.changed().await.is_ok() {
        if connection.known_era().await.is_none_or(|era| era.legacy().is_none()) {
            continue;
        }
        status.send_if_modified(|now| {
            let CallStatus::Task(shown) = now else { return false };
            let open = connection.listening().open_questions(&shown.id);
            let is_new = shown.input_requests != open;
            Arc::make_mut(shown).input_requests = open;
            is_new
        });
    }
    std::future::pending().await
}

/// Completes when the call is cancelled, and never if it cannot be any more.
async fn until_cancelled(cancelled: &mut watch::Receiver<bool>) {
    if cancelled.wait_for(|cancelled| *cancelled).await.is_err() {
        std::future::pending().await
    }
}

/// Cancels the task: again and again while the server cannot be reached. If it refuses that, the task has ended, or the wait for it tells why not.
async fn cancel_surely(task: &TaskHandle) {
    let connection = task.connection();
    for failures in 1.. {
        match task.cancel().await {
            Err(error) if error.is_transient() => {
                let retry_in = polling::next_retry(failures, error.retry_after(), connection.jitter());
                connection.sleep(retry_in).await;
            }
            Err(error) => return tracing::debug!(%error, "a task was not cancelled"),
            Ok(_) => return,
        }
    }
}
