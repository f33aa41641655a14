//! What running work may ask of Longhaul.

use crate::{engine::Inner, slots::Slot};
use longhaul_core::{
    Event, Fence, Input, InputKey, InputState, Json, Progress, StopReason, Task, TaskId, UnixMillis,
    store::{ApplyError, Change, StoreError},
};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{Notify, watch};

/// A running attempt's door to its task: news out, stop requests and answers in. Cheap to clone.
#[derive(Clone)]
pub struct TaskContext(Arc<Shared>);

struct Shared {
    inner: Arc<Inner>,
    task: TaskId,
    tool: Arc<str>,
    fence: Fence,
    concurrency: Option<usize>,
    stop: watch::Receiver<Option<StopReason>>,
    news: Mutex<News>,
    fresh: Notify,
    waiting: tokio::sync::Mutex<Asked>,
    slot: Mutex<Option<Slot>>,
}

/// What is known about the work and not yet written: the latest only.
#[derive(Default)]
pub(crate) struct News {
    started: bool,
    status: Option<Arc<str>>,
    progress: Option<Progress>,
}

/// Questions asked by this attempt.
struct Asked {
    /// Over the task's life: the next key's number, less one.
    ever: u32,
    /// Now waiting for an answer. While it is above 0 the task is parked and holds no slot.
    open: usize,
}

/// A question could not be asked, or will not be answered.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum AskError {
    /// The question was withdrawn.
    #[error("the question was withdrawn")]
    Withdrawn,
    /// The task could not be changed.
    #[error(transparent)]
    Task(#[from] ApplyError),
}

impl TaskContext {
    pub(crate) fn new(
        inner: &Arc<Inner>,
        task: &Task,
        fence: Fence,
        concurrency: Option<usize>,
        stop: watch::Receiver<Option<StopReason>>,
        slot: Slot,
    ) -> Self {
        Self(Arc::new(Shared {
            inner: Arc::clone(inner),
            task: task.id.clone(),
            tool: Arc::clone(&task.tool),
            fence,
            concurrency,
            stop,
            news: Mutex::default(),
            fresh: Notify::new(),
            waiting: tokio::sync::Mutex::new(Asked {
                ever: task.inputs_asked,
                open: 0,
            }),
            slot: Mutex::new(Some(slot)),
        }))
    }

    /// The task.
    pub fn task(&self) -> &TaskId {
        &self.0.task
    }

    /// Now.
    pub fn now(&self) -> UnixMillis {
        self.0.inner.ports.clock.now()
    }

    /// The ports, for work that needs time or concurrency of its own.
    pub fn ports(&self) -> &crate::Ports {
        &self.0.inner.ports
    }

    /// Says that the work has begun. Best effort, like all news.
    pub fn started(&self) {
        self.tell(|news| news.started = true);
    }

    /// A line for people: the latest one is shown as the task's status message, at most twice a second.
    pub fn status(&self, line: impl Into<Arc<str>>) {
        let line = line.into();
        self.tell(|news| news.status = Some(line));
    }

    /// How far the work has come; the latest figure is kept, at most twice a second.
    pub fn progress(&self, current: f64, total: Option<f64>) {
        self.tell(|news| news.progress = Some(Progress { current, total }));
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
    /// `request` is `{"method": …, "params": …}` as MCP embeds it (U-15). Several questions may be open at once.
    ///
    /// # Errors
    /// [`AskError`] if the task is over, or the question was withdrawn.
    pub async fn ask(&self, request: Json) -> Result<Json, AskError> {
        let mut watch = self.0.inner.hub.watch(&self.0.task);
        let key = self.open_question(request).await?;
        let answer = loop {
            let input = self
                .0
                .inner
                .store
                .answer(&self.0.task, &key)
                .await
                .map_err(ApplyError::from)?;
            match input.map(|Input { state, .. }| state) {
                Some(InputState::Answered(answer)) => break Ok(answer),
                Some(InputState::Open) => watch.changed().await,
                Some(InputState::Withdrawn) | None => break Err(AskError::Withdrawn),
            }
        };
        self.close_question().await?;
        answer
    }

    async fn open_question(&self, request: Json) -> Result<InputKey, AskError> {
        let mut asked = self.0.waiting.lock().await;
        let key = InputKey::nth(asked.ever + 1);
        let mut events = vec![Event::InputRequested {
            key: key.clone(),
            request,
        }];
        if asked.open == 0 {
            events.push(Event::Parked);
        }
        self.apply(events).await?;
        asked.ever += 1;
        asked.open += 1;
        self.set_slot(None);
        Ok(key)
    }

    async fn close_question(&self) -> Result<(), AskError> {
        let mut asked = self.0.waiting.lock().await;
        asked.open -= 1;
        if asked.open == 0 {
            let slot = self.0.inner.slots.take(&self.0.tool, self.0.concurrency).await;
            self.apply(vec![Event::Unparked]).await?;
            self.set_slot(Some(slot));
        }
        Ok(())
    }

    /// The lock is let go before the old slot is, since giving one back wakes others.
    fn set_slot(&self, slot: Option<Slot>) {
        let old = std::mem::replace(&mut *self.0.slot.lock().unwrap_or_else(PoisonError::into_inner), slot);
        drop(old);
    }

    /// Gives the slot back, whoever still holds this context.
    pub(crate) fn release_slot(&self) {
        self.set_slot(None);
    }

    fn tell(&self, write: impl FnOnce(&mut News)) {
        write(&mut self.0.news.lock().unwrap_or_else(PoisonError::into_inner));
        self.0.fresh.notify_one();
    }

    /// Completes when there are news that were not taken.
    pub(crate) async fn has_news(&self) {
        self.0.fresh.notified().await;
    }

    /// Takes the news as events.
    pub(crate) fn take_news(&self) -> Vec<Event> {
        let news = std::mem::take(&mut *self.0.news.lock().unwrap_or_else(PoisonError::into_inner));
        let mut events = Vec::new();
        if news.started {
            events.push(Event::Started);
        }
        if news.status.is_some() || news.progress.is_some() {
            events.push(Event::Reported {
                status: news.status,
                progress: news.progress,
            });
        }
        events
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

impl From<StoreError> for AskError {
    fn from(error: StoreError) -> Self {
        Self::Task(error.into())
    }
}
