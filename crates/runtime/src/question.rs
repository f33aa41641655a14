//! A question to the client, from the asking to the answer.

use crate::{TaskContext, hub::Watch};
use longhaul_core::{
    Event, Input, InputKey, InputState, Json, StopReason, Task,
    store::{ApplyError, StoreError},
};
use tokio::sync::oneshot;

/// A question could not be asked, or will not be answered.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum AskError {
    /// The work is asked to stop; nobody waits for the answer any more.
    #[error("the work is to stop")]
    Stopped(StopReason),
    /// The question was withdrawn: the task is over.
    #[error("the question was withdrawn")]
    Withdrawn,
    /// The task could not be changed, or the store failed.
    #[error(transparent)]
    Task(#[from] ApplyError),
}

impl From<StoreError> for AskError {
    fn from(error: StoreError) -> Self {
        Self::Task(error.into())
    }
}

/// The questions of one attempt.
pub(crate) struct Asked {
    /// Over the task's life: the next key's number, less one.
    ever: u32,
    /// Now waiting for an answer. While it is above 0 the task is parked and holds no slot; also branches of the work that go on
    /// meanwhile run without one.
    open: usize,
}

impl Asked {
    pub(crate) fn before(task: &Task) -> Self {
        Self {
            ever: task.inputs_asked,
            open: 0,
        }
    }
}

impl TaskContext {
    /// Asks, waits and tells the answer. Ends early when the one who asked has gone.
    pub(crate) async fn carry_question(self, request: Json, mut tell: oneshot::Sender<Result<Json, AskError>>) {
        let watch = self.0.inner.hub.watch(&self.0.task);
        let key = match self.open_question(request).await {
            Ok(key) => key,
            Err(error) => return drop(tell.send(Err(error))),
        };
        let answer = tokio::select! {
            answer = self.answer_to(&key, watch) => answer,
            reason = self.stopped() => Err(AskError::Stopped(reason)),
            // Nobody hears which error it is.
            () = tell.closed() => Err(AskError::Withdrawn),
        };
        let _ = tell.send(self.settle(&key, answer).await);
    }

    /// Lets the work go on after a question, unless the attempt is ending and needs no slot any more.
    async fn settle(&self, key: &InputKey, answer: Result<Json, AskError>) -> Result<Json, AskError> {
        match answer {
            Ok(answer) => self.close_question().await.map(|()| answer),
            Err(stopped @ AskError::Stopped(_)) => Err(stopped),
            Err(error) => {
                if self.withdraw(key).await {
                    self.close_question().await?;
                }
                Err(error)
            }
        }
    }

    async fn open_question(&self, request: Json) -> Result<InputKey, AskError> {
        let mut asked = self.0.asked.lock().await;
        if let Some(reason) = self.stop_requested() {
            return Err(AskError::Stopped(reason));
        }
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
        self.park();
        Ok(key)
    }

    async fn answer_to(&self, key: &InputKey, mut watch: Watch) -> Result<Json, AskError> {
        let store = &self.0.inner.store;
        loop {
            let record = store.peek(&self.0.task).await?;
            if !record.is_some_and(|record| record.task.open_inputs.contains(key)) {
                break;
            }
            watch.changed().await;
        }
        match store.answer(&self.0.task, key).await? {
            Some(Input {
                state: InputState::Answered(answer),
                ..
            }) => Ok(answer),
            _ => Err(AskError::Withdrawn),
        }
    }

    /// Takes back a question that nobody needs answered, and says whether the attempt still lives.
    async fn withdraw(&self, key: &InputKey) -> bool {
        let event = Event::InputWithdrawn { key: key.clone() };
        let withdraw = || self.apply(vec![event.clone()]);
        let withdrawn = self.0.inner.insist("withdrawing a question", withdraw).await;
        // Illegal: its answer has come meanwhile, which is as good.
        matches!(withdrawn, Ok(_) | Err(ApplyError::Illegal(_)))
    }

    async fn close_question(&self) -> Result<(), AskError> {
        let mut asked = self.0.asked.lock().await;
        asked.open -= 1;
        if asked.open > 0 {
            return Ok(());
        }
        let inner = &self.0.inner;
        let slot = tokio::select! {
            biased;
            reason = self.stopped() => return Err(AskError::Stopped(reason)),
            slot = inner.slots.take_back(&self.0.tool, self.0.concurrency) => slot,
        };
        inner
            .insist("going on after an answer", || self.apply(vec![Event::Unparked]))
            .await?;
        self.unpark(slot);
        Ok(())
    }
}
