//! Waiting for a task: polls, pushes, questions and retries.

use crate::{
    Event, InputRequest, Observer, Outcome, Progress, RequestError, TaskHandle, TaskSnapshot, TaskStatus,
    connect::task_pushes::{Change, Push},
    journal::{call_record::CallRecord, watch::JournalWatch},
    question::{serving::RecordedRequests, task_questions::Questions},
    transport::{
        polling,
        stream_losses::{StreamChange, StreamChanges},
    },
};
use futures_util::future::{BoxFuture, FutureExt};
use longhaul_core::Millis;
use serde_json::json;
use std::{sync::Arc, time::Duration};
use tokio::sync::watch;

/// How long the result of a task that the server has forgotten may take to arrive, in milliseconds.
const LAST_WORD: Millis = 1_000;
/// A poll after this time is not late, in milliseconds.
const SOON: Millis = 1_000;

impl TaskHandle {
    /// Waits until the task has ended and returns its outcome.
    ///
    /// Polls at the interval the server asks for; if the server pushes the changes of tasks, it polls every half minute, in case a push was lost.
    /// While the server is down, overloaded or restarting, it retries without limit, with exponential backoff. What the task asks goes to
    /// [`Options::inputs`](crate::Options::inputs), each question once. To stop waiting, drop the future; the task is not affected.
    ///
    /// # Errors
    /// [`RequestError::InputRequired`] if the task asks and there is no handler. Any other [`RequestError`] that is not transient, for example for an unknown task, or when the server has refused three answers to a question; [`RequestError::Invalid`] also for a task that asks without end;
    /// [`RequestError::AsksAgain`] for one that goes on asking what the server has taken the answer to. [`RequestError::Unanswered`] if there is a handler, and the task asks it something that has
    /// no answer; it is cancelled then. [`RequestError::InvalidOutput`], and the task is recorded as finished, if the result does not fit the output schema of the
    /// tool, which is known to handles that a call returned, and those [of a tool](Self::of_tool).
    pub async fn wait(&self, on_event: Observer<'_>) -> Result<Outcome, RequestError> {
        let connection = self.connection();
        if connection.known_era().await.is_none_or(|era| era.legacy().is_some()) {
            connection.legacy_tasks().allow_questions(self.id());
        }
        let mut wait = Wait {
            handle: self,
            on_event,
            last_seen: None,
            failures: 0,
            polls: 0,
            push: None,
            polled_early: false,
            questions: Questions::default(),
            held: None,
            held_failures: 0,
            given: None,
            // What a new task asks comes to this process.
            has_asked_again: self.created().is_some(),
            others: None,
            cancelled: self.cancel_requested(),
            progress: None,
            streams: self.connection().listening().losses.changes(),
        };
        wait.follow_progress();
        if let Some(created) = self.created() {
            wait.report(created);
            // A task that has ended since only lacks its outcome.
            if !created.status.is_final() && !wait.has_ended_since(created).await {
                wait.pause(created).await?;
            }
        }
        loop {
            match wait.poll().await {
                Ok(PollResult::Ended(outcome)) => return Ok(outcome),
                Ok(PollResult::Live(snapshot)) => wait.until_next_poll(*snapshot).await?,
                Err(error) if error.is_transient() => wait.back_off(&error).await,
                Err(error) => {
                    if let RequestError::InvalidOutput { .. } = &error {
                        self.record_invalid_output().await;
                    }
                    return Err(error);
                }
            }
        }
    }
}

impl TaskHandle {
    /// Completes when another process wants the task to be cancelled. `None` if any process can do that itself.
    fn cancel_requested(&self) -> Option<BoxFuture<'_, ()>> {
        let record = self.record().filter(|_| self.connection().transport().is_session())?;
        Some(record.cancel_requested().boxed())
    }
}

enum PollResult {
    Live(Box<TaskSnapshot>),
    Ended(Outcome),
}

/// What ends a pause between two polls.
enum WakeReason {
    /// It is time.
    Time,
    Pushed(Change),
    /// There is an answer to send.
    Answered(Result<(), RequestError>),
    Held(HoldEnd),
    Progress(Progress),
    Stream(StreamChange),
    /// Another process wants the task to be cancelled.
    Cancelled,
    /// Another process may have been asked.
    LookAgain,
}

/// What has become of the request that holds until there is a result.
enum HoldEnd {
    /// The task has ended with this result, or the server does not hold the request.
    Answered(Option<Outcome>),
    Failed(RequestError),
    /// It may be sent again after a failure.
    PauseOver,
}

/// The state of [`TaskHandle::wait`].
struct Wait<'a> {
    handle: &'a TaskHandle,
    on_event: Observer<'a>,
    last_seen: Option<TaskSnapshot>,
    /// In a row.
    failures: u32,
    /// Polls of the running task so far.
    polls: u32,
    push: Option<Push>,
    /// The latest poll came early because of a push, and has not shown what that said: it is not trusted again before the next interval is over.
    polled_early: bool,
    questions: Questions,
    /// A legacy server asks on the stream of this request. It is kept open while the task asks. After a failure this is the pause before it is opened again.
    held: Option<BoxFuture<'static, HoldEnd>>,
    /// How often in a row it has failed.
    held_failures: u32,
    /// The result that it was answered with. The next poll tells whether the task has ended; some servers give a result once, and forget the task with it.
    given: Option<Outcome>,
    /// What an earlier process was asked about the task, and has not answered, is asked here.
    has_asked_again: bool,
    /// What other processes record: some servers send a question once, and one of them may have got it. `None` until the task was first read.
    others: Option<JournalWatch>,
    /// Completes when another process wants a task to be cancelled that only this one reaches.
    cancelled: Option<BoxFuture<'a, ()>>,
    /// What becomes of the streams of the connection.
    streams: StreamChanges,
    /// The progress that a legacy server reports.
    progress: Option<watch::Receiver<Option<Progress>>>,
}

impl Wait<'_> {
    /// Asks for pushes of the task, which was just created. Whether it is to be read at once: it has ended, or may have, since its server answered.
    async fn has_ended_since(&mut self, created: &TaskSnapshot) -> bool {
        let connection = self.handle.connection();
        // A status that came before this is known there only.
        let is_live = connection.legacy_tasks().is_live(self.handle.id());
        let is_legacy = connection.known_era().await.is_some_and(|era| era.legacy().is_some());
        self.subscribe(created) || (is_legacy && !is_live)
    }

    /// Asks for pushes of the task, if that is worth it. Whether they come already.
    fn subscribe(&mut self, snapshot: &TaskSnapshot) -> bool {
        // A task that ends soon needs no subscription, unless the next poll comes late.
        let is_polled_soon = snapshot.poll_interval.is_none_or(|interval| interval <= SOON);
        if self.push.is_some() || (self.polls <= 1 && is_polled_soon) {
            return false;
        }
        let push = self.handle.connection().push_changes(self.handle.id());
        let is_complete = push.is_complete();
        self.push = Some(push);
        is_complete
    }

    /// Sends answers that wait, reads the task, and its outcome if it has ended.
    async fn poll(&mut self) -> Result<PollResult, RequestError> {
        match self.questions.send(self.handle).await {
            Err(error) if error.is_transient() => return Err(error),
            // The question may be no longer open. If it is, the task says so, and it is asked again.
            Err(error) if self.questions.may_ask_again() => (self.on_event)(Event::AnswerRefused { error: &error }),
            Err(error) => return Err(error),
            Ok(()) => {}
        }
        let earlier = self.handle.record().filter(|_| !self.has_asked_again);
        if let Some(record) = earlier {
            self.handle.connection().cancel_abandoned(record).await?;
        }
        let snapshot = match self.handle.get().await {
            Ok(snapshot) => snapshot,
            Err(error) if error.is_unknown_task() => {
                let outcome = self.given_at_last().await.ok_or(error)?;
                self.handle.connection().listening().withdraw(self.handle.id());
                self.handle.check(&outcome).await?;
                return Ok(PollResult::Ended(outcome));
            }
            Err(error) => return Err(error),
        };
        let given = self.given.take();
        if !snapshot.status.is_final() {
            let asks = snapshot.status == TaskStatus::InputRequired;
            let listening = self.handle.connection().listening();
            listening.note_poll(self.handle.id(), asks);
            let which = match self.has_asked_again {
                false => RecordedRequests::All,
                true => RecordedRequests::Unanswered,
            };
            let is_new = match &mut self.others {
                Some(others) => others.has_changed(),
                None => {
                    // From before the journal is read.
                    self.others = self.handle.record().map(CallRecord::watch);
                    true
                }
            };
            if is_new {
                serve_recorded(self.handle, &snapshot, which).await?;
            }
            let earlier = std::mem::take(&mut *self.handle.earlier_requests().lock());
            if !earlier.is_empty() {
                self.handle.connection().serve_earlier(&snapshot, earlier).await?;
            }
        }
        self.has_asked_again = true;
        if !snapshot.status.is_final() {
            self.follow_progress();
            self.polls = self.polls.saturating_add(1);
            if self.subscribe(&snapshot) {
                // What was pushed on that stream since the task was read is not seen again.
                return Box::pin(self.poll()).await;
            }
            return Ok(PollResult::Live(Box::new(snapshot)));
        }
        self.handle.connection().listening().withdraw(self.handle.id());
        let outcome = match (&snapshot.outcome, given) {
            (Some(outcome), _) => outcome.clone(),
            (None, Some(given)) => given,
            (None, None) => self.handle.fetch_outcome(snapshot.status).await?,
        };
        let outcome = snapshot.settle(outcome);
        self.report(&snapshot);
        self.handle.check(&outcome).await?;
        Ok(PollResult::Ended(outcome))
    }

    /// Reports the task, asks what it asks, and waits until it should be read again.
    async fn until_next_poll(&mut self, snapshot: TaskSnapshot) -> Result<(), RequestError> {
        self.report(&snapshot);
        self.pause(&snapshot).await
    }

    async fn pause(&mut self, snapshot: &TaskSnapshot) -> Result<(), RequestError> {
        let handle = self.handle;
        let connection = handle.connection();
        self.questions.check_repeats(self.handle, snapshot)?;
        if self.questions.withdraws(snapshot) {
            self.polled_early = false;
        }
        self.ask(snapshot).await?;
        let is_pushed = self.push.as_ref().is_some_and(Push::is_complete);
        let pushed = is_pushed.then(|| connection.task_pushes().watched());
        let wait = polling::next_poll(snapshot.poll_interval, pushed, connection.jitter());
        let mut pause = connection.sleep(wait).boxed();
        let mut is_rare = is_pushed;
        let mut asks = asks_by_request(snapshot);
        loop {
            let woken = self.woken(&mut pause, asks).await;
            if let (WakeReason::Held(HoldEnd::Answered(None) | HoldEnd::Failed(_)), Some(inputs), true) = (
                &woken,
                &connection.options().inputs,
                connection.transport().is_session(),
            ) {
                // The question may not come, and the task ends with this process.
                inputs.leaves_open(&of_status(snapshot));
            }
            match woken {
                WakeReason::Cancelled => {
                    self.cancelled = None;
                    if let Err(error) = self.handle.cancel().await {
                        tracing::warn!(%error, "a task was not cancelled");
                    }
                    return Ok(());
                }
                WakeReason::Stream(change) => change.report(self.on_event),
                WakeReason::Progress(progress) => (self.on_event)(Event::TaskProgress(progress)),
                WakeReason::LookAgain => {
                    serve_recorded(self.handle, snapshot, RecordedRequests::Unanswered).await?;
                }
                WakeReason::Time => {
                    self.polled_early = false;
                    return Ok(());
                }
                WakeReason::Answered(Ok(())) => return Ok(()),
                WakeReason::Answered(Err(error)) => {
                    // It would wait for the answer until its time is over.
                    if let Err(error) = self.handle.cancel().await {
                        tracing::warn!(%error, "a task that cannot be answered was not cancelled");
                    }
                    return Err(error);
                }
                // The next poll tells what the task does.
                WakeReason::Held(HoldEnd::Answered(outcome)) => {
                    (self.held, self.held_failures, self.given) = (None, 0, outcome);
                }
                WakeReason::Held(HoldEnd::PauseOver) => self.held = None,
                WakeReason::Held(HoldEnd::Failed(error)) => self.hold_later(&error),
                WakeReason::Pushed(Change::Task(changed))
                    if is_older(&changed, self.last_seen.as_ref().unwrap_or(snapshot)) => {}
                // A poll has the outcome, and it alone withdraws questions: a push may be late, and what the user fills in would be lost.
                WakeReason::Pushed(Change::Task(changed))
                    if changed.status.is_final()
                        || self.questions.withdraws(&changed)
                        || (changed.status != TaskStatus::InputRequired
                            && connection.listening().was_seen_asking(self.handle.id())) =>
                {
                    if !std::mem::replace(&mut self.polled_early, true) {
                        return Ok(());
                    }
                    if std::mem::take(&mut is_rare) {
                        let wait = polling::next_poll(snapshot.poll_interval, None, connection.jitter());
                        pause = connection.sleep(wait).boxed();
                    }
                }
                // The task is read once more.
                WakeReason::Pushed(Change::Complete) => return Ok(()),
                WakeReason::Pushed(Change::Incomplete) => {
                    // The server may be gone: it is asked at its usual pace again.
                    is_rare = false;
                    let wait = polling::next_poll(snapshot.poll_interval, None, connection.jitter());
                    pause = connection.sleep(wait).boxed();
                }
                WakeReason::Pushed(Change::Task(changed)) => {
                    asks = asks_by_request(&changed);
                    self.handle.note(&changed).await;
                    self.report(&changed);
                    self.ask(&changed).await?;
                }
            }
        }
    }

    /// What ends the pause first.
    async fn woken(&mut self, pause: &mut BoxFuture<'_, ()>, asks: bool) -> WakeReason {
        let look_again = async {
            match &mut self.others {
                Some(others) if asks => others.changed().await,
                _ => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            answered = self.questions.answered() => WakeReason::Answered(answered),
            change = next_push(&mut self.push) => WakeReason::Pushed(change),
            ended = held(&mut self.held) => WakeReason::Held(ended),
            () = requested(&mut self.cancelled) => WakeReason::Cancelled,
            progress = next_progress(&mut self.progress) => WakeReason::Progress(progress),
            change = self.streams.next() => WakeReason::Stream(change),
            () = pause => WakeReason::Time,
            () = look_again => WakeReason::LookAgain,
        }
    }

    /// Puts what the task asks to the user.
    async fn ask(&mut self, snapshot: &TaskSnapshot) -> Result<(), RequestError> {
        if self.handle.connection().options().inputs.is_none() {
            return self.questions.require_none(self.handle, snapshot).await;
        }
        self.questions.update(self.handle, snapshot)?;
        let asks = asks_by_request(snapshot);
        let Some(inputs) = self.handle.connection().options().inputs.as_deref().filter(|_| asks) else {
            return Ok(());
        };
        // A legacy server asks on a stream of its own. What is recorded can be answered later, by another process, too.
        let is_lost_unless_answered = self.handle.record().is_none();
        // Some servers ask what is open again, under another id: not before it has its answer.
        let is_asked = self.handle.connection().listening().serves_recorded(self.handle.id());
        if self.held.is_none() && !is_asked && !(is_lost_unless_answered && inputs.leaves_open(&of_status(snapshot))) {
            let handle = self.handle.clone();
            let held = async move {
                match handle.hold_for_outcome().await {
                    Ok(outcome) => HoldEnd::Answered(outcome),
                    Err(error) => HoldEnd::Failed(error),
                }
            };
            self.held = Some(held.boxed());
        }
        Ok(())
    }

    /// The result that the server gave before it forgot the task, if it did. It may still be on its way.
    async fn given_at_last(&mut self) -> Option<Outcome> {
        if self.given.is_none()
            && let Some(held) = &mut self.held
        {
            tokio::select! {
                biased;
                ended = held => if let HoldEnd::Answered(outcome) = ended {
                    self.given = outcome;
                },
                () = self.handle.connection().sleep(LAST_WORD) => {}
            }
            self.held = None;
        }
        self.given.take()
    }

    /// The request that holds has failed, and is opened again after a pause.
    fn hold_later(&mut self, error: &RequestError) {
        tracing::debug!(%error, task = self.handle.id(), "the stream on which the task asks has failed");
        self.held_failures = self.held_failures.saturating_add(1);
        let connection = self.handle.connection();
        let wait = polling::next_retry(self.held_failures, error.retry_after(), connection.jitter());
        let clock = Arc::clone(&connection.options().clock);
        let pause = async move { clock.sleep(Duration::from_millis(wait)).await };
        self.held = Some(pause.map(|()| HoldEnd::PauseOver).boxed());
    }

    fn report(&mut self, snapshot: &TaskSnapshot) {
        if std::mem::take(&mut self.failures) > 0 {
            (self.on_event)(Event::Recovered);
        }
        if self.last_seen.as_ref() != Some(snapshot) {
            self.handle.note_asked(snapshot);
            (self.on_event)(Event::Status(snapshot));
            self.last_seen = Some(snapshot.clone());
        }
    }

    /// From now on, if the task is one of a legacy server that lives.
    fn follow_progress(&mut self) {
        let (tasks, task) = (self.handle.connection().legacy_tasks(), self.handle.id());
        if self.progress.is_none() && tasks.is_live(task) {
            self.progress = Some(tasks.progress.of(task));
        }
    }

    async fn back_off(&mut self, error: &RequestError) {
        let connection = self.handle.connection();
        self.held = None;
        self.failures = self.failures.saturating_add(1);
        let retry_in = polling::next_retry(self.failures, error.retry_after(), connection.jitter());
        (self.on_event)(Event::Retrying {
            error,
            attempt: self.failures,
            retry_in,
        });
        let on_event = &mut *self.on_event;
        let pause = connection.sleep(retry_in);
        self.streams.during(pause, |change| change.report(on_event)).await;
    }
}

/// Serves what the server has asked this process or another one about the task.
async fn serve_recorded(
    handle: &TaskHandle,
    snapshot: &TaskSnapshot,
    which: RecordedRequests,
) -> Result<(), RequestError> {
    match handle.record() {
        Some(record) => handle.connection().serve_recorded(snapshot, record, which).await,
        None => Ok(()),
    }
}

/// Whether a push tells of a time before this snapshot. The dates are compared as text, so they must be written alike.
fn is_older(pushed: &TaskSnapshot, snapshot: &TaskSnapshot) -> bool {
    match (&pushed.last_updated_at, &snapshot.last_updated_at) {
        (Some(pushed), Some(seen)) => {
            pushed.len() == seen.len() && pushed.ends_with('Z') && seen.ends_with('Z') && pushed < seen
        }
        _ => false,
    }
}

/// Whether a task asks by requests of its server, and not in its status.
fn asks_by_request(task: &TaskSnapshot) -> bool {
    task.status == TaskStatus::InputRequired && task.input_requests.is_empty()
}

/// What a legacy task asks, as far as its status says it.
fn of_status(task: &TaskSnapshot) -> InputRequest {
    let message = task.message.as_deref().unwrap_or_default();
    let request = json!({"method": "elicitation/create", "params": {"message": message}});
    InputRequest::new(None, Some(task.id.clone()), request)
}

/// Waits for the next push, if there may be one.
async fn next_push(push: &mut Option<Push>) -> Change {
    match push {
        Some(push) => push.next().await,
        None => std::future::pending().await,
    }
}

/// Waits for the next progress, if there may be one.
async fn next_progress(latest: &mut Option<watch::Receiver<Option<Progress>>>) -> Progress {
    while let Some(receiver) = latest {
        match receiver.changed().await {
            Ok(()) => {
                if let Some(progress) = receiver.borrow_and_update().clone() {
                    return progress;
                }
            }
            Err(_) => *latest = None,
        }
    }
    std::future::pending().await
}

/// Waits for the request of another process, if there may be one.
async fn requested(request: &mut Option<BoxFuture<'_, ()>>) {
    match request {
        Some(request) => request.await,
        None => std::future::pending().await,
    }
}

/// Waits for the request, if there is one.
async fn held(request: &mut Option<BoxFuture<'static, HoldEnd>>) -> HoldEnd {
    match request {
        Some(request) => request.await,
        None => std::future::pending().await,
    }
}
