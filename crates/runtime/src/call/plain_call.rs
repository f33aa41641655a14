//! A plain call that somebody waits for.

use crate::node::{Node, ProgressStream, TaskWatch, ToolMessage};
use longhaul_core::{
    BoxFuture, CancelMode, Event, Outcome, Reason, State, Task, TaskId, UnixMillis,
    store::{ApplyError, Change, Record, StoreError},
};
use std::sync::Arc;

/// The result of a promotion.
#[derive(Debug)]
pub enum Promotion {
    /// It is a task now.
    Task(Box<Task>),
    /// It ended first.
    Ended(Outcome),
}

/// A call whose client waits. Its attempt may run in the tokio task that waits, until there is something to tell the client. Then, or when
/// this is dropped, the attempt goes on in a tokio task of its own; nothing changes about the call.
pub struct PlainCall {
    node: Arc<Node>,
    id: TaskId,
    pub(crate) watch: TaskWatch,
    progress: ProgressStream,
    pub(crate) keyed: bool,
    /// Whether the store began it in memory, where no other node finds it.
    pub(crate) in_memory: bool,
    /// Whether the call may have changed before this wait began, and was not read since.
    pub(crate) unread: bool,
    /// The attempt, if it runs in the tokio task that waits.
    pub(crate) attempt: Option<BoxFuture<'static, ()>>,
}

impl Drop for PlainCall {
    fn drop(&mut self) {
        self.hand_over();
    }
}

/// A handle to a plain call that can cancel it. Dropping it changes nothing about the call.
#[derive(Clone)]
pub struct CallHandle {
    node: Arc<Node>,
    id: TaskId,
    keyed: bool,
}

impl CallHandle {
    /// The task behind the call.
    pub fn id(&self) -> &TaskId {
        &self.id
    }

    /// Cancels the call in the background because its client left, unless the client can come back for it.
    pub fn leave(&self) {
        if !self.keyed {
            self.abandon();
        }
    }

    /// Keeps the call until `until` for its client, which was asked something and may come back to any node. Returns whether the call can still be
    /// continued: it has not ended, was not asked to stop, and has not become a task.
    ///
    /// # Errors
    /// The store's.
    pub async fn await_retry(&self, until: UnixMillis) -> Result<bool, StoreError> {
        let event = Event::RetryAwaited { until };
        match self.node.commit(Change::of(&self.id, event, self.node.now())).await {
            Ok(_) => Ok(true),
            // Another request has asked for a later time.
            Err(ApplyError::Illegal(illegal)) if illegal.reason == Reason::TooEarly => Ok(true),
            Err(ApplyError::Store(error)) => Err(error),
            Err(_) => Ok(false),
        }
    }

    /// Cancels the call in the background because its client left, unless the client can come back for it, or a request that came later keeps it
    /// beyond `until`.
    pub fn leave_round(&self, until: UnixMillis) {
        if !self.keyed {
            self.node.cancel_round_soon(self.id.clone(), until);
        }
    }

    /// Cancels the call in the background.
    pub fn abandon(&self) {
        self.node.cancel_soon(self.id.clone(), CancelMode::AtOnce);
    }
}

/// The state of a plain call.
#[derive(Debug)]
pub enum PlainCallState {
    /// The call runs; something about it changed.
    Changed(Box<Record>),
    /// It ended.
    Ended(Outcome),
}

impl PlainCall {
    pub(crate) fn on(node: &Arc<Node>, id: &TaskId) -> Self {
        Self {
            node: Arc::clone(node),
            id: id.clone(),
            watch: node.change_feed.watch(id),
            progress: node.progress_streams.subscribe(id),
            keyed: false,
            in_memory: false,
            unread: true,
            attempt: None,
        }
    }

    /// Lets the attempt run in a tokio task of its own from now on.
    fn hand_over(&mut self) {
        if let Some(attempt) = self.attempt.take() {
            self.node.ports.spawner.spawn(attempt);
        }
    }

    /// The task behind the call. Its id must not be given to clients unless the call is promoted.
    pub fn id(&self) -> &TaskId {
        &self.id
    }

    /// Whether the call should be [read](Self::read) before anything is waited for: it may have changed before this wait began.
    pub fn is_unread(&self) -> bool {
        self.unread
    }

    /// Whether its caller can come back for it by an idempotency key, or by the same call of a unique tool.
    pub fn is_keyed(&self) -> bool {
        self.keyed
    }

    /// A handle that can cancel the call.
    pub fn handle(&self) -> CallHandle {
        CallHandle {
            node: Arc::clone(&self.node),
            id: self.id.clone(),
            keyed: self.keyed,
        }
    }

    /// Waits for the end, and passes each change to `changed`.
    ///
    /// # Errors
    /// The store's; the call continues.
    pub async fn ended(&mut self, mut changed: impl FnMut(&Task)) -> Result<Outcome, StoreError> {
        loop {
            match self.read().await? {
                PlainCallState::Ended(outcome) => return Ok(outcome),
                PlainCallState::Changed(record) => changed(&record.task),
            }
            self.changed().await;
        }
    }

    /// The present state of the call.
    ///
    /// # Errors
    /// The store's.
    pub async fn read(&mut self) -> Result<PlainCallState, StoreError> {
        self.unread = false;
        if let Some(outcome) = self.watch.ended().and_then(|record| record.outcome.clone()) {
            return Ok(PlainCallState::Ended(outcome));
        }
        let record = self.node.store.get_unscoped(&self.id).await?;
        // It may have ended since.
        if let Some(outcome) = self.watch.ended().and_then(|record| record.outcome.clone()) {
            return Ok(PlainCallState::Ended(outcome));
        }
        let record = record.ok_or_else(|| StoreError::Failed("a call that is waited for has vanished".to_owned()))?;
        Ok(match record.outcome {
            Some(outcome) => PlainCallState::Ended(outcome),
            None => {
                // The store has written it with the end of its attempt, which did not begin.
                let is_queued_again = record.task.state == State::Queued && record.task.attempt.is_some();
                self.in_memory &= !is_queued_again;
                // Whoever is asked may be slow, and an attempt that is over does not run here any more.
                if is_queued_again || !record.inputs.is_empty() {
                    self.hand_over();
                }
                PlainCallState::Changed(Box::new(record))
            }
        })
    }

    /// Whether only the node that accepted it can run it, as long as it is no task.
    pub fn is_in_memory(&self) -> bool {
        self.in_memory
    }

    /// Whether its attempt runs in the tokio task that waits for it, so that it makes progress only while that polls this.
    pub fn runs_here(&self) -> bool {
        self.attempt.is_some()
    }

    /// Whether the call has begun, has ended, or is a task.
    ///
    /// # Errors
    /// The store's.
    pub async fn has_begun(&mut self) -> Result<bool, StoreError> {
        let record = self.node.store.get_unscoped(&self.id).await?;
        let has_not_begun = |task: &Task| task.state == State::Queued && task.attempts_used == 0 && !task.announced;
        Ok(!record.is_some_and(|record| has_not_begun(&record.task)))
    }

    /// Cancels the call if it has not begun and is no task. Returns whether it was cancelled.
    ///
    /// # Errors
    /// The store's; the call is as it was.
    pub async fn withdraw(&mut self) -> Result<bool, StoreError> {
        if self.has_begun().await? {
            return Ok(false);
        }
        // Refused if it has begun meanwhile.
        let event = Event::Abandoned(Outcome::Cancelled);
        match self.node.commit(Change::of(&self.id, event, self.node.now())).await {
            Ok(_) => Ok(true),
            Err(ApplyError::Store(error)) => Err(error),
            Err(_) => Ok(false),
        }
    }

    /// Completes when there is something new to [`read`](Self::read).
    pub async fn changed(&mut self) {
        let Self { watch, attempt, .. } = self;
        with_attempt(attempt, watch.changed()).await;
    }

    /// Completes with the next message of the work, or with `None` when there is a new state to [`read`](Self::read).
    pub async fn next_message(&mut self) -> Option<ToolMessage> {
        let Self {
            watch,
            progress,
            attempt,
            ..
        } = self;
        let event = async {
            tokio::select! {
                biased;
                message = progress.next() => Some(message),
                () = watch.changed() => None,
            }
        };
        let message = with_attempt(attempt, event).await;
        self.hand_over_if_any(message)
    }

    /// The next message of the work, if there is one already.
    pub fn try_next_message(&mut self) -> Option<ToolMessage> {
        let message = self.progress.try_next();
        self.hand_over_if_any(message)
    }

    /// A client that is slow to take a message must not slow the attempt.
    fn hand_over_if_any(&mut self, message: Option<ToolMessage>) -> Option<ToolMessage> {
        if message.is_some() {
            self.hand_over();
        }
        message
    }

    /// Makes the call a task, whose id may then be given to clients, unless it has ended.
    ///
    /// # Errors
    /// The store's; the call is as it was.
    pub async fn promote(&mut self) -> Result<Promotion, StoreError> {
        self.hand_over();
        let at = self.node.now();
        match self.node.commit(Change::of(&self.id, Event::Promoted, at)).await {
            Ok(task) if !task.is_done() => Ok(Promotion::Task(Box::new(task))),
            Err(ApplyError::Store(error)) => Err(error),
            // Over, or about to be, or a task already for someone who made the same call.
            Ok(_) | Err(_) => match self.read().await? {
                PlainCallState::Changed(record) if record.task.announced => Ok(Promotion::Task(Box::new(record.task))),
                _ => self.ended(|_| ()).await.map(Promotion::Ended),
            },
        }
    }
}

/// Waits for `event`, and runs the attempt meanwhile.
async fn with_attempt<T>(attempt: &mut Option<BoxFuture<'static, ()>>, news: impl Future<Output = T>) -> T {
    let mut news = std::pin::pin!(news);
    if let Some(running) = attempt {
        tokio::select! {
            biased;
            news = &mut news => return news,
            () = running => *attempt = None,
        }
    }
    news.await
}
