//! The store as one node sees it: the model behind delays, crashes, a disk that is full now and then, and the planted faults.

use crate::{executor::Process, judge::describe, peek, plant::Plant, world::World};
use longhaul_core::{
    BoxFuture, Entry, Event, Fence, HostId, Input, InputKey, Json, NodeId, Principal, Scope, SessionKey, SpecId, Store,
    Task, TaskId, ToolSpec, UnixMillis, Usage,
    store::{
        ApplyError, Change, Claim, Claimed, Counts, CreateError, Created, Listener, NewTask, Page, Record, SigningKey,
        StoreError, ToolLimit,
    },
};
use longhaul_store::MemoryStore;
use parking_lot::Mutex;
use std::sync::Arc;

/// The way of one process to the disk.
pub(crate) struct NodeStore {
    world: Arc<World>,
    process: Process,
}

/// When an operation reaches the disk, and when its answer comes back.
struct Delays {
    there: u64,
    back: u64,
}

impl NodeStore {
    pub(crate) fn new(world: &Arc<World>, process: Process) -> Self {
        Self {
            world: Arc::clone(world),
            process,
        }
    }

    fn delays(&self) -> Delays {
        let world = &self.world;
        if world.is_calm() || world.once_in(2) {
            return Delays { there: 0, back: 0 };
        }
        let longest = if world.once_in(40) { 5_000 } else { 20 };
        Delays {
            there: world.between(0..=longest),
            back: world.between(0..=longest),
        }
    }

    fn read<T: Send + 'static>(&self, read: impl FnOnce(&MemoryStore) -> T + Send + 'static) -> BoxFuture<'static, T> {
        self.operate(false, None, move |world, _| read(&world.disk))
    }

    fn write<T: Send + 'static>(
        &self,
        write: impl FnOnce(&World, Process) -> Result<T, StoreError> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, StoreError>> {
        if self.is_full() {
            return Box::pin(std::future::ready(Err(StoreError::Full)));
        }
        self.operate(true, None, write)
    }

    fn is_full(&self) -> bool {
        let full = !self.world.is_calm() && self.world.once_in(150);
        if full {
            self.world.note(self.process, |_| "finds the disk full".to_owned());
        }
        full
    }

    /// Carries an operation to the disk and its answer back. It is the disk's from here on: who waits for it may go. With `early`,
    /// which is a planted fault, that is the answer, and it comes first.
    fn operate<T: Send + 'static>(
        &self,
        writes: bool,
        early: Option<T>,
        make: impl FnOnce(&World, Process) -> T + Send + 'static,
    ) -> BoxFuture<'static, T> {
        if self.world.executor.is_dead(self.process) {
            return Box::pin(std::future::pending());
        }
        let (tell, told) = tokio::sync::oneshot::channel();
        let answer = Arc::new(Mutex::new(None));
        let (world, process, made) = (Arc::clone(&self.world), self.process, Arc::clone(&answer));
        let land = Box::new(move || *made.lock() = Some(make(&world, process)));
        let flight = self.world.depart(self.process, writes, land);
        let mut delays = self.delays();
        if early.is_some() {
            delays.there = self.world.between(100..=5_000);
        }
        let world = Arc::clone(&self.world);
        self.world.executor.spawn(
            Process::WORLD,
            Box::pin(async move {
                let tell = match early {
                    Some(early) => {
                        let _ = tell.send(early);
                        None
                    }
                    None => Some(tell),
                };
                world.sleep(delays.there).await;
                world.land(flight);
                world.sleep(delays.back).await;
                let answer = answer.lock().take();
                if let (Some(answer), Some(tell)) = (answer, tell) {
                    let _ = tell.send(answer);
                }
            }),
        );
        Box::pin(async move {
            match told.await {
                Ok(answer) => answer,
                // The operation was lost with its process.
                Err(_) => std::future::pending().await,
            }
        })
    }

    /// Whether this write is one that is acknowledged too early.
    fn lies(&self) -> bool {
        self.world.plant == Some(Plant::AckBeforeCommit) && !self.world.is_calm() && self.world.once_in(4)
    }
}

impl World {
    fn create(&self, process: Process, new: NewTask) -> Result<Created, CreateError> {
        let parent = new.parent.as_ref().and_then(|start| self.task(&start.lineage.parent));
        let created = peek::now(self.disk.create(new.clone()));
        if matches!(created, Ok(Created::New(_))) {
            self.judge(|judge| judge.created(&self.disk, process, &new, parent.as_ref()));
        }
        self.note(process, |judge| {
            let what = match &created {
                Ok(Created::New(task)) => format!("{:?}", task.state),
                Ok(Created::Existing(task)) => format!("was {}", judge.name(&task.id)),
                Err(error) => error.to_string(),
            };
            format!("creates {} {}: {what}", judge.name(&new.id), new.tool)
        });
        created
    }

    fn apply(&self, process: Process, mut change: Change) -> Result<Task, ApplyError> {
        self.unalias(&mut change);
        let before = self.task(&change.task);
        let mut result = peek::now(self.disk.apply(change.clone()));
        if self.plant == Some(Plant::MissingFence) && result == Err(ApplyError::Stale) {
            result = peek::now(
                self.disk.apply(Change {
                    fence: before
                        .as_ref()
                        .and_then(Task::active_attempt)
                        .map(longhaul_core::Attempt::fence),
                    ..change.clone()
                }),
            );
        }
        self.judge(|judge| judge.applied(&self.disk, process, &change, before.as_ref(), &result));
        self.alias(&change, result.as_ref().ok());
        self.note(process, |judge| {
            let what = match &result {
                Ok(task) => format!("{:?} v{}", task.state, task.version),
                Err(error) => error.to_string(),
            };
            let fence = change
                .fence
                .map_or(String::new(), |Fence { node, epoch }| format!("({},{epoch}) ", node.0));
            format!(
                "{} {fence}{}: {what}",
                judge.name(&change.task),
                describe(&change.events)
            )
        });
        result
    }

    fn task(&self, id: &TaskId) -> Option<Task> {
        peek::record(&self.disk, id).map(|record| record.task)
    }

    fn taken(&self, process: Process, how: &str, tasks: &[Claimed]) {
        if tasks.is_empty() {
            return;
        }
        self.judge(|judge| judge.taken(&self.disk, tasks.iter().map(|claimed| claimed.task.id.clone())));
        self.note(process, |judge| {
            let names = tasks.iter().map(|claimed| judge.name(&claimed.task.id));
            format!("{how} {}", names.collect::<Vec<_>>().join(" "))
        });
    }

    /// Under [`Plant::ReusedKey`]: a question of a later attempt is shown under the key of the first question.
    fn alias(&self, change: &Change, task: Option<&Task>) {
        let Some(attempt) = task.and_then(Task::active_attempt) else {
            return;
        };
        if self.plant != Some(Plant::ReusedKey) || attempt.epoch == 1 {
            return;
        }
        for event in &change.events {
            if let Event::InputRequested { key, .. } = event
                && *key != InputKey::nth(1)
            {
                self.aliases
                    .lock()
                    .insert((change.task.clone(), key.clone()), InputKey::nth(1));
            }
        }
    }

    fn unalias(&self, change: &mut Change) {
        let aliases = self.aliases.lock();
        if aliases.is_empty() {
            return;
        }
        let Some(task) = self.task(&change.task) else { return };
        for event in &mut change.events {
            if let Event::InputAnswered { key, .. } = event {
                let open = task.open_inputs.iter();
                let mut shown = open.filter(|open| aliases.get(&(change.task.clone(), (*open).clone())) == Some(key));
                if let Some(real) = shown.next() {
                    *key = real.clone();
                }
            }
        }
    }

    fn aliased(&self, mut record: Record) -> Record {
        let aliases = self.aliases.lock();
        let id = record.task.id.clone();
        let shown = |key: &mut InputKey| {
            if let Some(alias) = aliases.get(&(id.clone(), key.clone())) {
                *key = alias.clone();
            }
        };
        record.task.open_inputs.iter_mut().for_each(shown);
        record.inputs.iter_mut().for_each(|input| shown(&mut input.key));
        record
    }
}

impl Store for NodeStore {
    fn open_node(&self, host: &HostId, at: UnixMillis) -> BoxFuture<'_, Result<NodeId, StoreError>> {
        let host = host.clone();
        self.write(move |world, process| {
            let node = peek::now(world.disk.open_node(&host, at))?;
            world.judge(|judge| judge.node_opened(process, node));
            world.note(process, |_| format!("opens as node {}", node.0));
            Ok(node)
        })
    }

    fn put_spec(&self, spec: ToolSpec) -> BoxFuture<'_, Result<(), StoreError>> {
        self.write(move |world, _| peek::now(world.disk.put_spec(spec)))
    }

    fn put_limit(&self, tool: &str, concurrency: Option<usize>) -> BoxFuture<'_, Result<(), StoreError>> {
        let tool = tool.to_owned();
        self.write(move |world, _| peek::now(world.disk.put_limit(&tool, concurrency)))
    }

    fn limits(&self) -> BoxFuture<'_, Result<Vec<ToolLimit>, StoreError>> {
        self.read(|disk| peek::now(disk.limits()))
    }

    fn queued_before(&self, task: &Task, most: usize) -> BoxFuture<'_, Result<usize, StoreError>> {
        let task = task.clone();
        self.read(move |disk| peek::now(disk.queued_before(&task, most)))
    }

    fn create(&self, new: NewTask) -> BoxFuture<'_, Result<Created, CreateError>> {
        if self.is_full() {
            return Box::pin(std::future::ready(Err(StoreError::Full.into())));
        }
        let early = (new.idempotency.is_none() && self.lies()).then(|| Ok(Created::New(new.task().0)));
        self.operate(true, early, move |world, process| world.create(process, new))
    }

    fn apply(&self, change: Change) -> BoxFuture<'_, Result<Task, ApplyError>> {
        if self.is_full() {
            return Box::pin(std::future::ready(Err(StoreError::Full.into())));
        }
        let journals = change.events.iter().any(|event| matches!(event, Event::Journaled(_)));
        let early = match peek::record(&self.world.disk, &change.task) {
            Some(record) if journals && self.lies() => decided(record.task, &change),
            _ => None,
        };
        self.operate(true, early.map(Ok), move |world, process| world.apply(process, change))
    }

    fn claim(&self, claim: Claim) -> BoxFuture<'_, Result<Vec<Claimed>, StoreError>> {
        self.write(move |world, process| {
            let claimed = peek::now(world.disk.claim(claim))?;
            world.taken(process, "claims", &claimed);
            Ok(claimed)
        })
    }

    fn adopt(
        &self,
        node: NodeId,
        host: &HostId,
        limit: usize,
        at: UnixMillis,
    ) -> BoxFuture<'_, Result<Vec<Claimed>, StoreError>> {
        let host = host.clone();
        self.write(move |world, process| {
            let adopted = peek::now(world.disk.adopt(node, &host, limit, at))?;
            world.taken(process, "adopts", &adopted);
            Ok(adopted)
        })
    }

    fn delete(&self, ids: Vec<TaskId>, at: UnixMillis) -> BoxFuture<'_, Result<usize, StoreError>> {
        self.write(move |world, process| {
            let count = peek::now(world.disk.delete(ids.clone(), at))?;
            world.judge(|judge| judge.deleted(&world.disk, &ids, at));
            world.note(process, |_| format!("deletes {count}"));
            Ok(count)
        })
    }

    fn get(&self, scope: &Scope, id: &TaskId) -> BoxFuture<'_, Result<Option<Record>, StoreError>> {
        let (scope, id) = (scope.clone(), id.clone());
        self.operate(false, None, move |world, _| {
            let record = peek::now(world.disk.get(&scope, &id))?;
            Ok(record.map(|record| world.aliased(record)))
        })
    }

    fn spec(&self, id: &SpecId) -> BoxFuture<'_, Result<Option<ToolSpec>, StoreError>> {
        let id = id.clone();
        self.read(move |disk| peek::now(disk.spec(&id)))
    }

    fn orphaned_calls(&self, node: NodeId, limit: usize) -> BoxFuture<'_, Result<Vec<Task>, StoreError>> {
        self.read(move |disk| peek::now(disk.orphaned_calls(node, limit)))
    }

    fn queued_tools(&self) -> BoxFuture<'_, Result<Vec<Arc<str>>, StoreError>> {
        self.read(|disk| peek::now(disk.queued_tools()))
    }

    fn next_ready(&self, tool: &str) -> BoxFuture<'_, Result<Option<UnixMillis>, StoreError>> {
        let tool = tool.to_owned();
        self.read(move |disk| peek::now(disk.next_ready(&tool)))
    }

    fn peek(&self, id: &TaskId) -> BoxFuture<'_, Result<Option<Record>, StoreError>> {
        let id = id.clone();
        self.read(move |disk| peek::now(disk.peek(&id)))
    }

    fn input(&self, id: &TaskId, key: &InputKey) -> BoxFuture<'_, Result<Option<Input>, StoreError>> {
        let (id, key) = (id.clone(), key.clone());
        self.read(move |disk| peek::now(disk.input(&id, &key)))
    }

    fn journal(&self, id: &TaskId, after: u32, limit: usize) -> BoxFuture<'_, Result<Vec<Entry>, StoreError>> {
        let id = id.clone();
        self.read(move |disk| peek::now(disk.journal(&id, after, limit)))
    }

    fn emitted(&self, id: &TaskId, after: u32, limit: usize) -> BoxFuture<'_, Result<Vec<Entry>, StoreError>> {
        let id = id.clone();
        self.read(move |disk| peek::now(disk.emitted(&id, after, limit)))
    }

    fn children(&self, parent: &TaskId, limit: usize) -> BoxFuture<'_, Result<Vec<Task>, StoreError>> {
        let parent = parent.clone();
        self.read(move |disk| peek::now(disk.children(&parent, limit)))
    }

    fn children_of_finished_parents(&self, limit: usize) -> BoxFuture<'_, Result<Vec<Task>, StoreError>> {
        self.read(move |disk| peek::now(disk.children_of_finished_parents(limit)))
    }

    fn blocked(&self, after: Option<&TaskId>, limit: usize) -> BoxFuture<'_, Result<Vec<Task>, StoreError>> {
        let after = after.cloned();
        self.read(move |disk| peek::now(disk.blocked(after.as_ref(), limit)))
    }

    fn usage(&self, of: Option<&Principal>) -> BoxFuture<'_, Result<Usage, StoreError>> {
        let of = of.cloned();
        self.read(move |disk| peek::now(disk.usage(of.as_ref())))
    }

    fn requestor(&self, id: &TaskId) -> BoxFuture<'_, Result<Option<Json>, StoreError>> {
        let id = id.clone();
        self.read(move |disk| peek::now(disk.requestor(&id)))
    }

    fn list(&self, scope: &Scope, before: Option<&TaskId>, limit: usize) -> BoxFuture<'_, Result<Page, StoreError>> {
        let (scope, before) = (scope.clone(), before.cloned());
        self.read(move |disk| peek::now(disk.list(&scope, before.as_ref(), limit)))
    }

    fn live(
        &self,
        owner: &Principal,
        session: &SessionKey,
        after: Option<&TaskId>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<Task>, StoreError>> {
        let (owner, session, after) = (owner.clone(), session.clone(), after.cloned());
        self.read(move |disk| peek::now(disk.live(&owner, &session, after.as_ref(), limit)))
    }

    fn due(&self, at: UnixMillis, limit: usize) -> BoxFuture<'_, Result<Vec<Task>, StoreError>> {
        self.read(move |disk| peek::now(disk.due(at, limit)))
    }

    fn next_wake(&self) -> BoxFuture<'_, Result<Option<UnixMillis>, StoreError>> {
        self.read(|disk| peek::now(disk.next_wake()))
    }

    fn hasten(&self, at: UnixMillis) -> BoxFuture<'_, Result<(), StoreError>> {
        self.write(move |world, _| peek::now(world.disk.hasten(at)))
    }

    fn newest(&self) -> BoxFuture<'_, Result<Option<UnixMillis>, StoreError>> {
        self.read(|disk| peek::now(disk.newest()))
    }

    fn expired(&self, at: UnixMillis, limit: usize) -> BoxFuture<'_, Result<Vec<TaskId>, StoreError>> {
        self.read(move |disk| peek::now(disk.expired(at, limit)))
    }

    fn counts(&self) -> BoxFuture<'_, Result<Counts, StoreError>> {
        self.read(|disk| peek::now(disk.counts()))
    }

    fn signing_keys(&self, purpose: &str, fresh: [u8; 32]) -> BoxFuture<'_, Result<Vec<SigningKey>, StoreError>> {
        let purpose = purpose.to_owned();
        self.write(move |world, _| peek::now(world.disk.signing_keys(&purpose, fresh)))
    }

    fn end_session(&self, session: &SessionKey, until: UnixMillis) -> BoxFuture<'_, Result<(), StoreError>> {
        let session = session.clone();
        self.write(move |world, _| peek::now(world.disk.end_session(&session, until)))
    }

    fn session_ended(&self, session: &SessionKey) -> BoxFuture<'_, Result<bool, StoreError>> {
        let session = session.clone();
        self.read(move |disk| peek::now(disk.session_ended(&session)))
    }

    /// Hints come as the model gives them, in the commit, until the process dies.
    fn listen(&self, listener: Listener) {
        let (world, process) = (Arc::downgrade(&self.world), self.process);
        self.world.disk.listen(Arc::new(move |hints| {
            if world.upgrade().is_some_and(|world| !world.executor.is_dead(process)) {
                listener(hints);
            }
        }));
    }
}

/// What a change will make of a task, if it is legal.
fn decided(mut task: Task, change: &Change) -> Option<Task> {
    for event in &change.events {
        task = longhaul_core::transition(&task, event, change.at).ok()?.0;
    }
    Some(task)
}
