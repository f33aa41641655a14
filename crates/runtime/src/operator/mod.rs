//! What an operator does with the tasks of all principals, and with the pauses of tools and nodes.

mod reset;

use crate::{
    Call, DeleteError, Engine,
    attempt::recovery,
    catalog::Tool,
    engine::Inner,
    question::Requestor,
    queue::paused_tools::{cordon_key, drain_key, node_of, upstream_key},
};
use longhaul_core::{
    AnsweredBy, CancelMode, Clock as _, EntryKey, Event, InputKey, InputState, Json, Millis, NodeId, State, Task,
    TaskId, UnixMillis, Verdict,
    store::{
        ApplyError, Change, CreateError, Created, EventDelivery, GiveUpError, LeaseStatus, NodeStatus, Record,
        StoreError,
    },
    whole_millis,
};
use std::{collections::BTreeSet, sync::Arc, time::Duration};
use tracing::warn;

/// Each reading of a queued task asks whether anybody runs it, so the answer counts for so long: about as long as a lease is not renewed.
const WORKER_KNOWN_FOR: Duration = Duration::from_secs(3);
/// What the idempotency keys of retries begin with; the id of the task is behind it.
const RETRY_KEY: &str = "dev.longhaul/retry-of/";

/// The task that an action has made. It does not join a live task that it has not made.
fn made(created: Created) -> Result<Task, OperatorError> {
    match created {
        Created::New(task) | Created::Existing(task) => Ok(task),
        Created::Joined(live) => Err(CreateError::NotUnique {
            live: Some(live.id.clone()),
        }
        .into()),
    }
}

fn retry_key(of: &TaskId) -> String {
    format!("{RETRY_KEY}{of}")
}

/// An action of an operator that was not done.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum OperatorError {
    /// No task has the id.
    #[error("task not found")]
    NotFound,
    /// The task is not in a state for it. The text says what is in the way.
    #[error("{0}")]
    NotNow(&'static str),
    /// The journal has no such entry.
    #[error("the journal has no entry {before}: there are {entries}")]
    NoEntry {
        /// The position that was named.
        before: u32,
        /// How many entries there are.
        entries: u32,
    },
    /// An entry that would be kept has no result, and nobody would give it to the new task.
    #[error("entry {position}, {entry}, has no result that the new task could go on with: reset the task to before it")]
    Unsettled {
        /// Its position.
        position: u32,
        /// What it is about.
        entry: EntryKey,
    },
    /// The task was reset already, to before another entry.
    #[error("the task was reset already, to before entry {before}: it goes on as {task}; reset that one")]
    ResetBefore {
        /// The task that was made of it.
        task: TaskId,
        /// The entry.
        before: u32,
    },
    /// The task is not retried, since it goes on as another one by a reset.
    #[error("the task was reset: it goes on as {task}; retry that one, if it fails")]
    WasReset {
        /// The task that the reset has made of it.
        task: TaskId,
    },
    /// The task was not made again.
    #[error(transparent)]
    Create(#[from] CreateError),
    /// The task was not deleted.
    #[error(transparent)]
    Delete(DeleteError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a node begins nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cordon {
    /// An operator has [cordoned](Engine::set_cordoned) it.
    Cordoned,
    /// It [drains](Engine::drain), and stops then.
    Drains,
}

/// A node was not cordoned.
#[derive(Debug, thiserror::Error)]
pub enum CordonError {
    /// No node that lives has the number.
    #[error("no server that lives has this number: `longhaul nodes FILE` lists them")]
    NotAlive,
    /// It is a front.
    #[error("this server is a front: it runs no tasks in any case")]
    RunsNoTasks,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Reads which tools are paused. Queues of tools whose pause has ended are looked at again.
pub(crate) async fn read_paused(inner: &Inner) -> Result<(), StoreError> {
    let tools = inner.node.store.paused().await?;
    let began_work = inner.begins_work();
    inner.paused.set(tools.into_iter().collect());
    // Nodes may have been cordoned.
    *inner.known_worker.lock() = None;
    if began_work != inner.begins_work() {
        inner.node.slots.report_permits();
    }
    inner.node.queues.look_again();
    Ok(())
}

/// Removes the cordons of nodes that are dead. They count for nobody, so an error is as good as none.
pub(crate) async fn forget_cordons(inner: &Inner) {
    let store = &inner.node.store;
    // Read before the nodes: one that is cordoned meanwhile is not among them.
    let (Ok(paused), Ok(nodes)) = (store.paused().await, Engine::nodes_of(inner).await) else {
        return;
    };
    let lives = |of| {
        let found = nodes.iter().find(|node| node.node == of);
        found.is_some_and(|node| !matches!(node.lease, LeaseStatus::Lost { .. }))
    };
    for name in paused {
        if node_of(&name).is_some_and(|of| !lives(of)) {
            let _ = store.set_paused(&name, false).await;
        }
    }
}

impl Engine {
    pub(crate) async fn any_task(&self, id: &TaskId) -> Result<Record, OperatorError> {
        let record = self.0.node.store.get_unscoped(id).await?;
        record.ok_or(OperatorError::NotFound)
    }

    /// Asks the work of any task or plain call to stop. One that is not running ends at once.
    ///
    /// # Errors
    /// [`OperatorError`]; [`OperatorError::NotNow`] if it is over.
    pub async fn cancel_any(&self, id: &TaskId) -> Result<Task, OperatorError> {
        match self.0.node.request_cancel(id, CancelMode::Cooperative).await {
            Ok(task) => Ok(task),
            Err(ApplyError::NotFound) => Err(OperatorError::NotFound),
            Err(ApplyError::Store(error)) => Err(error.into()),
            Err(ApplyError::Illegal(_) | ApplyError::Stale) => Err(OperatorError::NotNow("the task is over")),
        }
    }

    /// Answers a question of any task. The caller has checked that the answer fits.
    ///
    /// # Errors
    /// [`OperatorError`]; [`OperatorError::NotNow`] if the question is not open, or not any more.
    pub async fn answer_any(&self, id: &TaskId, key: InputKey, answer: Json) -> Result<(), OperatorError> {
        const CLOSED: OperatorError = OperatorError::NotNow("the task does not ask this, or not any more");
        if !self.any_task(id).await?.task.open_inputs.contains(&key) {
            return Err(CLOSED);
        }
        self.answer_question(id, key.clone(), answer.clone(), AnsweredBy::Operator)
            .await?;
        // Whoever answers first counts.
        let kept = self.0.node.store.input(id, &key).await?;
        match kept.map(|input| (input.state, input.answered_by)) {
            Some((InputState::Answered(kept), Some(AnsweredBy::Operator))) if kept == answer => Ok(()),
            _ => Err(CLOSED),
        }
    }

    /// Moves a queued task to the front of its tool's queue, before those that are ready earlier. One that waits until it is tried again need not wait any
    /// more. Its queue timeout counts anew.
    ///
    /// # Errors
    /// [`OperatorError`]; [`OperatorError::NotNow`] if it is not queued.
    pub async fn raise_any(&self, id: &TaskId) -> Result<(), OperatorError> {
        let node = &self.0.node;
        let task = self.any_task(id).await?.task;
        let at = node.now();
        let first = node.store.next_ready(&task.tool, at).await?;
        let ready_at = first.map_or(at, |first| UnixMillis(first.ready_at.0.saturating_sub(1)).min(at));
        match node.commit(Change::of(id, Event::Raised { ready_at }, at)).await {
            Ok(_) => Ok(()),
            Err(ApplyError::NotFound) => Err(OperatorError::NotFound),
            Err(ApplyError::Store(error)) => Err(error.into()),
            Err(ApplyError::Illegal(_) | ApplyError::Stale) => Err(OperatorError::NotNow("the task is not queued")),
        }
    }

    /// Retries a blocked task now.
    ///
    /// # Errors
    /// [`OperatorError`]; [`OperatorError::NotNow`] if it is not blocked.
    pub async fn release_any(&self, id: &TaskId) -> Result<(), OperatorError> {
        self.any_task(id).await?;
        match self.unblock(id).await? {
            true => Ok(()),
            false => Err(OperatorError::NotNow("the task is not blocked")),
        }
    }

    /// Makes a task that has ended without success again: a new task of the same principal and session, with the same arguments, under the tool as it is
    /// offered now. Its [`Requestor::retry_of`] names the old one, which stays as it is.
    /// A task is retried once: doing it again returns the task of the first time, as long as that is kept.
    ///
    /// # Errors
    /// [`OperatorError`]; [`OperatorError::NotNow`] if it has not ended, has succeeded, was started by a task, or if its tool is not offered;
    /// [`CreateError::NotUnique`] if a task with its unique value is live;
    /// [`OperatorError::WasReset`] if it goes on as another task.
    pub async fn retry_any(&self, id: &TaskId) -> Result<Task, OperatorError> {
        let task = self.any_task(id).await?.task;
        match task.state {
            State::Done(Verdict::Succeeded) => return Err(OperatorError::NotNow("the task has succeeded")),
            State::Done(_) => {}
            _ => return Err(OperatorError::NotNow("the task has not ended")),
        }
        if task.lineage.is_some() {
            return Err(OperatorError::NotNow(
                "the task was started by another one, which has its outcome: retry that one",
            ));
        }
        let offered = self.0.catalog.tool(&task.tool);
        let tool = offered.ok_or(OperatorError::NotNow("its tool is not offered any more"))?;
        let store = &self.0.node.store;
        let arguments = store.arguments(id).await?.ok_or(OperatorError::NotFound)?;
        if let Some(task) = self.find_reset(&task, &arguments).await? {
            return Err(OperatorError::WasReset { task });
        }
        let arguments = self.clear_arguments(&tool, id, arguments)?;
        let requestor = store.requestor(id).await?.ok_or(OperatorError::NotFound)?;
        let requestor = Requestor {
            retry_of: Some(id.to_string()),
            // Nobody waits for the progress of the new one.
            progress_token: None,
            ..Requestor::from_json(&requestor)
        };
        let call = Call {
            tool,
            arguments,
            owner: task.owner.clone(),
            origin: task.origin,
            requestor: Arc::new(requestor),
            // Made again, because its answer was lost, it gets the task of the first time.
            idempotency_key: Some(retry_key(id).into()),
            ttl: None,
            priority: None,
            cancel_if_caller_leaves: false,
        };
        let new = self.0.new_task(&call, true);
        let created = self.0.submit(new, call.requestor, false).await?;
        made(created)
    }

    /// The task that a [retry](Self::retry_any) has made of this one, if that is kept. `arguments` are those of the task.
    ///
    /// # Errors
    /// The store's.
    pub async fn find_retry(&self, task: &Task, arguments: &Json) -> Result<Option<TaskId>, StoreError> {
        let key = retry_key(&task.id);
        let retry = (self.0)
            .find_keyed(&task.owner.principal, &task.tool, &key, arguments)
            .await?;
        Ok(retry.map(|retry| retry.id.clone()))
    }

    /// The arguments that a new task of `tool` has from the task `id`.
    fn clear_arguments(&self, tool: &Tool, id: &TaskId, arguments: Json) -> Result<Json, OperatorError> {
        let (arguments, secrets) = (self.0.decrypt_secrets(id, arguments)).map_err(|error| {
            warn!(%error, task = id.short(), "a task cannot be made again");
            OperatorError::NotNow(
                "a secret argument of it cannot be decrypted: the server's key file does not have its key",
            )
        })?;
        match secrets.is_subset(&tool.settings().secrets) {
            true => Ok(arguments),
            false => Err(OperatorError::NotNow(
                "an argument of it was secret, and is not in its tool as it is offered now: call the tool again",
            )),
        }
    }

    /// Deletes any finished task, as its owner [may](Self::delete).
    ///
    /// # Errors
    /// [`OperatorError`].
    pub async fn delete_any(&self, id: &TaskId) -> Result<(), OperatorError> {
        let task = self.any_task(id).await?.task;
        // One with an idempotency key is kept as a task is.
        if !task.announced && !task.keyed {
            return Err(OperatorError::NotNow(
                "a plain call without an idempotency key is deleted by itself a minute after its end",
            ));
        }
        self.delete_task(task).await.map_err(|error| match error {
            DeleteError::NotFound => OperatorError::NotFound,
            error => OperatorError::Delete(error),
        })
    }

    /// Pauses a tool, or ends its pause: while it is paused, nothing of it begins, on any node that shares the store. Calls and tasks wait in its queue, and
    /// their queue timeouts count. What runs runs on. Other nodes learn of it at once, or within half a minute if the event is lost.
    ///
    /// # Errors
    /// The store's.
    pub async fn set_paused(&self, tool: &str, paused: bool) -> Result<(), StoreError> {
        self.0.node.store.set_paused(tool, paused).await?;
        read_paused(&self.0).await
    }

    /// Whether any node lives that begins work: this one, or another one with a lease. Without one calls are accepted, and wait.
    ///
    /// # Errors
    /// The store's.
    pub async fn has_worker(&self) -> Result<bool, StoreError> {
        if self.0.begins_work() {
            return Ok(true);
        }
        let now = self.0.clock.monotonic();
        if let Some((known, until)) = *self.0.known_worker.lock()
            && now < until
        {
            return Ok(known);
        }
        let nodes = self.nodes().await?;
        let begins_work = |node: &NodeStatus| node.role.runs_tasks() && self.cordon(node.node).is_none();
        let found = nodes.iter().any(|node| node.lease.is_live() && begins_work(node));
        *self.0.known_worker.lock() = Some((found, now + WORKER_KNOWN_FOR));
        Ok(found)
    }

    /// The nodes that share the store: those that live, and those that are dead and still hold attempts.
    ///
    /// # Errors
    /// The store's.
    pub async fn nodes(&self) -> Result<Vec<NodeStatus>, StoreError> {
        Self::nodes_of(&self.0).await
    }

    async fn nodes_of(inner: &Inner) -> Result<Vec<NodeStatus>, StoreError> {
        let node = &inner.node;
        if node.store.capabilities().many_nodes {
            return node.store.nodes().await;
        }
        Ok(vec![NodeStatus {
            node: node.id,
            host: node.registered.host.clone(),
            name: Arc::clone(&node.registered.name),
            address: node.registered.address.clone(),
            role: node.registered.role,
            opened_at: node.opened_at,
            lease: LeaseStatus::Unlimited,
            delivery: EventDelivery::default(),
            attempts: node.active.len() as u64,
            bound_attempts: 0,
        }])
    }

    /// Cordons a node, or ends that: as long as it is cordoned, it begins nothing, and gives its permits to others. What runs there runs on, and what is called
    /// there is queued. Another process on the same host is another node.
    ///
    /// # Errors
    /// [`CordonError`]; nothing was changed then.
    pub async fn set_cordoned(&self, node: NodeId, cordoned: bool) -> Result<(), CordonError> {
        let nodes = self.nodes().await?;
        let found = nodes.iter().find(|one| one.node == node && one.lease.is_live());
        if !found.ok_or(CordonError::NotAlive)?.role.runs_tasks() {
            return Err(CordonError::RunsNoTasks);
        }
        Ok(self.set_paused(&cordon_key(node), cordoned).await?)
    }

    /// Why a node begins nothing, as this one knows.
    pub fn cordon(&self, node: NodeId) -> Option<Cordon> {
        let paused = &self.0.paused;
        match paused.contains(&drain_key(node)) || (node == self.node_id() && self.is_draining()) {
            true => Some(Cordon::Drains),
            false => paused.contains(&cordon_key(node)).then_some(Cordon::Cordoned),
        }
    }

    /// Gives up the host of a dead node, without waiting for [`lost_after`](Self::lost_after): what is bound to it ends as lost with it, or is retried. Its
    /// commands may still run there.
    ///
    /// # Errors
    /// [`GiveUpError`]; nothing was changed then.
    pub async fn give_up_host(&self, node: NodeId) -> Result<(), GiveUpError> {
        if !self.0.node.store.capabilities().many_nodes {
            return Err(GiveUpError::UnknownNode);
        }
        self.0.node.store.give_up_host(node).await?;
        recovery::take_over_if_any(&self.0).await;
        Ok(())
    }

    /// The node that this engine is.
    pub fn node_id(&self) -> NodeId {
        self.0.node.id
    }

    /// For how long this node has not renewed its lease, in milliseconds; `None` where it has none that ends.
    pub fn lease_age(&self) -> Option<Millis> {
        let now = self.0.clock.monotonic();
        let renewed = (*self.0.lease_renewed.lock())?;
        Some(whole_millis(now.saturating_sub(renewed)))
    }

    /// For how long a host may be without a node before its attempts are given up, in milliseconds.
    pub fn lost_after(&self) -> Millis {
        self.0.lost_after
    }

    /// Does as [`set_paused`](Self::set_paused) with all tools of an [upstream](crate::Executor::upstream), also those that it has only later. Pauses of single tools stay.
    ///
    /// # Errors
    /// The store's.
    pub async fn set_upstream_paused(&self, upstream: &str, paused: bool) -> Result<(), StoreError> {
        self.set_paused(&upstream_key(upstream), paused).await
    }

    /// Whether a tool is paused, by itself or with its upstream, as this node knows.
    pub fn is_paused(&self, tool: &str) -> bool {
        self.0.is_paused(tool)
    }

    /// The [upstream](crate::Executor::upstream) of a tool that is offered, or was, or has live tasks.
    ///
    /// # Errors
    /// The store's.
    pub async fn upstream_of(&self, tool: &Arc<str>) -> Result<Option<Arc<str>>, StoreError> {
        self.0.learn_upstream(tool).await?;
        Ok(self.0.upstream_of(tool))
    }

    /// The names of all tools that an [upstream](crate::Executor::upstream) has: those that are offered, those that were since the start of this process, and those
    /// that have live tasks.
    ///
    /// # Errors
    /// The store's.
    pub async fn tools_of(&self, upstream: &str) -> Result<Vec<Arc<str>>, StoreError> {
        let offered = self.catalog().snapshot();
        let mut names: BTreeSet<Arc<str>> = offered.tools.keys().cloned().collect();
        names.extend(self.store().live_tasks().await?.into_iter().map(|group| group.tool));
        let mut found = BTreeSet::new();
        for name in names {
            if self.upstream_of(&name).await?.as_deref() == Some(upstream) {
                found.insert(name);
            }
        }
        found.extend(self.0.former_tools(upstream));
        Ok(found.into_iter().collect())
    }

    /// Whether an upstream is paused, as this node knows.
    pub fn is_upstream_paused(&self, upstream: &str) -> bool {
        self.0.paused.contains(&upstream_key(upstream))
    }
}
