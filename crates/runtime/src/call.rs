//! What the fronts ask of the engine: create, wait, promote, cancel, answer.

use crate::{Engine, Tool, attempt, attempt::Begin, engine::Inner, hub::Watch, queues::Arrival};
use longhaul_core::{
    CancelMode, Event, InputKey, Json, Origin, Outcome, Owner, Scope, Task, TaskId,
    store::{ApplyError, Change, Claimed, NewTask, Record, StoreError},
};
use std::{collections::BTreeMap, sync::Arc};

/// A call of a tool, its arguments already checked.
pub struct Call {
    /// Which tool.
    pub tool: Arc<Tool>,
    /// The arguments, as they came.
    pub arguments: Json,
    /// Who calls.
    pub owner: Owner,
    /// In which generation.
    pub origin: Origin,
    /// Whether the call is to be cancelled if its caller has gone before it was told that it was written (C-45). The task is
    /// never deleted for that, only cancelled.
    pub cancel_if_caller_leaves: bool,
}

/// A task cannot be cancelled.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CancelError {
    /// Unknown or foreign.
    #[error("task not found")]
    NotFound,
    /// It is over: legacy refuses (G1-51), modern acknowledges (G2-45).
    #[error("the task is over")]
    Done(Box<Task>),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What became of a call that its client stopped waiting for.
#[derive(Debug)]
pub enum Promotion {
    /// It is a task now.
    Task(Box<Task>),
    /// It ended first.
    Ended(Outcome),
}

impl Engine {
    /// Makes a task of a call. When this completes the task is written, and its id may be given away (invariant 1).
    ///
    /// # Errors
    /// The store's; nothing was started then. [`StoreError::Closed`] also if the engine stops meanwhile: the task may then have
    /// been written.
    pub async fn create(&self, call: Call) -> Result<Task, StoreError> {
        self.0.submit(call, true).await
    }

    /// Makes a task that is over from its beginning: a legacy call with bad arguments is owed one.
    ///
    /// # Errors
    /// The store's.
    pub async fn create_ended(&self, call: Call, outcome: Outcome) -> Result<Task, StoreError> {
        let mut new = self.0.new_task(&call, true);
        new.outcome = Some(outcome);
        self.0.store.create(new).await
    }

    /// Begins a call whose client waits for the answer. It is written before it starts, but nobody is told its id.
    ///
    /// # Errors
    /// As for [`create`](Self::create).
    pub async fn begin(&self, call: Call) -> Result<Waiting, StoreError> {
        let task = self.0.submit(call, false).await?;
        let watch = self.0.hub.watch(&task.id);
        Ok(Waiting {
            inner: Arc::clone(&self.0),
            id: task.id,
            watch,
            over: false,
        })
    }

    /// Cancels a task of `scope`: at once or by asking its work to stop. The wish is written when this completes.
    ///
    /// # Errors
    /// [`CancelError`].
    pub async fn cancel(&self, scope: &Scope, id: &TaskId, mode: CancelMode) -> Result<Task, CancelError> {
        let record = self.0.store.get(scope, id).await?.ok_or(CancelError::NotFound)?;
        match self.0.request_cancel(id, mode).await {
            Ok(task) => Ok(task),
            Err(ApplyError::Store(error)) => Err(error.into()),
            Err(ApplyError::NotFound) => Err(CancelError::NotFound),
            Err(ApplyError::Illegal(_) | ApplyError::Stale) => {
                let record = self.0.store.get(scope, id).await?.unwrap_or(record);
                Err(CancelError::Done(Box::new(record.task)))
            }
        }
    }

    /// Gives answers to a task of `scope`. Answers to questions that are not open are ignored (G2-40). `None` if there is no such
    /// task.
    ///
    /// # Errors
    /// The store's; some answers may have been taken.
    pub async fn answer(
        &self,
        scope: &Scope,
        id: &TaskId,
        answers: BTreeMap<InputKey, Json>,
    ) -> Result<Option<()>, StoreError> {
        let Some(record) = self.0.store.get(scope, id).await? else {
            return Ok(None);
        };
        for (key, answer) in answers {
            if !record.task.open_inputs.contains(&key) {
                continue;
            }
            let event = Event::InputAnswered { key, answer };
            let at = self.0.now();
            // Anything but the store's failure means: answered, withdrawn or over since we looked.
            if let Err(ApplyError::Store(error)) = self.0.store.apply(Change::of(id, event, at)).await {
                return Err(error);
            }
        }
        Ok(Some(()))
    }
}

/// A call whose client waits. Dropping it changes nothing about the call.
pub struct Waiting {
    inner: Arc<Inner>,
    id: TaskId,
    watch: Watch,
    over: bool,
}

/// What a waiting front learns next.
#[derive(Debug)]
pub enum Step {
    /// The call goes on; something about it changed.
    Changed(Box<Record>),
    /// It ended.
    Ended(Outcome),
}

impl Waiting {
    /// The task behind the call; not to be given away unless promoted.
    pub fn id(&self) -> &TaskId {
        &self.id
    }

    /// Waits for the end, telling each change on the way to `changed`.
    ///
    /// # Errors
    /// The store's; the call goes on.
    pub async fn ended(&mut self, mut changed: impl FnMut(&Task)) -> Result<Outcome, StoreError> {
        loop {
            match self.look().await? {
                Step::Ended(outcome) => return Ok(outcome),
                Step::Changed(record) => changed(&record.task),
            }
            self.watch.changed().await;
        }
    }

    /// How the call stands now.
    ///
    /// # Errors
    /// The store's.
    pub async fn look(&mut self) -> Result<Step, StoreError> {
        let record = self.inner.store.peek(&self.id).await?;
        let record = record.ok_or_else(|| StoreError::Failed("a call that is waited for has vanished".to_owned()))?;
        Ok(match record.outcome {
            Some(outcome) => {
                self.over = true;
                Step::Ended(outcome)
            }
            None => Step::Changed(Box::new(record)),
        })
    }

    /// Completes when there is something new to [`look`](Self::look) at.
    pub async fn changed(&mut self) {
        self.watch.changed().await;
    }

    /// Makes the call a task, whose id may then be given away, unless it has ended.
    ///
    /// # Errors
    /// The store's; the call is as it was.
    pub async fn promote(&mut self) -> Result<Promotion, StoreError> {
        let at = self.inner.now();
        match self.inner.store.apply(Change::of(&self.id, Event::Promoted, at)).await {
            Ok(task) => {
                self.inner.changed(&task);
                Ok(Promotion::Task(Box::new(task)))
            }
            Err(ApplyError::Store(error)) => Err(error),
            // Over, or about to be.
            Err(_) => self.ended(|_| ()).await.map(Promotion::Ended),
        }
    }

    /// Asks for the call to stop, without waiting for it. Used when the client has gone or has changed its mind.
    pub fn abandon(self) {
        if !self.over {
            self.inner.cancel_soon(self.id.clone());
        }
    }
}

impl Inner {
    fn new_task(&self, call: &Call, announced: bool) -> NewTask {
        let settings = call.tool.settings();
        let at = self.now();
        NewTask {
            id: TaskId::mint(at, &*self.ports.entropy),
            owner: call.owner.clone(),
            tool: Arc::clone(&settings.name),
            spec: call.tool.spec().id.clone(),
            origin: call.origin,
            front: self.node,
            announced,
            arguments: call.arguments.clone(),
            at,
            deadline: settings.deadline,
            queue_timeout: settings.queue_timeout,
            retention: settings.retention,
            claim: None,
            outcome: None,
        }
    }

    /// Writes a task, claimed at once if a slot is free and nobody of the same tool waits for one.
    async fn submit(self: &Arc<Self>, call: Call, announced: bool) -> Result<Task, StoreError> {
        let mut new = self.new_task(&call, announced);
        let arrival = self.queues.arrive(&new.tool, new.at, || self.free_slot(&new.tool));
        if matches!(arrival, Arrival::Slot(_)) {
            new.claim = Some((self.node, self.binding(&new.tool)));
        }
        // Not this future but the engine carries it through: should the client leave between commit and start, a claimed task
        // must still be driven.
        let (tell, told) = tokio::sync::oneshot::channel();
        let inner = Arc::clone(self);
        self.spawn(async move {
            let arguments = new.arguments.clone();
            let missed = inner.active.missed();
            let task = match inner.store.create(new).await {
                Ok(task) => task,
                Err(error) => return drop(tell.send(Err(error))),
            };
            // If the caller has gone, this is dropped unread, here or in the channel.
            let _ = tell.send(Ok(Receipt {
                inner: Arc::clone(&inner),
                task: Some(task.clone()),
                cancel_unread: call.cancel_if_caller_leaves,
            }));
            inner.changed(&task);
            match arrival {
                Arrival::Slot(slot) => {
                    attempt::drive(inner, Claimed { task, arguments }, slot, Begin::Fresh, missed).await;
                }
                // Only now: the task is in its queue, and the queue is offered.
                Arrival::Queue(place) => drop(place),
            }
        });
        told.await.unwrap_or(Err(StoreError::Closed))?.read()
    }

    async fn request_cancel(&self, id: &TaskId, mode: CancelMode) -> Result<Task, ApplyError> {
        let change = Change::of(id, Event::CancelRequested(mode), self.now());
        let task = self.store.apply(change).await?;
        self.changed(&task);
        Ok(task)
    }

    /// Insists, since nobody else will ask: also a full disk must not leave a command running for no one.
    fn cancel_soon(self: &Arc<Self>, id: TaskId) {
        let inner = Arc::clone(self);
        let pending = self.cancelling.begin();
        self.spawn(async move {
            let _pending = pending;
            let what = "cancelling a call whose caller has gone";
            // A refusal means that it is over.
            let _ = inner
                .insist(what, || inner.request_cancel(&id, CancelMode::AtOnce))
                .await;
        });
    }
}

/// Tells a caller that its task is written. Dropped unread, it cancels the task if the call said so (C-45).
struct Receipt {
    inner: Arc<Inner>,
    task: Option<Task>,
    cancel_unread: bool,
}

impl Receipt {
    fn read(mut self) -> Result<Task, StoreError> {
        self.task.take().ok_or(StoreError::Closed)
    }
}

impl Drop for Receipt {
    fn drop(&mut self) {
        if let Some(task) = self.task.take().filter(|_| self.cancel_unread) {
            self.inner.cancel_soon(task.id);
        }
    }
}
