//! The contents of the store in memory, and their changes.

use super::{
    ended_sessions::EndedSessions,
    index,
    nodes::Nodes,
    permits::PermitTable,
    stored_task::StoredTask,
    tasks::{TaskEvents, Tasks},
    tombstones::Tombstones,
};
use crate::{
    decision::{Decision, decide, decide_replacement, decide_start, end_for_parent},
    refusal, usage,
};
use longhaul_core::{
    Event, HostId, NodeId, Principal, Quota, QuotaExceeded, QuotaScope, SpecId, Task, TaskId, ToolSpec, UnixMillis,
    Usage,
    store::{
        ApplyError, Change, Claimed, CreateError, Created, HeldAttempt, LeaseStatus, NewTask, NodeStatus, PermitReport,
        Permits, SigningKey, StoreError, StoreEvent, StoreListener, UnwrittenCall,
    },
    transition,
};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

#[derive(Default)]
pub(super) struct Contents {
    pub(super) tasks: Tasks,
    pub(super) specs: foldhash::HashMap<SpecId, ToolSpec>,
    pub(super) limits: BTreeMap<Arc<str>, Option<usize>>,
    pub(super) paused: BTreeSet<Arc<str>>,
    pub(super) nodes: Nodes,
    pub(super) permits: PermitTable,
    pub(super) keys: HashMap<String, Vec<SigningKey>>,
    pub(super) ended_sessions: EndedSessions,
    pub(super) tombstones: Tombstones,
    pub(super) listeners: Vec<StoreListener>,
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

    /// The answer to an earlier call with the same idempotency key.
    fn repeated(&self, new: &NewTask) -> Option<Result<Created, CreateError>> {
        let idempotency = new.idempotency.as_ref()?;
        let first = self.find_by_idempotency_key(&new.owner.principal, &new.tool, &idempotency.key)?;
        Some(if first.idempotency.as_ref() == Some(idempotency) {
            Ok(Created::Existing(first.task.clone()))
        } else {
            Err(CreateError::IdempotencyKeyConflict)
        })
    }

    /// The call with this key, whatever its arguments are.
    pub(super) fn find_by_idempotency_key(&self, principal: &Principal, tool: &str, key: &str) -> Option<&StoredTask> {
        let call = index::call(principal, tool, key.into());
        let ((), id) = self.tasks.index().keyed.of(&call).next()?;
        self.tasks.get(id)
    }

    /// Whether `more` of `principal` fits, beside what is here and `elsewhere`.
    pub(super) fn admit(
        &self,
        principal: &Principal,
        quota: Quota,
        more: Usage,
        elsewhere: [Usage; 2],
    ) -> Result<(), QuotaExceeded> {
        let tally = self.tasks.tally();
        let [mine, all] = elsewhere;
        quota.admit(QuotaScope::Principal, tally.usage(Some(principal)) + mine, more)?;
        quota.admit(QuotaScope::All, tally.usage(None) + all, more)
    }

    pub(super) fn create(&mut self, new: NewTask) -> Result<Created, CreateError> {
        self.create_beside(new, [Usage::default(); 2])
    }

    /// As [`create`](Self::create), for a quota that also counts what is kept elsewhere: by the principal, and in all.
    pub(super) fn create_beside(&mut self, mut new: NewTask, elsewhere: [Usage; 2]) -> Result<Created, CreateError> {
        if let Some(first) = self.repeated(&new) {
            return first;
        }
        let (at, quota) = (new.created_at, new.quota);
        let start = new.parent_change();
        let start = start.as_ref().map(|change| self.decided_start(change)).transpose();
        let start = start.map_err(CreateError::Parent)?;
        let end_of_replaced = new.replaces.take();
        let replaced = end_of_replaced.as_deref().map(|end| {
            let before = self.tasks.task(&end.task);
            decide_replacement(before, &new, end)
        });
        let replaced = replaced.transpose().map_err(CreateError::Replaced)?;
        let kept = StoredTask::new(new);
        let more = usage::to_admit(kept.indexed().usage(), end_of_replaced.as_deref());
        self.admit(&kept.task.owner.principal, quota, more, elsewhere)?;
        if !self.specs.contains_key(&kept.task.spec) {
            return Err(refusal::spec_unknown().into());
        }
        if self.tasks.get(&kept.task.id).is_some() {
            return Err(refusal::id_taken().into());
        }
        let task = kept.task.clone();
        let end = end_for_parent(&task, kept.outcome(), at);
        let events = self.tasks.insert(kept);
        self.notify(events);
        if let Some(decision) = start {
            self.write(decision, at);
        }
        if let Some(decision) = replaced {
            self.write(decision, at);
        }
        if let Some(change) = end {
            self.notify_parent(&change);
        }
        Ok(Created::New(task))
    }

    /// [`longhaul_core::Store::write_call`].
    pub(super) fn write_call(&mut self, call: UnwrittenCall, change: &Change) -> Result<Task, ApplyError> {
        if let Some(written) = self.tasks.task(&call.task.id) {
            return Ok(written.clone());
        }
        if !self.specs.contains_key(&call.task.spec) {
            return Err(refusal::spec_unknown().into());
        }
        let decision = decide(&call.task, change)?;
        let task = decision.task.clone();
        let events = self.tasks.insert(StoredTask::from(call));
        match change.events.is_empty() {
            true => self.notify(events),
            false => self.write(decision, change.at),
        }
        Ok(task)
    }

    fn decided_start<'a>(&self, change: &'a Change) -> Result<Decision<'a>, ApplyError> {
        let parent = self.tasks.task(&change.task).ok_or(ApplyError::NotFound)?;
        decide_start(parent, change)
    }

    pub(super) fn apply(&mut self, change: &Change) -> Result<Task, ApplyError> {
        let before = self.tasks.task(&change.task).ok_or(ApplyError::NotFound)?;
        let decision = decide(before, change)?;
        let task = decision.task.clone();
        self.write(decision, change.at);
        Ok(task)
    }

    /// Writes the decision, and the end of the task to its parent. A parent that is over is not changed.
    fn write(&mut self, decision: Decision<'_>, at: UnixMillis) {
        let end = end_for_parent(&decision.task, decision.outcome.as_ref(), at);
        if let Some(events) = self.tasks.write(decision) {
            self.notify(events);
        }
        if let Some(change) = end {
            self.notify_parent(&change);
        }
    }

    fn notify_parent(&mut self, change: &Change) {
        let parent = self.tasks.task(&change.task);
        if let Some(Ok(decision)) = parent.map(|parent| decide(parent, change)) {
            self.write(decision, change.at);
        }
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
            let written = self.tasks.write(Decision::of(task));
            events.extend(written.map(|written| written.changed));
        }
        if !events.is_empty() {
            self.notify_all(&events);
        }
        taken
    }

    /// [`longhaul_core::Store::share_permits`].
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
            let limit = limits.get(tool).copied().flatten().unwrap_or(usize::MAX);
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
        let before = queue.take_while(|(ready_at, id)| (*ready_at, id) < (task.ready_at, &task.id));
        before.take(most).count()
    }

    pub(super) fn due_timers(&self, at: UnixMillis, limit: usize) -> Vec<Task> {
        let due = self.tasks.index().waking.of(&()).take_while(|(wake, _)| *wake <= at);
        self.found(due).take(limit).cloned().collect()
    }

    pub(super) fn next_wake(&self) -> Option<UnixMillis> {
        let first = self.tasks.index().waking.of(&()).next();
        first.map(|(wake, _)| *wake)
    }

    pub(super) fn make_timers_due(&mut self, at: UnixMillis) {
        let waking = self.found(self.tasks.index().waking.of(&()));
        let later = waking.filter(|task| task.is_suspended() && task.resume_at.is_some_and(|resume| resume > at));
        let later: Vec<Task> = later.cloned().collect();
        for mut task in later {
            task.resume_at = Some(at);
            self.tasks.write(Decision::of(task));
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
