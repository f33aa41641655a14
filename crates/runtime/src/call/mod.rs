//! Calls, from their creation to their deletion: here create, rejoin, cancel.

mod answer;
mod deletion;
mod history;
mod plain_call;
mod queue_wait;
pub(crate) mod retention;
pub(crate) mod schedules;
pub(crate) mod withdrawn_questions;

pub use answer::QuestionLookup;
pub use deletion::DeleteError;
pub use history::{EntrySummary, JournalPage};
pub use plain_call::{CallHandle, PlainCall, PlainCallState, Promotion};
pub use queue_wait::QueueWait;
pub use schedules::{ScheduleStatus, TriggerError};

use crate::{
    attempt::{self, Work},
    catalog::Tool,
    context::{ChildRefusal, ContextEngine, TaskContext},
    engine::{
        Engine, Inner,
        secret_arguments::{digest, named_by_schema},
    },
    node::{AttemptOrigin, Node, task_log},
    question::Requestor,
    queue::{queues::Arrival, slots::Slot},
};
use longhaul_core::{
    BoxFuture, CancelMode, ClientCapabilities, Event, Json, Labels, Millis, Origin, Outcome, Owner, Principal,
    Priority, Scope, Task, TaskHeader, TaskId,
    store::{ApplyError, Change, CreateError, Created, Idempotency, NewTask, StoreError},
};
use std::sync::Arc;

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
    /// What is known about the caller.
    pub requestor: Arc<Requestor>,
    /// The caller's name for the call, unique with principal and tool while its task is kept. A call made again under it gets the
    /// task of the first.
    pub idempotency_key: Option<Arc<str>>,
    /// The retention that the client asks for, in milliseconds: see [`ToolSettings::retention_for`](crate::ToolSettings::retention_for).
    pub ttl: Option<Millis>,
    /// The priority that the caller asks for: no more than [that of its tool](crate::ToolSettings::priority), which it has if the caller asks for none.
    pub priority: Option<Priority>,
    /// Whether the call is cancelled if its caller leaves before the creation is acknowledged. It is not if its caller
    /// [can come back](Self::can_be_made_again).
    pub cancel_if_caller_leaves: bool,
}

impl Call {
    /// Whether its caller can make it again and gets the same task. Then it is kept without its caller.
    pub fn can_be_made_again(&self) -> bool {
        self.idempotency_key.is_some() || self.tool.settings().unique.is_some()
    }
}

/// A task cannot be cancelled.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CancelError {
    /// Unknown or foreign.
    #[error("task not found")]
    NotFound,
    /// It is over: legacy refuses, modern acknowledges.
    #[error("the task is over")]
    Done(Box<Task>),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Engine {
    /// Makes a task of a call. When this completes the task is written, and its id may be given to clients (invariant 1). The same call
    /// under the same idempotency key gets the task that it made the first time, as it now is; if the first was only waited for, it is
    /// a task from now on, also when it is over. So does the same call of a [unique](crate::ToolSettings::unique) tool while that task is live.
    ///
    /// # Errors
    /// [`CreateError`]; nothing was started then. The live task of [`CreateError::NotUnique`] may be given to its owner's clients.
    /// [`StoreError::Closed`] also if the engine stops meanwhile: the task may then have been written.
    pub async fn create(&self, call: Call) -> Result<Task, CreateError> {
        let new = self.0.new_task(&call, true);
        let created = self.0.submit(new, call.requestor, call.cancel_if_caller_leaves).await;
        let created = self.0.with_same_secrets(created, &call.tool, &call.arguments).await;
        Ok(self.0.announced(self.0.with_live_announced(created).await?).await?)
    }

    /// Creates a task that has ended already: a legacy call with bad arguments gets a failed task.
    ///
    /// # Errors
    /// [`CreateError`].
    pub async fn create_ended(&self, call: Call, outcome: Outcome) -> Result<Task, CreateError> {
        let mut call = call;
        let settings = call.tool.settings();
        if !settings.secrets.is_empty() {
            call.arguments = named_by_schema(&call.arguments, &settings.input_schema);
        }
        let mut new = self.0.new_task(&call, true);
        new.outcome = Some(outcome);
        // It is never live, and its arguments were not taken.
        (new.unique, new.confirmation) = (None, None);
        new.header.group = None;
        let created = self.0.node.create_until_known(new).await;
        let created = (self.0).with_same_secrets(created, &call.tool, &call.arguments).await?;
        if let Created::New(task) = &created {
            task_log::created(task);
            task_log::ended_if_done(task);
        }
        Ok(self.0.announced(created).await?)
    }

    /// Starts a plain call. It is written before it starts, but its id is not given to clients. The same call under the same idempotency key starts
    /// nothing, and waits for the result of the first; so does the same call of a [unique](crate::ToolSettings::unique) tool while the first is live.
    ///
    /// # Errors
    /// As for [`create`](Self::create).
    pub async fn begin(&self, call: Call) -> Result<PlainCall, CreateError> {
        let new = self.0.new_task(&call, false);
        if new.in_memory && self.0.node.store.capabilities().plain_calls_in_memory {
            return self.0.begin_in_memory(new, call.requestor).await;
        }
        let is_keyed = call.can_be_made_again();
        // Subscribed before the start, so that no message is missed.
        let mut waiting = PlainCall::on(&self.0.node, &new.id);
        let submitted = (self.0).submit(new, call.requestor, call.cancel_if_caller_leaves);
        let submitted = (self.0)
            .with_same_secrets(submitted.await, &call.tool, &call.arguments)
            .await;
        if let Created::Existing(task) | Created::Joined(task) = self.0.with_live_announced(submitted).await? {
            waiting = PlainCall::on(&self.0.node, &task.id);
        }
        waiting.keyed = is_keyed;
        Ok(waiting)
    }

    /// The task of a call that was made before under the idempotency key `key` with the same arguments, also if its tool has changed or is gone. A
    /// call made again gets this task.
    ///
    /// # Errors
    /// The store's.
    pub async fn find_repeated(
        &self,
        principal: &Principal,
        tool: &str,
        key: &str,
        arguments: &Json,
    ) -> Result<Option<Task>, StoreError> {
        match self.0.find_keyed(principal, tool, key, arguments).await? {
            Some(task) if self.0.has_same_secrets(&task.id, arguments).await? => Ok(Some(task)),
            _ => Ok(None),
        }
    }

    /// Cancels the call that was made under the idempotency key `key`, or its task: a call at once, a task in `mode`. Returns it as it then is, also if
    /// it had ended before; `None` if no call is known under the key. The request is written when this completes.
    ///
    /// # Errors
    /// The store's.
    pub async fn cancel_keyed(
        &self,
        principal: &Principal,
        tool: &str,
        key: &str,
        mode: CancelMode,
    ) -> Result<Option<Task>, StoreError> {
        let store = &self.0.node.store;
        let Some(task) = store.find_by_idempotency_key(principal, tool, key, None).await? else {
            return Ok(None);
        };
        let mode = match task.announced {
            true => mode,
            false => CancelMode::AtOnce,
        };
        match self.0.node.request_cancel(&task.id, mode).await {
            Ok(task) => Ok(Some(task)),
            Err(ApplyError::Store(error)) => Err(error),
            Err(ApplyError::NotFound) => Ok(None),
            Err(ApplyError::Illegal(_) | ApplyError::Stale) => {
                Ok(store.get_unscoped(&task.id).await?.map(|record| record.task))
            }
        }
    }

    /// Makes a task of a call that was [found](Self::find_repeated): its id may be given to clients when this completes.
    ///
    /// # Errors
    /// The store's.
    pub async fn announce(&self, task: Task) -> Result<Task, StoreError> {
        self.0.announced(Created::Existing(task)).await
    }

    /// Waits again for a call that was [started](Self::begin); `None` if it was deleted. The caller has checked who owns it.
    ///
    /// # Errors
    /// The store's.
    pub async fn rejoin(&self, id: &TaskId) -> Result<Option<PlainCall>, StoreError> {
        let mut waiting = PlainCall::on(&self.0.node, id);
        let record = self.0.node.store.get_unscoped(id).await?;
        let record = record.filter(|record| record.outcome != Some(Outcome::Cancelled));
        Ok(record.map(|record| {
            waiting.keyed = record.task.keyed;
            waiting
        }))
    }

    /// Cancels a task of `scope`: at once or by asking its work to stop. The request is written when this completes.
    ///
    /// # Errors
    /// [`CancelError`].
    pub async fn cancel(&self, scope: &Scope, id: &TaskId, mode: CancelMode) -> Result<Task, CancelError> {
        let record = self.0.node.store.get(scope, id).await?.ok_or(CancelError::NotFound)?;
        match self.0.node.request_cancel(id, mode).await {
            Ok(task) => Ok(task),
            Err(ApplyError::Store(error)) => Err(error.into()),
            Err(ApplyError::NotFound) => Err(CancelError::NotFound),
            Err(ApplyError::Illegal(_) | ApplyError::Stale) => {
                let record = self.0.node.store.get(scope, id).await?.unwrap_or(record);
                Err(CancelError::Done(Box::new(record.task)))
            }
        }
    }
}

impl Inner {
    /// Begins a call that the store keeps in memory. Once it is created, it is returned without waiting for anything.
    ///
    /// An attempt that can begin at once runs in the task that waits for it: handing it to another thread, and its outcome back, would cost
    /// more than most calls.
    fn begin_in_memory(
        self: &Arc<Self>,
        mut new: NewTask,
        requestor: Arc<Requestor>,
    ) -> impl Future<Output = Result<PlainCall, CreateError>> {
        let mut waiting = PlainCall::on(&self.node, &new.id);
        let arrival = self.arrive(&mut new);
        let arguments = new.arguments.clone();
        let guard = self.node.active.guard_claim_in_memory();
        // Called before the future is made, so that it does not hold the new task, which is large.
        let created = self.node.store.create(new);
        async move {
            let task = created.await?.into_task();
            waiting.watch.mark_seen();
            waiting.unread = false;
            waiting.in_memory = true;
            if let Some(slot) = self.created(&task, arrival) {
                let work = Work {
                    task,
                    arguments,
                    requestor,
                };
                let attempt = attempt::drive(Arc::clone(self), work, slot, AttemptOrigin::Claimed, guard);
                waiting.attempt = Some(Box::pin(self.node.until_stopped(attempt)));
            }
            Ok(waiting)
        }
    }

    /// Acts on the creation of a task. Returns its slot if it was claimed with it; else it is queued.
    fn created(self: &Arc<Self>, task: &Task, arrival: Arrival) -> Option<Slot> {
        task_log::created(task);
        self.node.changed(task);
        match arrival {
            // A store may queue it all the same, if it knows of a pause that this node has not heard of.
            Arrival::Slot(slot) => task.active_attempt().is_some().then_some(slot),
            // Only now: the task is in its queue, and the queue is offered.
            Arrival::Queue(place) => {
                drop(place);
                None
            }
        }
    }

    /// A slot for a new task, which is claimed with it, or its place in the queue.
    fn arrive(&self, new: &mut NewTask) -> Arrival {
        let offered = self.catalog.tool(&new.tool);
        let concurrency = self.concurrency_of(&new.tool, offered.as_deref());
        let from_queue = offered.as_deref().is_some_and(Tool::begins_from_queue);
        let may_begin = new.confirmation.is_none() && !from_queue;
        let take_slot = || may_begin.then(|| self.slot_to_begin(&new.tool, concurrency)).flatten();
        let arrival = self.node.queues.arrive(&new.tool, new.created_at, take_slot);
        if matches!(arrival, Arrival::Slot(_)) {
            new.claim = Some((self.node.id, self.binding_of(offered.as_deref())));
        }
        arrival
    }

    pub(crate) fn new_task(&self, call: &Call, announced: bool) -> NewTask {
        let settings = call.tool.settings();
        let executor = &settings.executor;
        let keyed = call.can_be_made_again();
        let digest = keyed.then(|| digest(&call.arguments, &settings.secrets));
        // If nothing begins here, another node runs it.
        let is_for_others = !self.begins_work() && self.node.store.capabilities().many_nodes;
        let is_counted = call.tool.begins_from_queue();
        let in_memory = !announced && !keyed && !executor.outlives_process() && !is_for_others && !is_counted;
        let at = self.node.now();
        let id = TaskId::mint(at, &*self.node.ports.entropy);
        let confirmation = settings
            .confirm
            .as_ref()
            .map(|confirm| confirm.of_call(&call.arguments, at, settings.input_timeout));
        NewTask {
            arguments: self.encrypt_secrets(&settings.secrets, &id, &call.arguments),
            header: TaskHeader {
                id,
                owner: call.owner.clone(),
                tool: Arc::clone(&settings.name),
                spec: call.tool.spec().id.clone(),
                origin: call.origin,
                accepted_by: self.node.id,
                created_at: at,
                deadline: settings.deadline,
                queue_timeout: settings.queue_timeout,
                retention: settings.retention_for(call.ttl),
                lineage: None,
                labels: (settings.labels.as_ref()).map_or_else(Labels::default, |labels_of| labels_of(&call.arguments)),
                group: call.tool.group(&call.arguments),
            },
            announced,
            in_memory: in_memory && confirmation.is_none(),
            priority: call
                .priority
                .map_or(settings.priority, |asked| asked.min(settings.priority)),
            requestor: call.requestor.to_json(),
            claim: None,
            confirmation: confirmation.map(Box::new),
            outcome: None,
            idempotency: call
                .idempotency_key
                .as_ref()
                .zip(digest)
                .map(|(key, digest)| Idempotency {
                    key: Arc::clone(key),
                    digest,
                }),
            unique: digest.and_then(|digest| call.tool.uniqueness(&call.arguments, digest)),
            quota: self.quota,
            parent: None,
            history: None,
            replaces: None,
            schedule: None,
        }
    }

    /// Writes a task, claimed at once if a slot is free and no other task of the tool waits for one, and starts it.
    ///
    /// Boxed, since what it starts may submit children in its turn.
    pub(crate) fn submit(
        self: &Arc<Self>,
        mut new: NewTask,
        requestor: Arc<Requestor>,
        cancel_unread: bool,
    ) -> BoxFuture<'static, Result<Created, CreateError>> {
        let arrival = self.arrive(&mut new);
        // Spawned, because a claimed task must run even if this future is dropped between commit and start.
        let (tell, told) = tokio::sync::oneshot::channel();
        let inner = Arc::clone(self);
        self.node.spawn(async move {
            let arguments = new.arguments.clone();
            let guard = inner.node.active.guard_claim();
            let replaced = new.replaces.as_ref().map(|end| end.task.clone());
            let created = match inner.node.create_until_known(new).await {
                Ok(created) => created,
                Err(error) => return drop(tell.send(Err(error))),
            };
            // If the caller has left, this is dropped unread, here or in the channel.
            let _ = tell.send(Ok(Receipt {
                node: Arc::clone(&inner.node),
                created: Some(created.clone()),
                cancel_unread,
            }));
            // A repeated call runs already, or has ended.
            let Created::New(task) = created else { return };
            if let Some(replaced) = replaced {
                inner.node.was_replaced(replaced);
            }
            if let Some(slot) = inner.created(&task, arrival) {
                let work = Work {
                    task,
                    arguments,
                    requestor,
                };
                attempt::drive(inner, work, slot, AttemptOrigin::Claimed, guard).await;
            }
        });
        Box::pin(async move { told.await.unwrap_or(Err(StoreError::Closed.into()))?.read() })
    }

    /// A refusal names a live task only after that is announced (invariant 1).
    async fn with_live_announced(
        self: &Arc<Self>,
        created: Result<Created, CreateError>,
    ) -> Result<Created, CreateError> {
        if let Err(CreateError::NotUnique { live: Some(live) }) = &created
            && let Some(record) = self.node.store.get_unscoped(live).await?
        {
            self.announced(Created::Existing(record.task)).await?;
        }
        created
    }

    /// Announces the task of a call.
    async fn announced(self: &Arc<Self>, created: Created) -> Result<Task, StoreError> {
        let task = created.into_task();
        if task.announced {
            return Ok(task);
        }
        match self
            .node
            .commit(Change::of(&task.id, Event::Promoted, self.node.now()))
            .await
        {
            Ok(task) => Ok(task),
            Err(ApplyError::Store(error)) => Err(error),
            // Someone else who made the same call was quicker.
            Err(_) => {
                let record = self.node.store.get_unscoped(&task.id).await?;
                let record = record.ok_or_else(|| StoreError::Failed("a call made before has vanished".to_owned()))?;
                Ok(record.task)
            }
        }
    }
}

impl ContextEngine for Inner {
    fn may_begin(&self, task: &TaskHeader) -> bool {
        self.begins_work() && !self.is_paused(&task.tool)
    }

    fn is_withdrawn(&self, task: &TaskHeader) -> bool {
        task.lineage.is_none() && self.is_nobodys(&task.owner.principal)
    }

    fn new_child<'a>(
        &'a self,
        parent: &'a TaskContext,
        tool: &'a str,
        arguments: Json,
    ) -> BoxFuture<'a, Result<NewTask, ChildRefusal>> {
        Box::pin(async move {
            let tool = self.catalog.tool(tool).ok_or(ChildRefusal::UnknownTool)?;
            tool.check(&arguments)
                .await
                .map_err(|error| ChildRefusal::Arguments(error.0))?;
            let call = Call {
                tool,
                arguments,
                owner: parent.shared.header.owner.clone(),
                origin: parent.shared.header.origin,
                // The client knows the parent only, so a child can neither ask it nor report to it.
                requestor: Arc::new(Requestor {
                    capabilities: ClientCapabilities::default(),
                    progress_token: None,
                    asks_first: false,
                    retry_of: None,
                    reset_before: None,
                    ..Requestor::clone(&parent.shared.requestor)
                }),
                idempotency_key: None,
                ttl: None,
                priority: None,
                cancel_if_caller_leaves: false,
            };
            Ok(self.new_task(&call, true))
        })
    }

    fn start(self: Arc<Self>, child: NewTask) -> BoxFuture<'static, Result<Created, CreateError>> {
        let requestor = Requestor::from_json(&child.requestor);
        self.submit(child, requestor.into(), false)
    }
}

/// The acknowledgement of a creation. Dropped unread, it cancels the task if the call asks for that.
struct Receipt {
    node: Arc<Node>,
    created: Option<Created>,
    cancel_unread: bool,
}

impl Receipt {
    fn read(mut self) -> Result<Created, CreateError> {
        self.created.take().ok_or(StoreError::Closed.into())
    }
}

impl Drop for Receipt {
    fn drop(&mut self) {
        if let Some(Created::New(task)) = self.created.take()
            && self.cancel_unread
            && !task.keyed
        {
            self.node.cancel_soon(task.id.clone(), CancelMode::AtOnce);
        }
    }
}
