//! The contents of the store in memory, and their changes.

use super::{
    index,
    nodes::Nodes,
    permits::PermitTable,
    stored_task::StoredTask,
    tasks::{TaskEvents, Tasks},
    tombstones::Tombstones,
};
use crate::{
    backend::{self, Backend, Insertion},
    decision::Decision,
    ended_sessions::EndedSessions,
    refusal, usage,
};
use longhaul_core::{
    ConcurrencyGroup, Event, HostId, NodeId, Principal, QuotaExceeded, QuotaScope, SpecId, Task, TaskId, ToolSpec,
    UnixMillis, Usage,
    store::{
        ApplyError, Change, Claimed, CreateError, Created, HeldAttempt, LeaseStatus, NewSchedule, NewTask, NodeStatus,
        PermitReport, Permits, QueuePlace, ScheduleRecord, SigningKey, StoreError, StoreEvent, StoreListener,
        TaskLookup, Uniqueness, UnwrittenCall,
    },
    transition,
};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    convert::Infallible,
    ops::Bound,
    sync::Arc,
};

#[derive(Default)]
pub(super) struct Contents {
    pub(super) tasks: Tasks,
    pub(super) specs: foldhash::HashMap<SpecId, ToolSpec>,
    pub(super) limits: BTreeMap<Arc<str>, Limits>,
    pub(super) paused: BTreeSet<Arc<str>>,
    pub(super) last_starts: BTreeMap<Arc<str>, UnixMillis>,
    pub(super) nodes: Nodes,
    pub(super) permits: PermitTable,
    pub(super) keys: HashMap<String, Vec<SigningKey>>,
    pub(super) schedules: BTreeMap<Arc<str>, ScheduleRecord>,
    pub(super) ended_sessions: EndedSessions,
    pub(super) tombstones: Tombstones,
    pub(super) listeners: Vec<StoreListener>,
}

/// How many tasks of a tool may run at once.
#[derive(Default, Clone, Copy)]
pub(super) struct Limits {
    pub(super) concurrency: Option<usize>,
    pub(super) per_group: Option<usize>,
}

impl Contents {
    /// Events go out under the lock, so they are in order; a listener must not call the store anyway.
    fn notify(&self, TaskEvents { changed, queued }: TaskEvents) {
        match queued {
            Some(queued) => self.notify_all(&[changed, queued]),
            None => self.notify_all(&[changed]),
        }
    }

    pub(super) fn notify_all(&self, events: &[StoreEvent]) {
        for listener in &self.listeners {
            listener(events);
        }
    }

    /// The call with this key, whatever its arguments are.
    pub(super) fn find_by_idempotency_key(&self, principal: &Principal, tool: &str, key: &str) -> Option<&StoredTask> {
        let call = index::call(principal, tool, key.into());
        let ((), id) = self.tasks.index().keyed.of(&call).next()?;
        self.tasks.get(id)
    }

    /// Whether the quota of a live task has room for it beside what is here and `elsewhere`: what its principal has there, and all.
    pub(super) fn admit(&self, new: &NewTask, elsewhere: [Usage; 2]) -> Result<(), QuotaExceeded> {
        let more = Usage {
            live: 1,
            bytes: usage::bytes(&new.arguments) + usage::bytes(&new.requestor),
        };
        let (tally, [mine, all]) = (self.tasks.tally(), elsewhere);
        let principal = tally.usage(Some(&new.owner.principal)) + mine;
        new.quota.admit(QuotaScope::Principal, principal, more)?;
        new.quota.admit(QuotaScope::All, tally.usage(None) + all, more)
    }

    /// Keeps a call as it was before a write of it that has failed.
    pub(super) fn put_back(&mut self, call: &UnwrittenCall) {
        let decision = Decision::of(call.task.clone());
        self.tasks.insert(StoredTask::new(Insertion {
            decision: &decision,
            arguments: &call.arguments,
            requestor: &call.requestor,
            idempotency: None,
            unique: None,
            replaces: None,
            history: None,
            usage: Usage::default(),
        }));
    }

    pub(super) fn create(&mut self, new: &NewTask) -> Result<Created, CreateError> {
        let Ok(created) = backend::create(self, new, &Decision::of_new(new));
        created
    }

    pub(super) fn apply(&mut self, change: &Change) -> Result<Task, ApplyError> {
        let Ok(applied) = backend::apply(self, change);
        applied
    }

    /// Applies one event, which the caller has found to be legal, to each of `ids`.
    pub(super) fn take(&mut self, ids: &[TaskId], event: &Event, at: UnixMillis) -> Vec<Claimed> {
        let (mut taken, mut events) = (Vec::new(), Vec::new());
        for id in ids {
            let Some(kept) = self.tasks.get(id) else { continue };
            let mut task = kept.task.clone();
            if transition(&mut task, event, at).is_err() {
                continue;
            }
            taken.push(Claimed {
                task: task.clone(),
                ..kept.claimed()
            });
            let written = self.tasks.write(&Decision::of(task));
            events.extend(written.map(|written| written.changed));
        }
        if !events.is_empty() {
            self.notify_all(&events);
        }
        taken
    }

    /// [`longhaul_core::store::QueueStore::share_permits`].
    pub(super) fn share_permits(&mut self, node: NodeId, report: &PermitReport) -> Result<Vec<Permits>, StoreError> {
        if !self.nodes.may_claim(node) {
            return Err(StoreError::LeaseLost);
        }
        let now = self.nodes.now().unwrap_or_default();
        let Self {
            permits,
            nodes,
            tasks,
            limits,
            ..
        } = self;
        let limit_of = |tool: &str| {
            let limit = limits.get(tool).and_then(|limits| limits.concurrency);
            let limit = limit.unwrap_or(usize::MAX);
            let held = tasks.index().held.of(&());
            let lost = held.filter(|(holder, _)| !nodes.may_claim(*holder));
            let of_tool = lost.filter(|(_, id)| tasks.task(id).is_some_and(|task| *task.tool == *tool));
            (limit, of_tool.count())
        };
        permits.retain_nodes(|node| nodes.may_claim(node));
        let (permits, changed) = permits.share(node, report, limit_of, now)?;
        let changed = changed.into_iter();
        let events: Vec<StoreEvent> = changed
            .map(|tool| StoreEvent::PermitsChanged { tool, by: node })
            .collect();
        if !events.is_empty() {
            self.notify_all(&events);
        }
        Ok(permits)
    }

    /// [`longhaul_core::store::QueueStore::fill_groups`].
    pub(super) fn fill_groups(&mut self) -> usize {
        let waiting = self.tasks.index().waiting_for_group.groups();
        let groups: Vec<index::Group> = waiting.map(|(group, _)| group.clone()).collect();
        groups.iter().map(|group| self.fill(group)).sum()
    }

    /// Lets tasks into a group, and returns how many.
    fn fill(&mut self, group: &index::Group) -> usize {
        let index = self.tasks.index();
        let limit = self.limits.get(&group.0).and_then(|limits| limits.per_group);
        let limit = limit.unwrap_or(usize::MAX);
        let room = limit - index.in_group.of(group).take(limit).count();
        let first = self.found(index.waiting_for_group.of(group).take(room));
        let first: Vec<Task> = first.cloned().collect();
        for task in &first {
            let mut task = task.clone();
            task.waits_for_group = false;
            let queued = StoreEvent::queue_ready(&task);
            self.tasks.write(&Decision::of(task));
            self.notify_all(queued.as_slice());
        }
        first.len()
    }

    /// The nodes that live, and those that are dead and hold attempts.
    pub(super) fn node_statuses(&self) -> Vec<NodeStatus> {
        let attempts = |node| {
            let held = self.found(
                self.tasks
                    .index()
                    .held
                    .of(&())
                    .filter(move |(holder, _)| *holder == node),
            );
            held.fold((0, 0), |(all, bound), task| {
                let is_bound = task.active_attempt().is_some_and(|attempt| attempt.host.is_some());
                (all + 1, bound + u64::from(is_bound))
            })
        };
        let mut statuses = self.nodes.statuses();
        for status in &mut statuses {
            (status.attempts, status.bound_attempts) = attempts(status.node);
        }
        statuses.retain(|status| status.attempts > 0 || !matches!(status.lease, LeaseStatus::Lost { .. }));
        statuses
    }

    /// The active attempts of a node.
    pub(super) fn held_by(&self, node: NodeId) -> Vec<HeldAttempt> {
        let held = self.tasks.index().held.of(&());
        let its = self.found(held.filter(|(holder, _)| *holder == node));
        its.filter_map(HeldAttempt::of).collect()
    }

    pub(super) fn queued_before(&self, task: &Task, most: usize) -> usize {
        let part = (Arc::clone(&task.tool), task.owner.principal.clone());
        let queue = self.tasks.index().queued_of_principal.of(&part);
        let before = queue.take_while(|(place, id)| (*place, id) < (QueuePlace::of(task), &task.id));
        before.take(most).count()
    }

    /// [`longhaul_core::store::SearchStore::find`].
    pub(super) fn find(&self, lookup: &TaskLookup, limit: usize) -> Vec<Task> {
        let index = self.tasks.index();
        let after = |after: &Option<TaskId>| {
            let after = after
                .clone()
                .map_or(Bound::Unbounded, |after| Bound::Excluded(((), after)));
            (after, Bound::Unbounded)
        };
        let ids: Box<dyn Iterator<Item = &TaskId> + '_> = match lookup {
            TaskLookup::ChildrenOf(parent) => Box::new(index.children.of(parent).map(|(_, id)| id)),
            TaskLookup::StartedBy { parent, after: last } => {
                Box::new(index.started.part(parent, after(last)).map(|(_, id)| id))
            }
            TaskLookup::ChildrenOfFinishedParents => {
                let families = index.children.groups();
                let orphans = families.filter(|(parent, _)| !self.will_cancel_children(parent));
                Box::new(orphans.flat_map(|(_, children)| children).map(|(_, id)| id))
            }
            TaskLookup::BlockedAfter(last) => Box::new(index.blocked.part(&(), after(last)).map(|(_, id)| id)),
            TaskLookup::OrphanedCalls(node) => {
                let calls = index.orphanable.of(&());
                let orphaned = calls.filter(|(accepted_by, _)| self.nodes.can_be_taken_over(*accepted_by, *node));
                Box::new(orphaned.map(|(_, id)| id))
            }
            TaskLookup::LiveInSession {
                owner,
                session,
                after: last,
            } => {
                let session = (owner.clone(), session.clone());
                let live = index.live.part(&session, after(last));
                return self.found(live).take(limit).cloned().collect();
            }
            TaskLookup::DueTimers(at) => {
                let due = index.waking.of(&()).take_while(|(wake, _)| wake <= at);
                Box::new(due.map(|(_, id)| id))
            }
        };
        let tasks = ids.filter_map(|id| self.tasks.task(id));
        tasks.take(limit).cloned().collect()
    }

    /// [`longhaul_core::store::ScheduleStore::put_schedules`].
    pub(super) fn put_schedules(&mut self, schedules: &[NewSchedule]) -> Vec<ScheduleRecord> {
        let put = schedules.iter().map(|new| {
            let name = Arc::clone(&new.name);
            let kept = self.schedules.entry(name).or_insert_with(|| ScheduleRecord::new(new));
            kept.replan(new);
            kept.clone()
        });
        put.collect()
    }

    pub(super) fn next_wake(&self) -> Option<UnixMillis> {
        let first = self.tasks.index().waking.of(&()).next();
        first.map(|(wake, _)| *wake)
    }

    pub(super) fn make_timers_due(&mut self, at: UnixMillis) {
        let waking = self.found(self.tasks.index().waking.of(&()));
        let waits = |task: &&Task| task.is_suspended() && !task.awaits_confirmation();
        let later = waking.filter(|task| waits(task) && task.resume_at.is_some_and(|resume| resume > at));
        let later: Vec<Task> = later.cloned().collect();
        for mut task in later {
            task.resume_at = Some(at);
            self.tasks.write(&Decision::of(task));
        }
    }

    /// Deletes those whose [`Task::delete_at`] is `due` or earlier. The caller has removed what the tasks have left on `host`.
    pub(super) fn delete(&mut self, host: &HostId, ids: &[TaskId], due: UnixMillis, at: UnixMillis) -> usize {
        self.ended_sessions.remove_expired(at);
        self.tombstones.remove_expired(at);
        let mut deleted = 0;
        for id in ids {
            let over = self.tasks.task(id).and_then(Task::delete_at);
            if over.is_none_or(|when| when > due) {
                continue;
            }
            let hosts = self.tasks.remove(id).map(|stored| stored.hosts).unwrap_or_default();
            if self.nodes.has_leases() {
                let others = hosts.into_iter().filter(|other| other != host);
                others.for_each(|other| self.tombstones.leave(other, id.clone(), at));
            }
            deleted += 1;
        }
        deleted
    }

    /// The tasks that an index names.
    pub(super) fn found<'a, Rank: 'a>(
        &'a self,
        line: impl Iterator<Item = &'a (Rank, TaskId)>,
    ) -> impl Iterator<Item = &'a Task> {
        line.filter_map(|(_, id)| self.tasks.task(id))
    }

    /// The newest tasks of a line, and whether there are older ones.
    pub(super) fn page<'a>(
        &'a self,
        line: impl DoubleEndedIterator<Item = &'a ((), TaskId)>,
        limit: usize,
    ) -> (Vec<Task>, bool) {
        let mut newest = line.rev();
        let tasks = self.found(newest.by_ref().take(limit)).cloned().collect();
        (tasks, newest.next().is_some())
    }

    /// Whether the task will cancel its children itself.
    pub(super) fn will_cancel_children(&self, parent: &TaskId) -> bool {
        let parent = self.tasks.task(parent);
        parent.is_some_and(|parent| !parent.is_done() && parent.stop.is_none())
    }
}

impl Backend for Contents {
    type Error = Infallible;
    type Loaded = ();

    fn load<T>(&mut self, id: &TaskId, read: impl FnOnce(&Task) -> T) -> Result<Option<((), T)>, Infallible> {
        Ok(self.tasks.task(id).map(|task| ((), read(task))))
    }

    fn find_repeated(&mut self, new: &NewTask) -> Result<Option<(Task, [u8; 32])>, Infallible> {
        let key = new.idempotency.as_ref().map(|call| &*call.key);
        let found = key.and_then(|key| self.find_by_idempotency_key(&new.owner.principal, &new.tool, key));
        Ok(found.and_then(|stored| Some((stored.task.clone(), stored.idempotency.as_ref()?.digest))))
    }

    fn find_live_unique(&mut self, new: &NewTask, unique: &Uniqueness) -> Result<Option<(Task, [u8; 32])>, Infallible> {
        let value = (Arc::clone(&new.tool), unique.value);
        let live = self.tasks.index().unique.of(&value).next();
        let live = live.and_then(|((), id)| self.tasks.get(id));
        Ok(live.and_then(|live| Some((live.task.clone(), live.unique?.arguments))))
    }

    fn usage(&mut self, new: &NewTask, scope: QuotaScope, _more: Usage) -> Result<Usage, Infallible> {
        Ok(self.tasks.tally().usage(scope.principal(&new.owner.principal)))
    }

    fn insert(&mut self, new: Insertion<'_>) -> Result<Result<(), StoreError>, Infallible> {
        let task = &new.decision.task;
        if !self.specs.contains_key(&task.spec) {
            return Ok(Err(refusal::spec_unknown()));
        }
        if self.tasks.get(&task.id).is_some() {
            return Ok(Err(refusal::id_taken()));
        }
        let events = self.tasks.insert(StoredTask::new(new));
        self.notify(events);
        Ok(Ok(()))
    }

    fn write(&mut self, (): (), decision: &Decision<'_>) -> Result<(), Infallible> {
        if let Some(events) = self.tasks.write(decision) {
            self.notify(events);
        }
        Ok(())
    }

    fn fill_group(&mut self, tool: &Arc<str>, group: ConcurrencyGroup) -> Result<(), Infallible> {
        self.fill(&(Arc::clone(tool), group));
        Ok(())
    }

    fn load_schedule(&mut self, name: &str) -> Result<Option<(ScheduleRecord, bool)>, Infallible> {
        Ok(self.schedules.get(name).map(|schedule| {
            let last = schedule.last_task.as_ref().and_then(|last| self.tasks.task(last));
            (schedule.clone(), last.is_some_and(|last| !last.is_done()))
        }))
    }

    fn write_schedule(&mut self, schedule: &ScheduleRecord) -> Result<(), Infallible> {
        self.schedules.insert(Arc::clone(&schedule.name), schedule.clone());
        Ok(())
    }
}
