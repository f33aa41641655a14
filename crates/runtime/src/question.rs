//! A question to the client, from the asking to the answer.

use crate::{Abilities, Ability, End, Requestor, TaskContext, hub::Watch, read_answer};
use longhaul_core::{
    Event, Input, InputKey, InputState, Json, Outcome, RpcFailure, StopReason, Task,
    store::{ApplyError, StoreError},
};
use std::{convert::Infallible, sync::Arc};
use tokio::sync::oneshot;

/// Something to ask a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// How its author calls it. Rounds before there is a task show it by this name (U-10); a task's own keys are minted (G2-34).
    pub name: Option<Arc<str>>,
    /// `{"method": …, "params": …}` as MCP embeds it (U-15).
    pub request: Json,
    /// What the client must have declared to be asked this (U-13, G1-42).
    pub needs: Option<Ability>,
}

impl Question {
    /// A question that any client may be asked.
    pub fn new(request: Json) -> Self {
        Self {
            name: None,
            request,
            needs: None,
        }
    }

    /// Whether a client of these abilities can be asked.
    ///
    /// # Errors
    /// [`AskError::Unsupported`].
    pub fn fits(&self, abilities: &Abilities) -> Result<(), AskError> {
        match self.needs {
            Some(ability) if !abilities.has(ability) => Err(AskError::Unsupported(ability)),
            _ => Ok(()),
        }
    }
}

impl From<Json> for Question {
    /// A question that any client may be asked.
    fn from(request: Json) -> Self {
        Self::new(request)
    }
}

/// A question could not be asked, or will not be answered.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum AskError {
    /// The client has not declared that it can be asked this.
    #[error("the client has not declared {0}")]
    Unsupported(Ability),
    /// The work is asked to stop; nobody waits for the answer any more.
    #[error("the work is to stop")]
    Stopped(StopReason),
    /// The question was withdrawn: the task is over, or nobody can be reached any more.
    #[error("the question was withdrawn")]
    Withdrawn,
    /// The client answered with an error.
    #[error("the client refused: {}", .0.message)]
    Refused(RpcFailure),
    /// The task could not be changed, or the store failed.
    #[error(transparent)]
    Task(#[from] ApplyError),
}

impl AskError {
    /// What becomes of work that cannot go on without the answer: a client that could not be asked is told so in the way of its
    /// generation (G2-05), anything else ends as the tool's own error.
    pub fn into_end(self, requestor: &Requestor) -> End {
        match self {
            Self::Unsupported(ability) => End::Finished(requestor.lacks(ability)),
            Self::Stopped(reason) => End::Stopped(reason),
            other => End::Errored(Outcome::tool_error(&other.to_string())),
        }
    }
}

impl From<StoreError> for AskError {
    fn from(error: StoreError) -> Self {
        Self::Task(error.into())
    }
}

type Teller = oneshot::Sender<Result<Json, AskError>>;

/// A question on its way to the store.
pub(crate) struct Asking {
    question: Question,
    tell: Teller,
}

impl Asking {
    pub(crate) fn new(question: Question, tell: Teller) -> Self {
        Self { question, tell }
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

/// Opens questions as the work asks them. What it asks without waiting in between is opened in one write, so that a reader who
/// sees one of them sees all (G2-28): the work has been polled before this is.
pub(crate) async fn open_questions(cx: &TaskContext) -> Infallible {
    loop {
        let asked = cx.next_questions().await;
        // Not this future, which ends with the work, but the engine carries them through: dropped halfway, they would leave the
        // task parked with a slot.
        cx.0.inner.spawn(cx.clone().carry_questions(asked));
    }
}

impl TaskContext {
    async fn carry_questions(self, asked: Vec<Asking>) {
        // Watched before they are written, so that no answer is missed.
        let watches: Vec<Watch> = asked.iter().map(|_| self.0.inner.hub.watch(&self.0.task)).collect();
        let opened = self.write_questions(&asked).await;
        match opened {
            Ok(keys) => {
                for ((Asking { tell, .. }, key), watch) in asked.into_iter().zip(keys).zip(watches) {
                    self.0.inner.spawn(self.clone().carry_question(key, watch, tell));
                }
            }
            Err(error) => {
                for Asking { tell, .. } in asked {
                    let _ = tell.send(Err(error.clone()));
                }
            }
        }
    }

    /// Waits for the answer and tells it. Ends early when the one who asked has gone.
    async fn carry_question(self, key: InputKey, watch: Watch, mut tell: Teller) {
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
            Ok(answer) => {
                self.close_question().await?;
                read_answer(answer)
            }
            Err(stopped @ AskError::Stopped(_)) => Err(stopped),
            Err(error) => {
                if self.withdraw(key).await {
                    self.close_question().await?;
                }
                Err(error)
            }
        }
    }

    async fn write_questions(&self, asking: &[Asking]) -> Result<Vec<InputKey>, AskError> {
        let mut asked = self.0.asked.lock().await;
        if let Some(reason) = self.stop_requested() {
            return Err(AskError::Stopped(reason));
        }
        let keys: Vec<InputKey> = (asked.ever + 1..).map(InputKey::nth).take(asking.len()).collect();
        let opened = |(key, asking): (&InputKey, &Asking)| Event::InputRequested {
            key: key.clone(),
            name: asking.question.name.clone(),
            request: asking.question.request.clone(),
        };
        let mut events: Vec<Event> = keys.iter().zip(asking).map(opened).collect();
        if asked.open == 0 {
            events.push(Event::Parked);
        }
        self.apply(events).await?;
        asked.ever += u32::try_from(keys.len()).unwrap_or(u32::MAX);
        asked.open += keys.len();
        self.park();
        Ok(keys)
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
