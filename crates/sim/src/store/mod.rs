//! The store of one node: the store in memory with delays, crashes, a disk that is sometimes full, and the planted faults.

mod event_faults;
mod execution;

use crate::{disk, executor::Process, planted_fault::PlantedFault, world::World};
use event_faults::EventFaults;
use longhaul_core::{
    BoxFuture, Event, HostId, Millis, NodeId, Scope, SessionKey, Store, StoreLayer, Task, TaskId, ToolSpec, UnixMillis,
    store::{
        ApplyError, Change, Claim, Claimed, CreateError, Created, Lease, LeaseStore, NewNode, NewSchedule, NewTask,
        PermitReport, Permits, QueueStore, Record, Renewal, ScheduleAdvance, ScheduleRecord, ScheduleStore,
        SearchStore, SessionStore, SigningKey, StoreError, StoreListener, TaskLookup, TaskStore, TimerStore,
        UnwrittenCall,
    },
};
use parking_lot::Mutex;
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// The store as one process sees it.
pub(crate) struct NodeStore {
    world: Arc<World>,
    process: Process,
    /// Writes whose answers were lost and that are still to be made.
    late_writes: Arc<AtomicUsize>,
}

/// The delays of an operation, in milliseconds: until it reaches the disk, and until its result returns.
struct Delays {
    request: u64,
    response: u64,
}

impl NodeStore {
    pub(crate) fn new(world: &Arc<World>, process: Process) -> Self {
        Self {
            world: Arc::clone(world),
            process,
            late_writes: Arc::default(),
        }
    }

    fn delays(&self) -> Delays {
        let world = &self.world;
        if world.faults_are_over() || world.one_in(2) {
            return Delays {
                request: 0,
                response: 0,
            };
        }
        let max = if world.one_in(40) { 5_000 } else { 20 };
        Delays {
            request: world.between(0..=max),
            response: world.between(0..=max),
        }
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
        let full = !self.world.faults_are_over() && self.world.one_in(150);
        if full {
            self.world.note(self.process, |_| "finds the disk full".to_owned());
        }
        full
    }

    /// Sends an operation to the disk and returns its result, both after a delay. The operation is executed even if the caller drops the
    /// future. With `early`, that result is returned before the operation is executed.
    fn operate<T: Send + 'static>(
        &self,
        writes: bool,
        early: Option<T>,
        operation: impl FnOnce(&World, Process) -> T + Send + 'static,
    ) -> BoxFuture<'static, T> {
        if self.world.executor.is_dead(self.process) {
            return Box::pin(std::future::pending());
        }
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let answer = Arc::new(Mutex::new(None));
        let (world, process, slot) = (Arc::clone(&self.world), self.process, Arc::clone(&answer));
        let execute = Box::new(move || *slot.lock() = Some(operation(&world, process)));
        let operation = self.world.send(self.process, writes, execute);
        let mut delays = self.delays();
        if early.is_some() {
            delays.request = self.world.between(100..=5_000);
        }
        let world = Arc::clone(&self.world);
        self.world.executor.spawn(
            Process::WORLD,
            Box::pin(async move {
                let sender = match early {
                    Some(early) => {
                        let _ = sender.send(early);
                        None
                    }
                    None => Some(sender),
                };
                world.sleep(delays.request).await;
                world.execute(operation);
                world.sleep(delays.response).await;
                let answer = answer.lock().take();
                if let (Some(answer), Some(sender)) = (answer, sender) {
                    let _ = sender.send(answer);
                }
            }),
        );
        Box::pin(async move {
            match receiver.await {
                Ok(answer) => answer,
                // The operation was lost when its process crashed.
                Err(_) => std::future::pending().await,
            }
        })
    }

    /// As [`operate`](Self::operate), for a write whose answer may get lost. It is then made, a little later, or never.
    fn operate_or_lose<T: Send + 'static, E: From<StoreError> + Send + 'static>(
        &self,
        early: Option<Result<T, E>>,
        operation: impl FnOnce(&World, Process) -> Result<T, E> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, E>> {
        let planted = self.world.plant == Some(PlantedFault::UnknownAsFailed);
        if self.world.faults_are_over() || !self.world.one_in(if planted { 10 } else { 100 }) {
            return self.operate(true, early, operation);
        }
        let why = "the connection broke".to_owned();
        let error = match planted {
            true => StoreError::Failed(why),
            false => StoreError::OutcomeUnknown(why),
        };
        let made = self.world.one_in(2);
        self.world.note(self.process, |_| {
            let fate = if made { "it is made late" } else { "it is not made" };
            format!("loses the answer of a write: {fate}")
        });
        match made {
            true => {
                self.late_writes.fetch_add(1, Ordering::Relaxed);
                let late_writes = Arc::clone(&self.late_writes);
                self.operate(true, Some(Err(error.into())), move |world, process| {
                    late_writes.fetch_sub(1, Ordering::Relaxed);
                    operation(world, process)
                })
            }
            false => Box::pin(std::future::ready(Err(error.into()))),
        }
    }

    /// Whether to acknowledge this write too early.
    fn acknowledges_early(&self) -> bool {
        self.world.plant == Some(PlantedFault::AckBeforeCommit) && !self.world.faults_are_over() && self.world.one_in(4)
    }
}

impl StoreLayer for NodeStore {
    fn inner(&self) -> &dyn Store {
        &*self.world.disk
    }

    /// Reads see the disk at the time of the call, and their answers arrive after a delay.
    fn forward<'a, T: Send + 'static>(&'a self, answer: BoxFuture<'a, T>) -> BoxFuture<'a, T> {
        if self.world.executor.is_dead(self.process) {
            return Box::pin(std::future::pending());
        }
        let delays = self.delays();
        Box::pin(async move {
            let answer = answer.await;
            self.world.sleep(delays.request + delays.response).await;
            answer
        })
    }

    fn open_node(&self, new: &NewNode, at: UnixMillis) -> BoxFuture<'_, Result<Lease, StoreError>> {
        let new = new.clone();
        self.write(move |world, process| {
            let lease = disk::now(world.disk.open_node(&new, at))?;
            world.check(|checker| checker.node_opened(process, lease.node));
            world.note(process, |_| format!("opens as node {} of {}", lease.node.0, new.host.0));
            world.leases_changed();
            Ok(lease)
        })
    }

    /// A process whose lease is lost ends.
    fn renew(&self, node: NodeId) -> BoxFuture<'_, Result<Renewal, StoreError>> {
        if self.world.is_cut_off(self.process) {
            return Box::pin(std::future::ready(Err(StoreError::Failed("it is cut off".to_owned()))));
        }
        let ending = Arc::clone(&self.world);
        self.write(move |world, process| {
            let renewal = disk::now(world.disk.renew(node));
            world.leases_changed();
            if renewal == Err(StoreError::LeaseLost) {
                let end = async move {
                    ending.sleep(ending.between(0..=2_000)).await;
                    ending.crash(process);
                };
                world.executor.spawn(Process::WORLD, Box::pin(end));
            }
            renewal
        })
    }

    fn end_lease(&self, node: NodeId) -> BoxFuture<'_, Result<(), StoreError>> {
        self.write(move |world, _| {
            let ended = disk::now(world.disk.end_lease(node));
            world.leases_changed();
            ended
        })
    }

    fn await_earlier_writes(&self, _node: NodeId) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async {
            while self.late_writes.load(Ordering::Relaxed) > 0 {
                self.world.sleep(10).await;
            }
            Ok(())
        })
    }

    fn put_spec(&self, spec: ToolSpec) -> BoxFuture<'_, Result<(), StoreError>> {
        self.write(move |world, _| disk::now(world.disk.put_spec(spec)))
    }

    fn put_limit(
        &self,
        tool: &str,
        concurrency: Option<usize>,
        per_group: Option<usize>,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        let tool = tool.to_owned();
        let per_group = per_group.filter(|_| self.world.plant != Some(PlantedFault::UnlimitedGroups));
        self.write(move |world, _| disk::now(world.disk.put_limit(&tool, concurrency, per_group)))
    }

    fn fill_groups(&self) -> BoxFuture<'_, Result<usize, StoreError>> {
        self.write(|world, _| disk::now(world.disk.fill_groups()))
    }

    fn share_permits(&self, node: NodeId, report: PermitReport) -> BoxFuture<'_, Result<Vec<Permits>, StoreError>> {
        if self.is_full() {
            return Box::pin(std::future::ready(Err(StoreError::Full)));
        }
        self.operate_or_lose(None, move |world, process| {
            let permits = disk::now(world.disk.share_permits(node, report.clone()));
            world.note(process, |_| {
                let requests = report.requests.iter();
                let requests = requests.map(|of| format!("{} uses {} wants {}", of.tool, of.used, of.wanted));
                let answer = match &permits {
                    Ok(permits) => format!("{:?}", permits.iter().map(|of| of.count).collect::<Vec<_>>()),
                    Err(error) => error.to_string(),
                };
                format!(
                    "permits {}: {}: {answer}",
                    report.number,
                    requests.collect::<Vec<_>>().join(", ")
                )
            });
            permits
        })
    }

    fn create(&self, new: NewTask) -> BoxFuture<'_, Result<Created, CreateError>> {
        if self.is_full() {
            return Box::pin(std::future::ready(Err(StoreError::Full.into())));
        }
        let early = (new.idempotency.is_none() && new.unique.is_none() && self.acknowledges_early())
            .then(|| Ok(Created::New(new.task().0)));
        self.operate_or_lose(early, move |world, process| world.create(process, new))
    }

    fn apply(&self, change: Change) -> BoxFuture<'_, Result<Task, ApplyError>> {
        if self.is_full() {
            return Box::pin(std::future::ready(Err(StoreError::Full.into())));
        }
        let journals = change.events.iter().any(|event| matches!(event, Event::Journaled(_)));
        let early = match disk::record(&self.world.disk, &change.task) {
            Some(record) if journals && self.acknowledges_early() => predict(record.task, &change),
            _ => None,
        };
        self.operate_or_lose(early.map(Ok), move |world, process| world.apply(process, change))
    }

    fn write_call(&self, call: UnwrittenCall, change: Change) -> BoxFuture<'_, Result<Task, ApplyError>> {
        if self.is_full() {
            return Box::pin(std::future::ready(Err(StoreError::Full.into())));
        }
        self.operate_or_lose(None, move |world, process| world.write_call(process, call, change))
    }

    fn claim(&self, claim: Claim) -> BoxFuture<'_, Result<Vec<Claimed>, StoreError>> {
        if self.is_full() {
            return Box::pin(std::future::ready(Err(StoreError::Full)));
        }
        self.operate_or_lose(None, move |world, process| {
            let highest = disk::highest_ready(&world.disk, &claim);
            let rate = claim.rate.filter(|_| world.plant != Some(PlantedFault::ForgottenRate));
            let claimed = disk::now(world.disk.claim(Claim { rate, ..claim.clone() }))?;
            world.check(|checker| checker.claimed(&claim, highest, &claimed));
            world.log_claimed(process, "claims", &claimed);
            Ok(claimed)
        })
    }

    fn put_schedules(&self, schedules: Vec<NewSchedule>) -> BoxFuture<'_, Result<Vec<ScheduleRecord>, StoreError>> {
        self.write(move |world, _| {
            let rows = disk::now(world.disk.put_schedules(schedules))?;
            world.check(|checker| checker.schedules_put(&rows));
            Ok(rows)
        })
    }

    fn advance_schedule(
        &self,
        name: &str,
        plan: &str,
        advance: ScheduleAdvance,
    ) -> BoxFuture<'_, Result<bool, StoreError>> {
        if self.is_full() {
            return Box::pin(std::future::ready(Err(StoreError::Full)));
        }
        let (name, plan): (Arc<str>, String) = (name.into(), plan.to_owned());
        self.operate_or_lose(None, move |world, process| {
            world.advance_schedule(process, &name, &plan, &advance)
        })
    }

    fn set_schedule_paused(&self, name: &str, paused: bool) -> BoxFuture<'_, Result<bool, StoreError>> {
        let name = name.to_owned();
        self.write(move |world, process| {
            let known = disk::now(world.disk.set_schedule_paused(&name, paused))?;
            world.check(|checker| checker.schedule_paused(&name, paused));
            world.note(process, |_| format!("{name}: paused {paused}"));
            Ok(known)
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
        if self.world.plant == Some(PlantedFault::StaleLease) {
            return Box::pin(std::future::ready(Ok(Vec::new())));
        }
        if self.is_full() {
            return Box::pin(std::future::ready(Err(StoreError::Full)));
        }
        self.operate_or_lose(None, move |world, process| {
            let adopted = disk::now(world.disk.adopt(node, &host, limit, at))?;
            world.log_claimed(process, "adopts", &adopted);
            Ok(adopted)
        })
    }

    fn reclaim(
        &self,
        node: NodeId,
        host: &HostId,
        lost_for: Millis,
        limit: usize,
        at: UnixMillis,
    ) -> BoxFuture<'_, Result<Vec<Claimed>, StoreError>> {
        let host = host.clone();
        self.operate_or_lose(None, move |world, process| {
            let reclaimed = disk::now(world.disk.reclaim(node, &host, lost_for, limit, at))?;
            for (task, epoch) in reclaimed.iter().filter_map(attempt_of) {
                let host = world.commands.host_of(&task, epoch);
                let mut nodes = world.nodes().into_iter();
                let on_host = nodes.find(|node| Some(&node.host) == host.as_ref());
                world.check(|checker| checker.reclaimed(task, epoch, on_host.map(|node| node.process)));
            }
            world.log_claimed(process, "reclaims", &reclaimed);
            Ok(reclaimed)
        })
    }

    fn delete(&self, host: &HostId, ids: Vec<TaskId>, at: UnixMillis) -> BoxFuture<'_, Result<usize, StoreError>> {
        let host = host.clone();
        self.write(move |world, process| {
            let count = disk::now(world.disk.delete(&host, ids.clone(), at))?;
            world.check(|checker| checker.deleted(&world.disk, &ids, at));
            world.check_files();
            world.note(process, |_| format!("deletes {count}"));
            Ok(count)
        })
    }

    fn delete_ended(
        &self,
        host: &HostId,
        ids: Vec<TaskId>,
        at: UnixMillis,
    ) -> BoxFuture<'_, Result<usize, StoreError>> {
        let host = host.clone();
        self.write(move |world, process| {
            let count = disk::now(world.disk.delete_ended(&host, ids.clone(), at))?;
            // Its owner has released the server from its promise.
            world.check(|checker| checker.deleted(&world.disk, &ids, UnixMillis(i64::MAX)));
            world.check_files();
            world.note(process, |_| format!("deletes {count} for a client"));
            Ok(count)
        })
    }

    fn tombstones(&self, host: &HostId, limit: usize) -> BoxFuture<'_, Result<Vec<TaskId>, StoreError>> {
        let host = host.clone();
        self.operate(false, None, move |world, _| {
            disk::now(world.disk.tombstones(&host, limit))
        })
    }

    fn remove_tombstones(&self, host: &HostId, ids: Vec<TaskId>) -> BoxFuture<'_, Result<(), StoreError>> {
        let host = host.clone();
        self.write(move |world, process| {
            let removed = disk::now(world.disk.remove_tombstones(&host, ids.clone()));
            world.note(process, |_| format!("removes {} tombstones", ids.len()));
            world.check_files();
            removed
        })
    }

    fn get(&self, scope: &Scope, id: &TaskId) -> BoxFuture<'_, Result<Option<Record>, StoreError>> {
        let (scope, id) = (scope.clone(), id.clone());
        self.operate(false, None, move |world, _| {
            let record = disk::now(world.disk.get(&scope, &id))?;
            Ok(record.map(|record| world.aliased(record)))
        })
    }

    fn make_timers_due(&self, at: UnixMillis) -> BoxFuture<'_, Result<(), StoreError>> {
        self.write(move |world, _| disk::now(world.disk.make_timers_due(at)))
    }

    fn signing_keys(&self, purpose: &str, fresh: SigningKey) -> BoxFuture<'_, Result<Vec<SigningKey>, StoreError>> {
        let purpose = purpose.to_owned();
        self.write(move |world, _| disk::now(world.disk.signing_keys(&purpose, fresh)))
    }

    fn end_session(&self, session: &SessionKey, until: UnixMillis) -> BoxFuture<'_, Result<(), StoreError>> {
        let session = session.clone();
        self.write(move |world, _| disk::now(world.disk.end_session(&session, until)))
    }

    fn held(&self, node: NodeId, id: &TaskId) -> BoxFuture<'_, Result<Option<Claimed>, StoreError>> {
        let id = id.clone();
        self.operate(false, None, move |world, process| {
            let held = disk::now(world.disk.held(node, &id))?;
            world.note(process, |checker| {
                let what = if held.is_some() { "holds" } else { "does not hold" };
                format!("{what} {}", checker.name(&id))
            });
            if let Some((task, epoch)) = held.as_ref().and_then(attempt_of) {
                world.check(|checker| checker.limits.runs_anyway(task, epoch));
            }
            Ok(held)
        })
    }

    /// Under [`PlantedFault::StaleLease`] all nodes live.
    fn find(&self, lookup: TaskLookup, limit: usize) -> BoxFuture<'_, Result<Vec<Task>, StoreError>> {
        let all_live = self.world.plant == Some(PlantedFault::StaleLease);
        self.forward(match lookup {
            TaskLookup::OrphanedCalls(_) if all_live => Box::pin(std::future::ready(Ok(Vec::new()))),
            _ => self.world.disk.find(lookup, limit),
        })
    }

    /// Under [`PlantedFault::LostWakeup`] nothing ever changes.
    fn versions(&self, ids: &[TaskId]) -> BoxFuture<'_, Result<Vec<(TaskId, u64)>, StoreError>> {
        let ids = ids.to_vec();
        self.operate(false, None, move |world, _| {
            let mut versions = disk::now(world.disk.versions(&ids))?;
            if world.plant == Some(PlantedFault::LostWakeup) {
                versions.iter_mut().for_each(|(_, version)| *version = 0);
            }
            Ok(versions)
        })
    }

    /// Events arrive as the faults say, until the process dies.
    fn listen(&self, listener: StoreListener) {
        let (world, process, faults) = (
            Arc::downgrade(&self.world),
            self.process,
            EventFaults::draw(&self.world),
        );
        self.world.note(process, |_| format!("{faults:?}"));
        self.world.disk.listen(Arc::new(move |events| {
            if let Some(world) = world.upgrade().filter(|world| !world.executor.is_dead(process)) {
                for event in events {
                    faults.send(&world, process, event, &listener);
                }
            }
        }));
    }
}

fn attempt_of(claimed: &Claimed) -> Option<(TaskId, u32)> {
    let attempt = claimed.task.active_attempt()?;
    Some((claimed.task.id.clone(), attempt.epoch))
}

/// The task after a change, if the change is allowed.
fn predict(mut task: Task, change: &Change) -> Option<Task> {
    for event in &change.events {
        longhaul_core::transition(&mut task, event, change.at).ok()?;
    }
    Some(task)
}
