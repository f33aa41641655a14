//! What running work may ask of Longhaul.

use crate::{
    AskError, Question, Requestor, Said,
    engine::Inner,
    news::News,
    question::{Asked, Asking},
    slots::Slot,
};
use longhaul_core::{
    AttemptState, Event, Fence, Json, LogLevel, Principal, Progress, StopReason, Task, TaskId, UnixMillis,
    store::{ApplyError, Change, StoreError},
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Notify, oneshot, watch};

/// A running attempt's door to its task: news out, stop requests and answers in. Cheap to clone.
#[derive(Clone)]
pub struct TaskContext(pub(crate) Arc<Shared>);

pub(crate) struct Shared {
    pub(crate) inner: Arc<Inner>,
    pub(crate) task: TaskId,
    pub(crate) tool: Arc<str>,
    pub(crate) concurrency: Option<usize>,
    pub(crate) asked: tokio::sync::Mutex<Asked>,
    principal: Principal,
    requestor: Arc<Requestor>,
    /// Questions on their way to the store; `None` once the attempt is over.
    asking: Mutex<Option<Vec<Asking>>>,
    asks: Notify,
    fence: Fence,
    stop: watch::Receiver<Option<StopReason>>,
    news: Mutex<News>,
    fresh: Notify,
    hold: Mutex<Hold>,
}

/// The attempt's hold on its slot.
enum Hold {
    Slot(#[expect(dead_code, reason = "held for its drop")] Slot),
    /// Parked.
    Nothing,
    /// The attempt has ended; whoever still has its context gets no slot any more.
    Over,
}

impl TaskContext {
    pub(crate) fn new(
        inner: &Arc<Inner>,
        task: &Task,
        requestor: Arc<Requestor>,
        fence: Fence,
        concurrency: Option<usize>,
        stop: watch::Receiver<Option<StopReason>>,
        slot: Slot,
    ) -> Self {
        let starting = (task.active_attempt()).is_some_and(|attempt| attempt.state == AttemptState::Starting);
        Self(Arc::new(Shared {
            inner: Arc::clone(inner),
            task: task.id.clone(),
            tool: Arc::clone(&task.tool),
            concurrency,
            asked: tokio::sync::Mutex::new(Asked::before(task)),
            principal: task.owner.principal.clone(),
            requestor,
            asking: Mutex::new(Some(Vec::new())),
            asks: Notify::new(),
            fence,
            stop,
            news: Mutex::new(News::of_attempt(starting)),
            fresh: Notify::new(),
            hold: Mutex::new(Hold::Slot(slot)),
        }))
    }

    /// The task.
    pub fn task(&self) -> &TaskId {
        &self.0.task
    }

    /// Whom it belongs to.
    pub fn principal(&self) -> &Principal {
        &self.0.principal
    }

    /// What the sender of the call said about itself.
    pub fn requestor(&self) -> &Arc<Requestor> {
        &self.0.requestor
    }

    /// Now.
    pub fn now(&self) -> UnixMillis {
        self.0.inner.now()
    }

    /// The ports, for work that needs time or concurrency of its own.
    pub fn ports(&self) -> &crate::Ports {
        &self.0.inner.ports
    }

    /// Says that the work has begun. Best effort, like all news.
    pub fn started(&self) {
        self.tell(News::started);
    }

    /// A line for people: the latest one is shown as the task's status message, at most twice a second.
    pub fn status(&self, line: impl Into<Arc<str>>) {
        let line = line.into();
        self.tell(|news| news.status(line));
    }

    /// How far the work has come. A client that waits hears every figure; of a task the latest is kept, at most twice a second. NaN
    /// and infinities are no figures, and are not told.
    pub fn progress(&self, current: f64, total: Option<f64>) {
        self.report(current, total, None);
    }

    /// As [`progress`](Self::progress), with a line for people, which becomes the status message too.
    pub fn report(&self, current: f64, total: Option<f64>, message: Option<&str>) {
        let message: Option<Arc<str>> = message.map(Arc::from);
        let said = Said::progress(current, total, message.clone());
        self.tell(|news| {
            if let Some(Said::Progress { current, total, .. }) = said {
                news.progress(Progress { current, total });
            }
            if let Some(line) = message {
                news.status(line);
            }
        });
        if let Some(said) = said {
            self.say(said);
        }
    }

    /// A log message for a client that waits and wants those. Nothing of it is kept.
    pub fn log(&self, level: LogLevel, logger: Option<&str>, data: Json) {
        if self.0.inner.live.is_heard() {
            self.say(Said::Log {
                level,
                logger: logger.map(Arc::from),
                data,
            });
        }
    }

    /// Says that what there was to do on a page is done; `id` is the `elicitationId` of the question that sent a person there. Only clients of
    /// 2025-11-25 are told (C-32), and nothing of it is kept.
    pub fn elicitation_complete(&self, id: &Arc<str>) {
        self.say(Said::ElicitationComplete { id: Arc::clone(id) });
    }

    /// Says that there is nothing to say for a while, so that a legacy stream may be closed until then (T-06).
    pub fn quiet(&self) {
        self.say(Said::Quiet);
    }

    fn say(&self, said: Said) {
        self.0.inner.live.say(&self.0.task, said);
    }

    /// Why the work is asked to stop, if it is.
    pub fn stop_requested(&self) -> Option<StopReason> {
        *self.0.stop.borrow()
    }

    /// Completes when the work is asked to stop.
    pub async fn stopped(&self) -> StopReason {
        let mut stop = self.0.stop.clone();
        match stop.wait_for(Option::is_some).await.map(|reason| *reason) {
            Ok(Some(reason)) => reason,
            // The attempt is over and nobody can ask any more.
            _ => std::future::pending().await,
        }
    }

    /// Asks the client a question and waits for the answer, however long; meanwhile the attempt holds no slot.
    ///
    /// Several questions may be open at once; the slot comes back when none is. Those asked together, as with `join!`, are shown
    /// together. Dropping the future withdraws the question.
    ///
    /// # Errors
    /// [`AskError`] if the client cannot be asked this, if the work is asked to stop, if the task is over, or if the store failed.
    pub async fn ask(&self, question: impl Into<Question>) -> Result<Json, AskError> {
        let question = question.into();
        question.fits(&self.0.requestor.abilities)?;
        let (tell, told) = oneshot::channel();
        match &mut *self.asking() {
            Some(asking) => asking.push(Asking::new(question, tell)),
            None => return Err(ApplyError::Stale.into()),
        }
        self.0.asks.notify_one();
        told.await.unwrap_or_else(|_| Err(StoreError::Closed.into()))
    }

    /// The questions asked since this last completed; at least one.
    pub(crate) async fn next_questions(&self) -> Vec<Asking> {
        loop {
            let asked = self.asking().as_mut().map(std::mem::take).unwrap_or_default();
            if !asked.is_empty() {
                return asked;
            }
            self.0.asks.notified().await;
        }
    }

    fn asking(&self) -> MutexGuard<'_, Option<Vec<Asking>>> {
        self.0.asking.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the slot back while the work is parked.
    pub(crate) fn park(&self) {
        self.set_hold(Hold::Nothing);
    }

    /// Takes a slot for work that goes on.
    pub(crate) fn unpark(&self, slot: Slot) {
        self.set_hold(Hold::Slot(slot));
    }

    /// Gives the slot back for good, whoever still holds this context, and takes no question any more.
    pub(crate) fn release_slot(&self) {
        *self.asking() = None;
        self.set_hold(Hold::Over);
    }

    /// The lock is let go before the old slot is, since giving one back wakes others.
    fn set_hold(&self, new: Hold) {
        let mut hold = self.0.hold.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*hold, Hold::Over) {
            return;
        }
        let old = std::mem::replace(&mut *hold, new);
        drop(hold);
        drop(old);
    }

    fn tell(&self, write: impl FnOnce(&mut News)) {
        write(&mut self.news());
        self.0.fresh.notify_one();
    }

    fn news(&self) -> MutexGuard<'_, News> {
        self.0.news.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Completes when there are news that were not taken.
    pub(crate) async fn has_news(&self) {
        while self.news().is_empty() {
            self.0.fresh.notified().await;
        }
    }

    pub(crate) fn take_news(&self) -> News {
        self.news().take()
    }

    /// Keeps news that could not be written for the next try; what was said since counts more.
    pub(crate) fn put_back(&self, older: News) {
        self.news().fill_from(older);
    }

    /// Writes events under this attempt's fence.
    pub(crate) async fn apply(&self, events: Vec<Event>) -> Result<Task, ApplyError> {
        let change = Change {
            task: self.0.task.clone(),
            fence: Some(self.0.fence),
            events,
            at: self.now(),
        };
        self.0.inner.store.apply(change).await
    }
}
