//! Driving a call to its end beside everything else.

use crate::{
    CallError, CallResponse, CallStatus, Connection, Event, JournalError, Outcome, PendingCall, Progress, RequestError,
    StopWaiting, TaskHandle, TaskSnapshot, TaskStatus, transport::polling,
};
use parking_lot::Mutex;
use std::{convert::Infallible, sync::Arc};
use tokio::sync::watch;

/// What the server has answered.
#[derive(Debug, Clone)]
pub(crate) enum DriverAnswer {
    Task(TaskHandle),
    /// A result or an error.
    Outcome,
}

/// A call with its outcome, which is not recorded yet.
#[derive(Debug)]
pub(crate) enum UnrecordedOutcome {
    Call(Box<PendingCall>, Outcome),
    Task(TaskHandle, Outcome),
}

impl UnrecordedOutcome {
    pub(crate) async fn finish(self) -> (Outcome, Result<(), JournalError>) {
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

/// What has become of a cancellation that came before the server's answer.
#[derive(Debug, Clone)]
pub(crate) enum CancelReport {
    /// The server has it, or nothing was to be cancelled.
    Done,
    /// The server has not answered: with the idempotency key of the call.
    Unknown(Option<String>),
    /// The server has refused it. Whoever waits first takes the error.
    Failed(Arc<Mutex<Option<RequestError>>>),
}

/// What a driver tells, and is told.
pub(crate) struct Channels {
    pub(crate) status: watch::Sender<CallStatus>,
    pub(crate) answer: watch::Sender<Option<DriverAnswer>>,
    /// Whether the call is to be cancelled.
    pub(crate) is_cancelled: watch::Receiver<bool>,
    pub(crate) cancel_report: watch::Sender<Option<CancelReport>>,
}

/// The latest status of a call, as its events tell it.
struct Reporter {
    status: watch::Sender<CallStatus>,
    connection: Connection,
    /// What it is again when a failure is over.
    standing: CallStatus,
    /// The latest progress of the task.
    progress: Option<Progress>,
}

impl Reporter {
    fn observe(&mut self, event: &Event<'_>) {
        self.standing = match event {
            Event::Progress(progress) => CallStatus::Sent(Some(progress.clone())),
            Event::Status(task) => {
                let task = TaskSnapshot {
                    progress: self.progress.clone(),
                    ..(*task).clone()
                };
                if is_same_but_for_polling(&self.standing, &task) {
                    return;
                }
                CallStatus::Task(Arc::new(task))
            }
            Event::TaskProgress(progress) => {
                self.progress = Some(progress.clone());
                let CallStatus::Task(task) = &mut self.standing else {
                    return;
                };
                Arc::make_mut(task).progress.clone_from(&self.progress);
                self.standing.clone()
            }
            Event::Recovered => self.standing.clone(),
            Event::Retrying { error, retry_in, .. } => {
                self.status.send_replace(CallStatus::Retrying {
                    reason: error.to_string(),
                    retry_in: *retry_in,
                });
                return;
            }
            Event::NotRecorded { error } => return tracing::warn!(%error, "the task of a call is not recorded"),
            Event::AnswerRefused { error } => return tracing::warn!(%error, "the server refused an answer"),
            Event::StreamLost { reason } => return tracing::debug!(reason, "a stream of the server was lost"),
            Event::StreamReopened => return,
        };
        self.status.send_replace(match &self.standing {
            CallStatus::Task(task) => CallStatus::Task(Arc::new(with_questions(task, &self.connection))),
            other => other.clone(),
        });
    }
}

/// Whether nothing of the task has changed but how often its server wants it to be polled.
fn is_same_but_for_polling(standing: &CallStatus, task: &TaskSnapshot) -> bool {
    let CallStatus::Task(standing) = standing else {
        return false;
    };
    let standing = TaskSnapshot {
        poll_interval: task.poll_interval,
        ..(**standing).clone()
    };
    standing == *task
}

/// Sends a call, and drives it.
pub(crate) async fn drive(mut call: PendingCall, mut channels: Channels) -> Result<UnrecordedOutcome, CallError> {
    if *channels.is_cancelled.borrow() {
        call.cancelled().await;
        channels.cancel_report.send_replace(Some(CancelReport::Done));
        return Err(CallError::Cancelled);
    }
    let mut reporter = Reporter {
        status: channels.status.clone(),
        connection: call.connection().clone(),
        standing: CallStatus::Sent(None),
        progress: None,
    };
    let cancelled = async {
        until_cancelled(&mut channels.is_cancelled).await;
        StopWaiting::Cancel
    };
    let response = call.send_unless(cancelled, &mut |event| reporter.observe(&event)).await;
    match response {
        Some(Ok(CallResponse::Task(task))) => {
            channels.answer.send_replace(Some(DriverAnswer::Task(task.clone())));
            wait(task, reporter, channels).await
        }
        Some(Ok(CallResponse::Done(outcome))) => {
            channels.answer.send_replace(Some(DriverAnswer::Outcome));
            Ok(UnrecordedOutcome::Call(Box::new(call), outcome))
        }
        Some(Err(error)) => Err(error.into()),
        None if call.was_asking() || call.is_cancelled() => {
            call.cancelled().await;
            channels.cancel_report.send_replace(Some(CancelReport::Done));
            Err(CallError::Cancelled)
        }
        None => {
            // Under its key nothing of it goes on that the server has cancelled.
            let goes_on = call.may_go_on();
            let idempotency_key = call.idempotency_key().filter(|_| goes_on).map(str::to_owned);
            call.give_up("it was cancelled, and the server has not answered").await;
            let report = CancelReport::Unknown(idempotency_key.clone());
            channels.cancel_report.send_replace(Some(report));
            Err(CallError::OutcomeUnknown { idempotency_key })
        }
    }
}

/// Drives a task that was created before.
pub(crate) async fn follow(task: TaskHandle, channels: Channels) -> Result<UnrecordedOutcome, CallError> {
    // Before its first status is read, which may still ask what another process has answered.
    task.note_taken_answers().await;
    let reporter = Reporter {
        status: channels.status.clone(),
        connection: task.connection().clone(),
        standing: channels.status.borrow().clone(),
        progress: None,
    };
    wait(task, reporter, channels).await
}

async fn wait(
    task: TaskHandle,
    mut reporter: Reporter,
    mut channels: Channels,
) -> Result<UnrecordedOutcome, CallError> {
    let status = reporter.status.clone();
    let waited = {
        let mut observe = |event: Event<'_>| reporter.observe(&event);
        let waiting = async {
            tokio::select! {
                waited = task.wait(&mut observe) => waited,
                never = show_questions(&task, &status) => match never {},
            }
        };
        let mut waiting = std::pin::pin!(waiting);
        // A cancellation that came before the task could be seen.
        let cancelling = async {
            until_cancelled(&mut channels.is_cancelled).await;
            let report = cancel_surely(&task).await;
            channels.cancel_report.send_replace(Some(report));
        };
        tokio::select! {
            biased;
            // A task that has ended has an outcome all the same.
            () = cancelling => waiting.await,
            waited = &mut waiting => waited,
        }
    };
    match waited {
        Ok(outcome) => Ok(UnrecordedOutcome::Task(task, outcome)),
        Err(error) => Err(CallError::of_task(&task, error)),
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

/// Adds what a legacy server asks to the status as soon as it comes, and takes it away when it is answered. What a modern server goes on to show when another process has
/// answered is taken away, too.
async fn show_questions(task: &TaskHandle, status: &watch::Sender<CallStatus>) -> Infallible {
    let connection = task.connection();
    let mut asked = connection.listening().asked();
    let mut journal = task.journal_watch();
    loop {
        let elsewhere = async {
            match &mut journal {
                Some(journal) => journal.changed().await,
                None => std::future::pending().await,
            }
        };
        let is_elsewhere = tokio::select! {
            changed = asked.changed() => match changed {
                Ok(()) => false,
                Err(_) => return std::future::pending().await,
            },
            () = elsewhere => true,
        };
        let is_legacy = connection.known_era().await.is_some_and(|era| era.legacy().is_some());
        // A legacy server does not ask in its status: what another process has answered is not open here.
        if is_elsewhere && (is_legacy || !matches!(&*status.borrow(), CallStatus::Task(shown) if asks_in_status(shown)))
        {
            continue;
        }
        if is_elsewhere {
            task.note_taken_answers().await;
        }
        status.send_if_modified(|now| {
            let CallStatus::Task(shown) = now else { return false };
            let open = match is_legacy {
                true => connection.listening().open_questions(&shown.id),
                false => without_answered(shown, task).input_requests,
            };
            let is_new = shown.input_requests != open;
            if is_new {
                Arc::make_mut(shown).input_requests = open;
            }
            is_new
        });
    }
}

fn asks_in_status(task: &TaskSnapshot) -> bool {
    task.status == TaskStatus::InputRequired && !task.input_requests.is_empty()
}

/// The task without the questions that are known to be answered: its server may show them for a moment longer.
pub(crate) fn without_answered(snapshot: &TaskSnapshot, task: &TaskHandle) -> TaskSnapshot {
    let mut shown = snapshot.clone();
    shown
        .input_requests
        .retain(|question| !question.key.as_deref().is_some_and(|key| task.is_answered(key)));
    shown
}

/// Completes when the call is cancelled, and never if it cannot be any more.
async fn until_cancelled(cancelled: &mut watch::Receiver<bool>) {
    if cancelled.wait_for(|cancelled| *cancelled).await.is_err() {
        std::future::pending().await
    }
}

/// Cancels the task: again and again while the server cannot be reached.
async fn cancel_surely(task: &TaskHandle) -> CancelReport {
    let (connection, mut failures) = (task.connection(), 0_u32);
    loop {
        match task.cancel().await {
            Ok(_) => return CancelReport::Done,
            Err(error) if error.is_transient() => {
                failures = failures.saturating_add(1);
                let retry_in = polling::next_retry(failures, error.retry_after(), connection.jitter());
                connection.sleep(retry_in).await;
            }
            Err(error) => {
                tracing::debug!(%error, "a task was not cancelled");
                return CancelReport::Failed(Arc::new(Mutex::new(Some(error))));
            }
        }
    }
}
