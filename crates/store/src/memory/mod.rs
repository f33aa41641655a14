//! A store without storage.

mod contents;
mod index;
mod lines;
mod nodes;
mod permits;
mod plain_calls;
mod queues;
mod stored_task;
mod stored_usage;
mod tally;
mod tasks;
mod tombstones;

pub use plain_calls::PlainCallStore;

use crate::backend;
use contents::{Contents, Limits};
use longhaul_core::{
    BoxFuture, Clock, Entry, Event, HostId, Input, InputKey, Json, Millis, NodeId, Principal, Scope, SessionKey,
    SpecId, Store, Task, TaskId, ToolSpec, UnixMillis, Usage,
    store::{
        ApplyError, Change, Claim, Claimed, Counts, CreateError, Created, FoundTasks, GiveUpError, Idempotency,
        JournalStore, Lease, LeaseStore, LiveTasks, NewNode, NewSchedule, NewTask, NodeStatus, Page, PermitReport,
        Permits, QueuePlace, QueueStore, Record, Renewal, ScheduleAdvance, ScheduleRecord, ScheduleStore, SearchStore,
        SessionStore, SigningKey, StoreCapabilities, StoreError, StoreEvent, StoreListener, TaskLookup, TaskSearch,
        TaskStore, TimerStore, ToolLimit, UnwrittenCall,
    },
};
use nodes::Nodes;
use parking_lot::{Mutex, MutexGuard};
use std::{future::ready, ops::Bound, sync::Arc};
use stored_task::StoredTask;

/// A store without storage: for servers that need no durability, for tests, and the model that every other store is compared with.
///
/// One map under one lock, with indices and sums that change with each write. So the cost of a read depends on what it returns, and not on
/// how much is stored. It keeps every promise of [`Store`] but the first: its contents end with it.
#[derive(Default)]
pub struct MemoryStore {
    kept: Mutex<Contents>,
}

impl MemoryStore {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty one that several nodes share, with leases that last `lease` milliseconds by `clock`.
    pub fn of_many_nodes(clock: Arc<dyn Clock>, lease: Millis) -> Self {
        let contents = Contents {
            nodes: Nodes::with_leases(clock, lease),
            ..Contents::default()
        };
        Self {
            kept: Mutex::new(contents),
        }
    }

    /// Whether it was noted that a node has lost its lease. For tests that follow the nodes.
    pub fn has_lost_lease(&self, node: NodeId) -> bool {
        self.lock().nodes.has_lost_lease(node)
    }

    /// Whether indices and sums agree with the tasks.
    #[cfg(test)]
    pub(crate) fn audit(&self) -> Result<(), &'static str> {
        self.lock().tasks.audit()
    }

    fn lock(&self) -> MutexGuard<'_, Contents> {
        self.kept.lock()
    }
}

/// A future that is ready.
fn answer<'a, T: Send + 'a>(value: T) -> BoxFuture<'a, T> {
    Box::pin(ready(value))
}

impl TaskStore for MemoryStore {
    fn create(&self, new: NewTask) -> BoxFuture<'_, Result<Created, CreateError>> {
        let mut all = self.lock();
        match &new.claim {
            Some((node, _)) if !all.nodes.may_claim(*node) => answer(Err(StoreError::LeaseLost.into())),
            _ => answer(all.create(&new)),
        }
    }

    fn find_by_idempotency_key(
        &self,
        principal: &Principal,
        tool: &str,
        key: &str,
        digest: Option<[u8; 32]>,
    ) -> BoxFuture<'_, Result<Option<Task>, StoreError>> {
        let all = self.lock();
        let found = all.find_by_idempotency_key(principal, tool, key);
        let is_meant = |of_call: &Idempotency| digest.is_none_or(|digest| digest == of_call.digest);
        let found = found.filter(|stored| stored.idempotency.as_ref().is_some_and(is_meant));
        answer(Ok(found.map(|stored| stored.task.clone())))
    }

    fn write_call(&self, call: UnwrittenCall, change: Change) -> BoxFuture<'_, Result<Task, ApplyError>> {
        let Ok(written) = backend::write_call(&mut *self.lock(), &call, &change);
        answer(written)
    }

    fn apply(&self, change: Change) -> BoxFuture<'_, Result<Task, ApplyError>> {
        answer(self.lock().apply(&change))
    }

    fn held(&self, node: NodeId, id: &TaskId) -> BoxFuture<'_, Result<Option<Claimed>, StoreError>> {
        let all = self.lock();
        let is_held = |kept: &&StoredTask| kept.task.active_attempt().is_some_and(|attempt| attempt.node == node);
        answer(Ok(all.tasks.get(id).filter(is_held).map(StoredTask::claimed)))
    }

    fn get(&self, scope: &Scope, id: &TaskId) -> BoxFuture<'_, Result<Option<Record>, StoreError>> {
        let all = self.lock();
        let visible = |kept: &&StoredTask| kept.task.announced && kept.task.owner.principal == scope.principal;
        answer(Ok(all.tasks.get(id).filter(visible).map(StoredTask::record)))
    }

    fn get_unscoped(&self, id: &TaskId) -> BoxFuture<'_, Result<Option<Record>, StoreError>> {
        answer(Ok(self.lock().tasks.get(id).map(StoredTask::record)))
    }

    fn versions(&self, ids: &[TaskId]) -> BoxFuture<'_, Result<Vec<(TaskId, u64)>, StoreError>> {
        answer(Ok(self.lock().tasks.versions(ids)))
    }

    fn requestor(&self, id: &TaskId) -> BoxFuture<'_, Result<Option<Json>, StoreError>> {
        let all = self.lock();
        answer(Ok(all.tasks.get(id).map(|kept| kept.requestor.clone())))
    }

    fn arguments(&self, id: &TaskId) -> BoxFuture<'_, Result<Option<Json>, StoreError>> {
        let all = self.lock();
        answer(Ok(all.tasks.get(id).map(|kept| kept.arguments.clone())))
    }

    fn delete(&self, host: &HostId, ids: Vec<TaskId>, at: UnixMillis) -> BoxFuture<'_, Result<usize, StoreError>> {
        answer(Ok(self.lock().delete(host, &ids, at, at)))
    }

    fn delete_ended(
        &self,
        host: &HostId,
        ids: Vec<TaskId>,
        at: UnixMillis,
    ) -> BoxFuture<'_, Result<usize, StoreError>> {
        answer(Ok(self.lock().delete(host, &ids, UnixMillis(i64::MAX), at)))
    }
}

impl JournalStore for MemoryStore {
    fn input(&self, id: &TaskId, key: &InputKey) -> BoxFuture<'_, Result<Option<Input>, StoreError>> {
        let all = self.lock();
        let input = all.tasks.get(id).and_then(|kept| kept.input(key));
        answer(Ok(input.cloned()))
    }

    fn inputs(&self, id: &TaskId, limit: usize) -> BoxFuture<'_, Result<Vec<Input>, StoreError>> {
        let all = self.lock();
        answer(Ok(all.tasks.get(id).map_or_else(Vec::new, |kept| kept.inputs(limit))))
    }

    fn journal(&self, id: &TaskId, after: u32, limit: usize) -> BoxFuture<'_, Result<Vec<Entry>, StoreError>> {
        let all = self.lock();
        let entries = all.tasks.get(id).into_iter().flat_map(|kept| kept.journal(after));
        answer(Ok(entries.take(limit).cloned().collect()))
    }

    fn emitted(&self, id: &TaskId, after: u32, limit: usize) -> BoxFuture<'_, Result<Vec<Entry>, StoreError>> {
        let all = self.lock();
        let entries = all.tasks.get(id).into_iter().flat_map(|kept| kept.emitted(after));
        answer(Ok(entries.take(limit).cloned().collect()))
    }
}

impl QueueStore for MemoryStore {
    fn put_spec(&self, spec: ToolSpec) -> BoxFuture<'_, Result<(), StoreError>> {
        self.lock().specs.entry(spec.id.clone()).or_insert(spec);
        answer(Ok(()))
    }

    fn spec(&self, id: &SpecId) -> BoxFuture<'_, Result<Option<ToolSpec>, StoreError>> {
        answer(Ok(self.lock().specs.get(id).cloned()))
    }

    fn put_limit(
        &self,
        tool: &str,
        concurrency: Option<usize>,
        per_group: Option<usize>,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        let limits = Limits { concurrency, per_group };
        self.lock().limits.insert(tool.into(), limits);
        answer(Ok(()))
    }

    fn fill_groups(&self) -> BoxFuture<'_, Result<usize, StoreError>> {
        answer(Ok(self.lock().fill_groups()))
    }

    fn limits(&self) -> BoxFuture<'_, Result<Vec<ToolLimit>, StoreError>> {
        let all = self.lock();
        let limits = all.limits.iter();
        answer(Ok(limits
            .filter_map(|(tool, limits)| {
                Some(ToolLimit {
                    tool: Arc::clone(tool),
                    concurrency: limits.concurrency?,
                })
            })
            .collect()))
    }

    fn set_paused(&self, tool: &str, paused: bool) -> BoxFuture<'_, Result<(), StoreError>> {
        let mut all = self.lock();
        match paused {
            true => all.paused.insert(tool.into()),
            false => all.paused.remove(tool),
        };
        if all.nodes.has_leases() {
            all.notify_all(&[StoreEvent::PausesChanged]);
        }
        answer(Ok(()))
    }

    fn paused(&self) -> BoxFuture<'_, Result<Vec<Arc<str>>, StoreError>> {
        answer(Ok(self.lock().paused.iter().cloned().collect()))
    }

    fn share_permits(&self, node: NodeId, report: PermitReport) -> BoxFuture<'_, Result<Vec<Permits>, StoreError>> {
        answer(self.lock().share_permits(node, &report))
    }

    fn claim(&self, claim: Claim) -> BoxFuture<'_, Result<Vec<Claimed>, StoreError>> {
        let mut all = self.lock();
        if !all.nodes.may_claim(claim.node) {
            return answer(Err(StoreError::LeaseLost));
        }
        let limit = match claim.rate {
            Some(rate) => {
                let last = all.last_starts.get(&claim.tool).copied();
                claim
                    .limit
                    .min(usize::from(rate.next_start(last, claim.at) <= claim.at))
            }
            None => claim.limit,
        };
        let ready = all.tasks.index().queued.ready(&claim.tool, claim.at);
        let ids: Vec<TaskId> = ready.take(limit).cloned().collect();
        let event = Event::Claimed {
            node: claim.node,
            host: claim.host,
        };
        let taken = all.take(&ids, &event, claim.at);
        if claim.rate.is_some() && !taken.is_empty() {
            all.last_starts.insert(claim.tool, claim.at);
        }
        answer(Ok(taken))
    }

    fn queued_tools(&self) -> BoxFuture<'_, Result<Vec<Arc<str>>, StoreError>> {
        let all = self.lock();
        answer(Ok(all.tasks.index().queued.tools().cloned().collect()))
    }

    fn next_ready(&self, tool: &str, at: UnixMillis) -> BoxFuture<'_, Result<Option<QueuePlace>, StoreError>> {
        answer(Ok(self.lock().tasks.index().queued.first(tool, at)))
    }

    fn last_start(&self, tool: &str) -> BoxFuture<'_, Result<Option<UnixMillis>, StoreError>> {
        answer(Ok(self.lock().last_starts.get(tool).copied()))
    }

    fn queued_before(&self, task: &Task, most: usize) -> BoxFuture<'_, Result<usize, StoreError>> {
        answer(Ok(self.lock().queued_before(task, most)))
    }
}

impl TimerStore for MemoryStore {
    fn next_wake(&self) -> BoxFuture<'_, Result<Option<UnixMillis>, StoreError>> {
        answer(Ok(self.lock().next_wake()))
    }

    fn make_timers_due(&self, at: UnixMillis) -> BoxFuture<'_, Result<(), StoreError>> {
        self.lock().make_timers_due(at);
        answer(Ok(()))
    }

    fn newest_created_at(&self) -> BoxFuture<'_, Result<Option<UnixMillis>, StoreError>> {
        answer(Ok(self.lock().tasks.newest().map(|task| task.created_at)))
    }

    fn expired(&self, at: UnixMillis, limit: usize) -> BoxFuture<'_, Result<Vec<TaskId>, StoreError>> {
        let all = self.lock();
        let expired = all.tasks.index().expiring.of(&()).take_while(|(when, _)| *when <= at);
        answer(Ok(expired.take(limit).map(|(_, id)| id.clone()).collect()))
    }
}

impl LeaseStore for MemoryStore {
    fn open_node(&self, new: &NewNode, at: UnixMillis) -> BoxFuture<'_, Result<Lease, StoreError>> {
        let mut all = self.lock();
        all.ended_sessions.remove_expired(at);
        answer(all.nodes.open(new, at))
    }

    fn renew(&self, node: NodeId) -> BoxFuture<'_, Result<Renewal, StoreError>> {
        let mut all = self.lock();
        let renewed = all.nodes.renew(node);
        answer(renewed.map(|(now, others_died)| Renewal {
            now,
            held: all.held_by(node),
            others_died,
        }))
    }

    fn end_lease(&self, node: NodeId) -> BoxFuture<'_, Result<(), StoreError>> {
        self.lock().nodes.end(node);
        answer(Ok(()))
    }

    fn give_up_host(&self, node: NodeId) -> BoxFuture<'_, Result<(), GiveUpError>> {
        answer(self.lock().nodes.give_up_host(node))
    }

    fn nodes(&self) -> BoxFuture<'_, Result<Vec<NodeStatus>, StoreError>> {
        answer(Ok(self.lock().node_statuses()))
    }

    fn adopt(
        &self,
        node: NodeId,
        host: &HostId,
        limit: usize,
        at: UnixMillis,
    ) -> BoxFuture<'_, Result<Vec<Claimed>, StoreError>> {
        let mut all = self.lock();
        let held = all.tasks.index().held.of(&());
        let orphans = held.filter(|(holder, _)| all.nodes.can_be_taken_over(*holder, node));
        let can_take = |task: &&Task| {
            let bound = task.active_attempt().and_then(|attempt| attempt.host.as_ref());
            !all.nodes.has_leases() || bound.is_none_or(|bound| bound == host)
        };
        let orphans = all.found(orphans).filter(can_take);
        let ids: Vec<TaskId> = orphans.take(limit).map(|task| task.id.clone()).collect();
        answer(Ok(all.take(&ids, &Event::Adopted { node }, at)))
    }

    fn reclaim(
        &self,
        node: NodeId,
        host: &HostId,
        lost_for: Millis,
        limit: usize,
        at: UnixMillis,
    ) -> BoxFuture<'_, Result<Vec<Claimed>, StoreError>> {
        let mut all = self.lock();
        let held = all.tasks.index().held.of(&());
        let away = held.filter(|(holder, _)| all.nodes.can_be_reclaimed(*holder, node, 0));
        let is_lost = |task: &&Task| {
            let Some(attempt) = task.active_attempt() else {
                return false;
            };
            let lost_for = if task.stop.is_some() { 0 } else { lost_for };
            attempt.host.as_ref().is_some_and(|bound| bound != host)
                && all.nodes.can_be_reclaimed(attempt.node, node, lost_for)
        };
        let lost = all.found(away).filter(is_lost);
        let ids: Vec<TaskId> = lost.take(limit).map(|task| task.id.clone()).collect();
        answer(Ok(all.take(&ids, &Event::Reclaimed { node }, at)))
    }

    fn tombstones(&self, host: &HostId, limit: usize) -> BoxFuture<'_, Result<Vec<TaskId>, StoreError>> {
        answer(Ok(self.lock().tombstones.of(host).take(limit).cloned().collect()))
    }

    fn remove_tombstones(&self, host: &HostId, ids: Vec<TaskId>) -> BoxFuture<'_, Result<(), StoreError>> {
        self.lock().tombstones.remove(host, &ids);
        answer(Ok(()))
    }

    /// There is no older copy of this store.
    fn record_removal(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        answer(Ok(()))
    }

    fn send(&self, to: Option<NodeId>, text: Arc<str>) -> BoxFuture<'_, Result<(), StoreError>> {
        let all = self.lock();
        if all.nodes.has_leases() {
            all.notify_all(&[StoreEvent::Message { to, text }]);
        }
        answer(Ok(()))
    }
}

impl SessionStore for MemoryStore {
    fn end_session(&self, session: &SessionKey, until: UnixMillis) -> BoxFuture<'_, Result<(), StoreError>> {
        let ended = &mut self.lock().ended_sessions;
        answer(match ended.may_add(session) {
            true => {
                ended.add(session.clone(), until);
                Ok(())
            }
            false => Err(StoreError::TooManySessions),
        })
    }

    fn session_ended(&self, session: &SessionKey) -> BoxFuture<'_, Result<bool, StoreError>> {
        answer(Ok(self.lock().ended_sessions.contains(session)))
    }

    fn signing_keys(&self, purpose: &str, fresh: SigningKey) -> BoxFuture<'_, Result<Vec<SigningKey>, StoreError>> {
        let mut all = self.lock();
        let known = all.keys.entry(purpose.to_owned()).or_default();
        *known = SigningKey::rotate(std::mem::take(known), fresh);
        answer(Ok(known.clone()))
    }
}

impl SearchStore for MemoryStore {
    fn find(&self, lookup: TaskLookup, limit: usize) -> BoxFuture<'_, Result<Vec<Task>, StoreError>> {
        answer(Ok(self.lock().find(&lookup, limit)))
    }

    fn search(&self, search: TaskSearch) -> BoxFuture<'_, Result<FoundTasks, StoreError>> {
        answer(Ok(self.lock().tasks.search(&search)))
    }

    fn list(&self, scope: &Scope, before: Option<&TaskId>, limit: usize) -> BoxFuture<'_, Result<Page, StoreError>> {
        let all = self.lock();
        let before = before.map_or(Bound::Unbounded, |before| Bound::Excluded(((), before.clone())));
        let range = (Bound::Unbounded, before);
        let index = all.tasks.index();
        let (tasks, more) = match &scope.session {
            None => all.page(index.owned.part(&scope.principal, range), limit),
            Some(session) => {
                let session = (scope.principal.clone(), session.clone());
                all.page(index.of_session.part(&session, range), limit)
            }
        };
        answer(Ok(Page { tasks, more }))
    }

    fn counts(&self) -> BoxFuture<'_, Result<Counts, StoreError>> {
        answer(Ok(self.lock().tasks.tally().counts()))
    }

    fn live_tasks(&self) -> BoxFuture<'_, Result<Vec<LiveTasks>, StoreError>> {
        answer(Ok(self.lock().tasks.live_tasks()))
    }

    fn usage(&self, of: Option<&Principal>) -> BoxFuture<'_, Result<Usage, StoreError>> {
        answer(Ok(self.lock().tasks.tally().usage(of)))
    }
}

impl ScheduleStore for MemoryStore {
    fn put_schedules(&self, schedules: Vec<NewSchedule>) -> BoxFuture<'_, Result<Vec<ScheduleRecord>, StoreError>> {
        answer(Ok(self.lock().put_schedules(&schedules)))
    }

    fn remove_schedules(&self, names: Vec<Arc<str>>) -> BoxFuture<'_, Result<(), StoreError>> {
        let mut all = self.lock();
        for name in &names {
            all.schedules.remove(name);
        }
        answer(Ok(()))
    }

    fn schedules(&self, after: Option<&str>, limit: usize) -> BoxFuture<'_, Result<Vec<ScheduleRecord>, StoreError>> {
        let all = self.lock();
        let after = after.map_or(Bound::Unbounded, Bound::Excluded);
        let found = all.schedules.range::<str, _>((after, Bound::Unbounded));
        answer(Ok(found.take(limit).map(|(_, schedule)| schedule.clone()).collect()))
    }

    fn schedule(&self, name: &str) -> BoxFuture<'_, Result<Option<ScheduleRecord>, StoreError>> {
        answer(Ok(self.lock().schedules.get(name).cloned()))
    }

    fn advance_schedule(
        &self,
        name: &str,
        plan: &str,
        advance: ScheduleAdvance,
    ) -> BoxFuture<'_, Result<bool, StoreError>> {
        let mut all = self.lock();
        let schedule = all.schedules.get_mut(name);
        answer(Ok(schedule.is_some_and(|schedule| schedule.advance(plan, &advance))))
    }

    fn set_schedule_paused(&self, name: &str, paused: bool) -> BoxFuture<'_, Result<bool, StoreError>> {
        let mut all = self.lock();
        let schedule = all.schedules.get_mut(name);
        answer(Ok(schedule.map(|schedule| schedule.paused = paused).is_some()))
    }
}

impl Store for MemoryStore {
    fn listen(&self, listener: StoreListener) {
        self.lock().listeners.push(listener);
    }

    fn capabilities(&self) -> StoreCapabilities {
        StoreCapabilities {
            many_nodes: self.lock().nodes.has_leases(),
            ..StoreCapabilities::default()
        }
    }
}
