//! Clients: they create, wait, leave, promote, answer, cancel, read, and try to access the tasks of others.

use crate::{
    checker::{CONFIRMATION, RATED},
    executor::Process,
    tool::{COMMAND, CONFIRMED, DURABLE, DURABLE_GROUPED, GROUPED, LIMITED, PLAIN, UNIQUE, WITH_DEADLINE},
    world::{Node, World},
};
use futures_util::future::{Either, select};
use longhaul_core::{
    CancelMode, InputKey, Json, Origin, Outcome, Owner, Principal, Priority, Scope, Task, TaskId, store::CreateError,
};
use longhaul_runtime::{Call, CancelError, DeleteError, PlainCall, Promotion};
use serde_json::json;
use std::{collections::BTreeMap, sync::Arc};

/// A client. Its requests go to any live node, and fail if that node dies.
pub(crate) struct Client {
    world: Arc<World>,
    nth: usize,
    /// Its announced tasks, and whether it has read the outcome.
    tasks: Vec<(TaskId, bool)>,
    /// Announced tasks of all clients, by which it tries to access those of others.
    foreign: Arc<parking_lot::Mutex<Vec<(usize, TaskId)>>>,
}

/// How many unique values all clients have.
const UNIQUE_VALUES: u64 = 3;
/// How many idempotency keys a client has.
const KEYS: u64 = 3;

impl Client {
    pub(crate) fn new(world: &Arc<World>, nth: usize, foreign: &Arc<parking_lot::Mutex<Vec<(usize, TaskId)>>>) -> Self {
        Self {
            world: Arc::clone(world),
            nth,
            tasks: Vec::new(),
            foreign: Arc::clone(foreign),
        }
    }

    /// Acts at random during the faults, and then follows all of its tasks to their end.
    pub(crate) async fn run(mut self) {
        while !self.world.faults_are_over() {
            self.world.sleep(self.world.between(0..=4_000)).await;
            if let Some(node) = self.world.random_node() {
                self.act(&node).await;
            }
        }
        for round in 0_u32.. {
            self.world.sleep(3_000).await;
            if let Some(node) = self.world.random_node() {
                // Calls after the faults need slots that earlier calls have released.
                if round % 3 == 0 && round < 14 {
                    self.create(&node).await;
                } else if round % 3 == 1 && round < 14 {
                    self.cancel(&node).await;
                }
                for at in 0..self.tasks.len() {
                    self.follow(&node, at).await;
                }
            }
        }
    }

    async fn act(&mut self, node: &Node) {
        match self.world.between(0..=19) {
            0..5 => self.create(node).await,
            5..7 => self.wait(node).await,
            7 => self.cancel(node).await,
            8 => self.probe_foreign_task(node).await,
            9 => self.list(node).await,
            10 => self.delete(node).await,
            _ => {
                if let Some(at) = self.any() {
                    self.follow(node, at).await;
                }
            }
        }
    }

    fn any(&self) -> Option<usize> {
        let last = self.tasks.len().checked_sub(1)?;
        usize::try_from(self.world.between(0..=last as u64)).ok()
    }

    fn principal(&self) -> Principal {
        Principal::named(format!("client {}", self.nth))
    }

    fn scope(&self) -> Scope {
        Scope::of(self.principal())
    }

    /// A call, its number, and its idempotency key if it has one.
    fn draw_call(&self, node: &Node) -> Option<(Call, u64, Option<Arc<str>>)> {
        let world = &self.world;
        let key = world.one_in(5).then(|| world.between(1..=KEYS));
        // Calls under the same key are the same call.
        let (number, program, tool) = match key {
            Some(key) => (1_000_000 + self.nth as u64 * KEYS + key, key * 10, DURABLE),
            // Of one value each client makes one and the same call again and again; the others make another one.
            None if world.one_in(6) => {
                let value = world.between(1..=UNIQUE_VALUES);
                let number = 2_000_000 + self.nth as u64 * UNIQUE_VALUES + value;
                (number, 500_000 + value * 10, UNIQUE)
            }
            None if world.one_in(5) => {
                let tool = if world.one_in(3) { DURABLE_GROUPED } else { GROUPED };
                (world.new_call(), world.between(0..=1_000_000) * 10, tool)
            }
            None => {
                let tools = [
                    DURABLE,
                    DURABLE,
                    DURABLE,
                    PLAIN,
                    WITH_DEADLINE,
                    COMMAND,
                    LIMITED,
                    LIMITED,
                    RATED,
                    CONFIRMED,
                ];
                let tool = usize::try_from(world.between(0..=9)).unwrap_or(0);
                (world.new_call(), world.between(0..=1_000_000) * 10, tools[tool])
            }
        };
        let key: Option<Arc<str>> = key.map(|key| Arc::from(format!("key {key}")));
        let call = Call {
            tool: node.engine.catalog().tool(tool)?,
            arguments: Json::from(json!({"program": program, "call": number})),
            owner: Owner {
                principal: self.principal(),
                session: None,
            },
            origin: Origin::Modern,
            requestor: Arc::default(),
            idempotency_key: key.clone(),
            ttl: None,
            priority: (world.one_in(2))
                .then(|| Priority::new(u8::try_from(world.between(0..=2)).ok()?))
                .flatten(),
            cancel_if_caller_leaves: world.one_in(2),
        };
        Some((call, number, key))
    }

    async fn create(&mut self, node: &Node) {
        let Some((call, number, key)) = self.draw_call(node) else {
            return;
        };
        let cancels = call.cancel_if_caller_leaves && key.is_none();
        match self.reach(node, node.engine.create(call)).await {
            Some(Ok(task)) => self.task_announced(node, &task, key.as_ref()),
            Some(Err(CreateError::NotUnique { live: Some(_) })) => {
                self.world.check(|checker| checker.refused_beside_itself(number));
            }
            Some(Err(CreateError::IdempotencyKeyConflict)) => self.world.check(|checker| checker.key_refused(number)),
            Some(Err(_)) => {}
            None if cancels => self.world.check(|checker| checker.may_be_cancelled(number)),
            None => {}
        }
    }

    /// Records that this client was given the id of a task.
    fn task_announced(&mut self, node: &Node, task: &Task, key: Option<&Arc<str>>) {
        let world = &self.world;
        world.note_client(self.nth, |checker| format!("is given {}", checker.name(&task.id)));
        world.check(|checker| {
            checker.announced(&world.disk, task);
            if let Some(key) = key {
                checker.keyed(self.nth, key, &task.id);
            }
        });
        if !self.tasks.iter().any(|(id, _)| *id == task.id) {
            self.tasks.push((task.id.clone(), false));
            self.foreign.lock().push((self.nth, task.id.clone()));
        }
        if self.world.one_in(3) {
            let node = self.world.random_node().unwrap_or_else(|| node.clone());
            let wait = wait_for_end(Arc::clone(&self.world), node, self.scope(), task.id.clone());
            self.world.executor.spawn(Process::WORLD, Box::pin(wait));
        }
    }

    /// Makes a plain call: waits a while, and then leaves it or promotes it.
    async fn wait(&mut self, node: &Node) {
        let Some((call, number, key)) = self.draw_call(node) else {
            return;
        };
        let cancels = call.cancel_if_caller_leaves && key.is_none();
        let Some(begun) = self.reach(node, node.engine.begin(call)).await else {
            if cancels {
                self.world.check(|checker| checker.may_be_cancelled(number));
            }
            return;
        };
        let Ok(mut waiting) = begun else { return };
        let patience = self.world.between(0..=10_000);
        let ended = {
            let patience = std::pin::pin!(self.world.sleep(patience));
            let ended = std::pin::pin!(self.reach(node, waiting.ended(|_| ())));
            match select(ended, patience).await {
                Either::Left((ended, _)) => Some(ended),
                Either::Right(_) => None,
            }
        };
        match ended {
            Some(Some(Ok(outcome))) => self.ended(waiting.id(), &outcome),
            Some(_) => {}
            None if self.world.one_in(2) => self.promote(node, waiting, key.as_ref()).await,
            None => {
                self.world.check(|checker| checker.may_be_cancelled(number));
                waiting.handle().leave();
            }
        }
    }

    async fn promote(&mut self, node: &Node, mut waiting: PlainCall, key: Option<&Arc<str>>) {
        let id = waiting.id().clone();
        match self.reach(node, waiting.promote()).await {
            Some(Ok(Promotion::Task(task))) => self.task_announced(node, &task, key),
            Some(Ok(Promotion::Ended(outcome))) => self.ended(&id, &outcome),
            Some(Err(_)) | None => {}
        }
    }

    fn ended(&self, id: &TaskId, outcome: &Outcome) {
        let world = &self.world;
        world.check(|checker| checker.ended(&world.disk, id, outcome));
    }

    /// Reads one of its tasks, and answers its questions.
    async fn follow(&mut self, node: &Node, at: usize) {
        let (id, over) = self.tasks[at].clone();
        if over && self.world.faults_are_over() {
            return;
        }
        let Some(Ok(record)) = self.reach(node, node.engine.get(&self.scope(), &id)).await else {
            return;
        };
        let world = Arc::clone(&self.world);
        world.check(|checker| checker.read_by_client(&world.disk, &id, record.as_ref()));
        let Some(record) = record else {
            self.tasks[at].1 = true;
            return;
        };
        if let Some(outcome) = &record.outcome {
            self.tasks[at].1 = true;
            self.ended(&id, outcome);
        }
        for input in &record.inputs {
            if world.one_in(if world.faults_are_over() { 12 } else { 4 }) {
                self.answer(node, &id, &input.key, &input.request).await;
            }
        }
    }

    async fn answer(&self, node: &Node, id: &TaskId, key: &InputKey, request: &Json) {
        let world = &self.world;
        let declines = request.as_str() == CONFIRMATION && world.one_in(3);
        let action = if declines { "decline" } else { "accept" };
        let answer = Json::from(json!({"action": action, "content": {"answer": world.between(0..=1_000_000)}}));
        let answers = BTreeMap::from([(key.clone(), answer)]);
        if let Some(Ok(Some(()))) = self.reach(node, node.engine.answer(&self.scope(), id, answers)).await {
            world.note_client(self.nth, |checker| {
                format!("has answered {} of {}", key.as_str(), checker.name(id))
            });
            world.check(|checker| checker.answer_acknowledged(&world.disk, id, key, request));
        }
    }

    async fn cancel(&self, node: &Node) {
        let Some(at) = self.any() else { return };
        let id = &self.tasks[at].0;
        let world = &self.world;
        let mode = if world.one_in(2) {
            CancelMode::AtOnce
        } else {
            CancelMode::Cooperative
        };
        world.check(|checker| checker.cancel_requested(id));
        if let Some(Ok(_)) = self.reach(node, node.engine.cancel(&self.scope(), id, mode)).await {
            world.check(|checker| checker.cancel_acknowledged(&world.disk, id));
        }
    }

    async fn delete(&self, node: &Node) {
        let Some(at) = self.any() else { return };
        let id = &self.tasks[at].0;
        let world = &self.world;
        if let Some(Ok(())) = self.reach(node, node.engine.delete(&self.scope(), id)).await {
            world.note_client(self.nth, |checker| format!("has deleted {}", checker.name(id)));
            world.check(|checker| checker.deletion_acknowledged(&world.disk, id));
        }
    }

    /// Tries to read, answer, cancel and delete a task of another client, or one that does not exist.
    async fn probe_foreign_task(&self, node: &Node) {
        let world = &self.world;
        let theirs = {
            let foreign = self.foreign.lock();
            let theirs: Vec<&TaskId> = (foreign.iter().filter(|(owner, _)| *owner != self.nth))
                .map(|(_, id)| id)
                .collect();
            match theirs.len().checked_sub(1) {
                Some(last) => usize::try_from(world.between(0..=last as u64))
                    .ok()
                    .map(|nth| theirs[nth].clone()),
                None => None,
            }
        };
        let Some(id) = theirs.or_else(|| "nobodys".parse().ok()) else {
            return;
        };
        let scope = self.scope();
        if let Some(Ok(Some(_))) = self.reach(node, node.engine.get(&scope, &id)).await {
            world.check(|checker| checker.leaked("a client can read another's task"));
        }
        let answers = BTreeMap::from([(InputKey::nth(1), Json::trusted("{}"))]);
        if let Some(Ok(Some(()))) = self.reach(node, node.engine.answer(&scope, &id, answers)).await {
            world.check(|checker| checker.leaked("a client can answer another's task"));
        }
        match self
            .reach(node, node.engine.cancel(&scope, &id, CancelMode::AtOnce))
            .await
        {
            None | Some(Err(CancelError::NotFound | CancelError::Store(_))) => {}
            Some(_) => world.check(|checker| checker.leaked("a cancel of another's task was not refused as unknown")),
        }
        match self.reach(node, node.engine.delete(&scope, &id)).await {
            None | Some(Err(DeleteError::NotFound | DeleteError::Store(_))) => {}
            Some(_) => world.check(|checker| checker.leaked("a deletion of another's task was not refused as unknown")),
        }
    }

    async fn list(&self, node: &Node) {
        let Some(Ok(page)) = self.reach(node, node.engine.list(&self.scope(), None, 100)).await else {
            return;
        };
        let mine = self.principal();
        if page.tasks.iter().any(|task| task.owner.principal != mine) {
            self.world
                .check(|checker| checker.leaked("a client's list has another's task"));
        }
    }

    /// Waits for a node's response. `None` if the node dies or the client gives up waiting.
    async fn reach<T>(&self, node: &Node, response: impl Future<Output = T>) -> Option<T> {
        let world = &self.world;
        let patience = if world.faults_are_over() || !world.one_in(10) {
            600_000
        } else {
            world.between(0..=200)
        };
        let mut died = node.died.clone();
        let gone = std::pin::pin!(async {
            let died = std::pin::pin!(died.wait_for(|died| *died));
            let patience = std::pin::pin!(world.sleep(patience));
            select(died, patience).await;
        });
        match select(std::pin::pin!(response), gone).await {
            Either::Left((response, _)) => Some(response),
            Either::Right(_) => None,
        }
    }
}

/// Waits on a node for the end of a task, as a subscriber does: reads it whenever the node says that it has changed.
async fn wait_for_end(world: Arc<World>, node: Node, scope: Scope, id: TaskId) {
    let wait = world.check(|checker| checker.wait_begins(node.process, &id));
    let mut died = node.died.clone();
    let seen = std::pin::pin!(async {
        let mut watch = node.engine.watch(&id);
        loop {
            match node.engine.get(&scope, &id).await {
                Ok(None) => return,
                Ok(Some(record)) if record.outcome.is_some() => return,
                Ok(Some(_)) | Err(_) => watch.changed().await,
            }
        }
    });
    let gone = std::pin::pin!(died.wait_for(|died| *died));
    select(seen, gone).await;
    world.check(|checker| checker.wait_is_over(wait));
}
