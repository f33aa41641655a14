//! Tasks of this client: a legacy server may ask for the answer to a sampling or elicitation request as a task, and then polls it here.

use longhaul_core::{
    AttemptEnd, CancelMode, Clock, Entropy, Event, Json, Millis, NodeId, Origin, Outcome, Owner, Principal, Quota,
    RpcFailure, SpecId, Task, TaskHeader, TaskId, UnixMillis, store::NewTask, transition,
};
use longhaul_wire::{legacy, relayed};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::{collections::BTreeMap, sync::Arc};
use tokio::{sync::watch, task::AbortHandle};

/// The tasks that are kept at once. More are refused.
const MAX_TASKS: usize = 64;
/// How long a task is kept if the server does not say, and at most.
const DEFAULT_TTL: Millis = 60 * 60_000;
const MAX_TTL: Millis = 24 * 60 * 60_000;

/// The process, as the core's tasks see it. There is only one.
const NODE: NodeId = NodeId(1);

/// The tasks that the server of one connection has asked for.
pub(crate) struct HostedTasks {
    clock: Arc<dyn Clock>,
    /// By id, so by the time of their creation.
    tasks: Mutex<BTreeMap<TaskId, HostedTask>>,
    /// Changes whenever a task has ended or was deleted.
    ended: watch::Sender<()>,
}

struct HostedTask {
    task: Task,
    outcome: Option<Outcome>,
    /// The handler.
    running: Option<AbortHandle>,
}

/// A task that was just created.
pub(crate) struct CreatedTask {
    pub(crate) id: TaskId,
    /// The result for the server.
    pub(crate) result: Json,
    /// When it ends at the latest.
    pub(crate) ttl: Millis,
}

struct SystemEntropy;

impl Entropy for SystemEntropy {
    #[expect(clippy::disallowed_methods, reason = "this is the Entropy port")]
    fn fill(&self, bytes: &mut [u8]) {
        // Only the server that asked for the task can name it, in its own session.
        if getrandom::fill(bytes).is_err() {
            fastrand::fill(bytes);
        }
    }
}

impl HostedTasks {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        let (tasks, ended) = (Mutex::default(), watch::Sender::new(()));
        Self { clock, tasks, ended }
    }

    /// Creates a task for a request. `params` is its `params`.
    ///
    /// # Errors
    /// −32603 if there are too many.
    pub(crate) fn create(&self, method: &str, params: &Value) -> Result<CreatedTask, RpcFailure> {
        let now = self.clock.now();
        let ttl = params["task"]["ttl"].as_u64().unwrap_or(DEFAULT_TTL).min(MAX_TTL);
        let id = TaskId::mint(now, &SystemEntropy);
        let new = NewTask {
            header: TaskHeader {
                id: id.clone(),
                owner: Owner {
                    principal: Principal::local(),
                    session: None,
                },
                tool: method.into(),
                spec: SpecId::named(method),
                origin: Origin::Legacy,
                accepted_by: NODE,
                created_at: now,
                queue_timeout: None,
                deadline: None,
                retention: ttl,
                lineage: None,
                labels: longhaul_core::Labels::default(),
                group: None,
            },
            announced: true,
            in_memory: true,
            priority: longhaul_core::Priority::default(),
            arguments: Json::from(Value::Null),
            requestor: Json::from(Value::Null),
            claim: Some((NODE, None)),
            confirmation: None,
            outcome: None,
            idempotency: None,
            unique: None,
            quota: Quota::default(),
            parent: None,
            history: None,
            replaces: None,
            schedule: None,
        };
        let (task, outcome) = new.task();
        let mut created = String::new();
        legacy::tasks::write_created(&mut created, &task, None, now);
        let mut tasks = self.live(now);
        if tasks.len() >= MAX_TASKS {
            return Err(failure(-32603, format!("This client has {MAX_TASKS} tasks already")));
        }
        let running = None;
        tasks.insert(id.clone(), HostedTask { task, outcome, running });
        let result = Json::trusted(created);
        Ok(CreatedTask { id, result, ttl })
    }

    /// The handler runs: it is aborted when the task is cancelled.
    pub(crate) fn started(&self, id: &TaskId, running: AbortHandle) {
        if let Some(hosted) = self.tasks.lock().get_mut(id).filter(|hosted| !hosted.task.is_done()) {
            hosted.running = Some(running);
        }
    }

    /// The handler has answered. A cancelled task stays cancelled.
    pub(crate) fn finish(&self, id: &TaskId, outcome: Outcome) {
        let now = self.clock.now();
        if let Some(hosted) = self.tasks.lock().get_mut(id) {
            hosted.apply(&Event::AttemptEnded(AttemptEnd::Finished(outcome)), now);
        }
        self.ended.send_replace(());
    }

    /// The result of `tasks/get`.
    pub(crate) fn get(&self, params: &Value) -> Result<Value, RpcFailure> {
        let now = self.clock.now();
        Ok(find(&mut self.live(now), params)?.show(now))
    }

    /// The result of `tasks/list`: all of them, on one page.
    pub(crate) fn list(&self, params: &Value) -> Result<Value, RpcFailure> {
        if params.get("cursor").is_some() {
            return Err(failure(-32602, "There is no such cursor".to_owned()));
        }
        let now = self.clock.now();
        let shown: Vec<_> = self.live(now).values().map(|hosted| hosted.show(now)).collect();
        Ok(json!({"tasks": shown}))
    }

    /// The result of `tasks/cancel`.
    pub(crate) fn cancel(&self, params: &Value) -> Result<Value, RpcFailure> {
        let now = self.clock.now();
        let shown = {
            let mut tasks = self.live(now);
            let hosted = find(&mut tasks, params)?;
            if !hosted.apply(&Event::CancelRequested(CancelMode::AtOnce), now) {
                return Err(failure(-32602, "Cannot cancel: the task has ended".to_owned()));
            }
            if let Some(running) = hosted.running.take() {
                running.abort();
            }
            hosted.show(now)
        };
        self.ended.send_replace(());
        Ok(shown)
    }

    /// The result of `tasks/result`: waits until there is one.
    pub(crate) async fn result(&self, params: &Value) -> Result<Json, RpcFailure> {
        let mut ended = self.ended.subscribe();
        loop {
            let outcome = {
                let now = self.clock.now();
                let mut tasks = self.live(now);
                let hosted = find(&mut tasks, params)?;
                hosted.outcome.clone().filter(|_| hosted.task.is_done())
            };
            match outcome {
                Some(Outcome::Result { json, .. }) => {
                    let related = json!({"taskId": params["taskId"]});
                    return Ok(relayed::related(&json, &related.to_string()));
                }
                Some(Outcome::RpcError(failure)) => return Err(failure),
                Some(Outcome::Cancelled) => return Err(failure(-32603, "The task was cancelled".to_owned())),
                None => {
                    // The sender lives as long as this.
                    let _ = ended.changed().await;
                }
            }
        }
    }

    /// The tasks whose time is not over; the others are deleted.
    fn live(&self, now: UnixMillis) -> parking_lot::MutexGuard<'_, BTreeMap<TaskId, HostedTask>> {
        let mut tasks = self.tasks.lock();
        tasks.retain(|_, hosted| {
            let is_live = now < hosted.task.announced_until;
            if let Some(running) = hosted.running.as_ref().filter(|_| !is_live) {
                running.abort();
            }
            is_live
        });
        tasks
    }
}

impl Drop for HostedTasks {
    fn drop(&mut self) {
        for running in self.tasks.lock().values().filter_map(|hosted| hosted.running.as_ref()) {
            running.abort();
        }
    }
}

impl HostedTask {
    /// Returns false, and changes nothing, if the event is not legal now.
    fn apply(&mut self, event: &Event, now: UnixMillis) -> bool {
        match transition(&mut self.task, event, now) {
            Ok(outcome) => {
                self.outcome = outcome.or(self.outcome.take());
                true
            }
            Err(_) => false,
        }
    }

    fn show(&self, now: UnixMillis) -> Value {
        let mut shown = String::new();
        legacy::tasks::write_task(&mut shown, &self.task, self.outcome.as_ref(), now);
        serde_json::from_str(&shown).unwrap_or_default()
    }
}

fn find<'a>(tasks: &'a mut BTreeMap<TaskId, HostedTask>, params: &Value) -> Result<&'a mut HostedTask, RpcFailure> {
    let id = params["taskId"].as_str().and_then(|id| id.parse().ok());
    let found = id.and_then(|id: TaskId| tasks.get_mut(&id));
    found.ok_or_else(|| failure(-32602, "Task not found".to_owned()))
}

fn failure(code: i32, message: String) -> RpcFailure {
    let message = message.into();
    RpcFailure {
        code,
        message,
        data: None,
    }
}
