//! The model: what a store is, without storage.

mod kept;

use crate::{
    decision::{Decision, decide, decide_start, end_for_parent},
    refusal,
};
use kept::Kept;
use longhaul_core::{
    BoxFuture, Entry, EntryKind, Event, HostId, Input, InputKey, InputState, Json, NodeId, Principal, QuotaExceeded,
    QuotaScope, Scope, SessionKey, SpecId, State, Store, Task, TaskId, ToolSpec, UnixMillis, Usage,
    store::{
        ApplyError, Change, Claim, Claimed, Counts, CreateError, Created, Hint, Listener, NewTask, Page, Record,
        SigningKey, StoreError,
    },
    transition,
};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    future::ready,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// A store without storage: the model that every other store is compared with, and a quick store for tests.
///
/// One map under one lock, every question answered by looking at every task. It keeps every promise of
/// [`Store`] but the first: it forgets everything when it is dropped.
#[derive(Default)]
pub struct MemoryStore {
    kept: Mutex<Everything>,
}

#[derive(Default)]
struct Everything {
    tasks: BTreeMap<TaskId, Kept>,
    specs: HashMap<SpecId, ToolSpec>,
    nodes: i64,
    keys: HashMap<String, Vec<SigningKey>>,
    ended_sessions: HashMap<SessionKey, UnixMillis>,
    listeners: Vec<Listener>,
}

impl Everything {
    /// Hints go out under the lock, so they are in order; a listener must not call the store anyway.
    fn tell(&self, tasks: &[&Task]) {
        let hint = |task: &&Task| Hint {
            task: task.id.clone(),
            version: task.version,
        };
        let hints: Vec<Hint> = tasks.iter().map(hint).collect();
        if hints.is_empty() {
            return;
        }
        for listener in &self.listeners {
            listener(&hints);
        }
    }

    fn forget_sessions(&mut self, at: UnixMillis) {
        self.ended_sessions.retain(|_, until| *until > at);
    }

    /// What the same call came to when it was made before.
    fn repeated(&self, new: &NewTask) -> Option<Result<Created, CreateError>> {
        let idempotency = new.idempotency.as_ref()?;
        let same = |kept: &&Kept| {
            kept.task.owner.principal == new.owner.principal
                && kept.task.tool == new.tool
                && (kept.idempotency.as_ref()).is_some_and(|first| first.key == idempotency.key)
        };
        let first = self.tasks.values().find(same)?;
        Some(if first.idempotency.as_ref() == Some(idempotency) {
            Ok(Created::Existing(first.task.clone()))
        } else {
            Err(CreateError::KeyTaken)
        })
    }

    fn admit(&self, new: &NewTask, more: Usage) -> Result<(), QuotaExceeded> {
        let mine = self.usage(Some(&new.owner.principal));
        new.quota.admit(QuotaScope::Principal, mine, more)?;
        new.quota.admit(QuotaScope::All, self.usage(None), more)
    }

    /// Adds up all there is.
    fn usage(&self, of: Option<&Principal>) -> Usage {
        let theirs = |kept: &&Kept| of.is_none_or(|principal| kept.task.owner.principal == *principal);
        let mut sum = Usage::default();
        for usage in self.tasks.values().filter(theirs).map(Kept::usage) {
            sum.live += usage.live;
            sum.bytes += usage.bytes;
        }
        sum
    }

    /// The tasks that `wanted` ranks, in order of their rank.
    fn ranked<R: Ord>(&self, wanted: impl Fn(&Task) -> Option<R>) -> Vec<&Task> {
        let mut found: Vec<(R, &Task)> = self
            .tasks
            .values()
            .filter_map(|kept| Some((wanted(&kept.task)?, &kept.task)))
            .collect();
        found.sort_by(|(a, _), (b, _)| a.cmp(b));
        found.into_iter().map(|(_, task)| task).collect()
    }

    /// Writes what was decided, and tells the parent of a task that it ended. A parent that is over learns nothing more.
    fn write(&mut self, decision: Decision<'_>, at: UnixMillis) {
        let Some(kept) = self.tasks.get_mut(&decision.task.id) else {
            return;
        };
        let changed = decision.task.version != kept.task.version;
        let end = end_for_parent(&decision.task, decision.outcome.as_ref(), at);
        kept.write(decision);
        if changed {
            let task = kept.task.clone();
            self.tell(&[&task]);
        }
        if let Some(change) = end {
            self.tell_parent(&change);
        }
    }

    fn decided_start<'a>(&self, change: &'a Change) -> Result<Decision<'a>, ApplyError> {
        let parent = self.tasks.get(&change.task).ok_or(ApplyError::NotFound)?;
        decide_start(&parent.task, change)
    }

    fn tell_parent(&mut self, change: &Change) {
        let parent = self.tasks.get(&change.task).map(|kept| &kept.task);
        if let Some(Ok(decision)) = parent.map(|parent| decide(parent, change)) {
            self.write(decision, change.at);
        }
    }

    /// Applies one event, which the caller has found to be legal, to each of `ids`.
    fn take(&mut self, ids: Vec<TaskId>, event: &Event, at: UnixMillis) -> Vec<Claimed> {
        let mut taken = Vec::new();
        for id in ids {
            let Some(kept) = self.tasks.get_mut(&id) else { continue };
            let Ok((task, _)) = transition(&kept.task, event, at) else {
                continue;
            };
            kept.task = task;
            taken.push(Claimed {
                task: kept.task.clone(),
                arguments: kept.arguments.clone(),
                requestor: kept.requestor.clone(),
            });
        }
        self.tell(&taken.iter().map(|claimed| &claimed.task).collect::<Vec<_>>());
        taken
    }
}

impl MemoryStore {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, Everything> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The model answers at once.
fn answer<'a, T: Send + 'a>(value: T) -> BoxFuture<'a, T> {
    Box::pin(ready(value))
}

fn first(tasks: Vec<&Task>, limit: usize) -> Vec<Task> {
    tasks.into_iter().take(limit).cloned().collect()
}

fn ids(tasks: Vec<&Task>, limit: usize) -> Vec<TaskId> {
    tasks.into_iter().take(limit).map(|task| task.id.clone()).collect()
}

fn queued_for<'a>(tool: &'a str) -> impl Fn(&Task) -> Option<(UnixMillis, TaskId)> + 'a {
    move |task| (task.state == State::Queued && *task.tool == *tool).then(|| (task.ready_at, task.id.clone()))
}

/// Who would cancel it: the one that started it, while it lives and is not asked to stop.
fn parent_of(task: &Task) -> Option<&TaskId> {
    let lineage = task.lineage.as_ref()?;
    (!task.is_done() && task.stop.is_none()).then_some(&lineage.parent)
}

impl Store for MemoryStore {
    fn open_node(&self, _host: &HostId, at: UnixMillis) -> BoxFuture<'_, Result<NodeId, StoreError>> {
        let mut all = self.lock();
        all.forget_sessions(at);
        all.nodes += 1;
        answer(Ok(NodeId(all.nodes)))
    }

    fn put_spec(&self, spec: ToolSpec) -> BoxFuture<'_, Result<(), StoreError>> {
        self.lock().specs.entry(spec.id.clone()).or_insert(spec);
        answer(Ok(()))
    }

    fn spec(&self, id: &SpecId) -> BoxFuture<'_, Result<Option<ToolSpec>, StoreError>> {
        answer(Ok(self.lock().specs.get(id).cloned()))
    }

    fn create(&self, new: NewTask) -> BoxFuture<'_, Result<Created, CreateError>> {
        let mut all = self.lock();
        if let Some(first) = all.repeated(&new) {
            return answer(first);
        }
        let start = new.parent.as_ref().map(|parent| parent.change(new.at));
        let start = match start.as_ref().map(|change| all.decided_start(change)).transpose() {
            Ok(start) => start,
            Err(refused) => return answer(Err(CreateError::Parent(refused))),
        };
        let kept = Kept::new(new.clone());
        if let Err(exceeded) = all.admit(&new, kept.usage()) {
            return answer(Err(exceeded.into()));
        }
        if !all.specs.contains_key(&new.spec) {
            return answer(Err(refusal::spec_unknown().into()));
        }
        if all.tasks.contains_key(&new.id) {
            return answer(Err(refusal::id_taken().into()));
        }
        let task = kept.task.clone();
        let end = end_for_parent(&task, kept.outcome.as_ref(), new.at);
        all.tasks.insert(task.id.clone(), kept);
        all.tell(&[&task]);
        if let Some(decision) = start {
            all.write(decision, new.at);
        }
        if let Some(change) = end {
            all.tell_parent(&change);
        }
        answer(Ok(Created::New(task)))
    }

    fn usage(&self, of: Option<&Principal>) -> BoxFuture<'_, Result<Usage, StoreError>> {
        answer(Ok(self.lock().usage(of)))
    }

    fn apply(&self, change: Change) -> BoxFuture<'_, Result<Task, ApplyError>> {
        let mut all = self.lock();
        let Some(kept) = all.tasks.get(&change.task) else {
            return answer(Err(ApplyError::NotFound));
        };
        let decision = match decide(&kept.task, &change) {
            Ok(decision) => decision,
            Err(refused) => return answer(Err(refused)),
        };
        let task = decision.task.clone();
        all.write(decision, change.at);
        answer(Ok(task))
    }

    fn claim(&self, claim: Claim) -> BoxFuture<'_, Result<Vec<Claimed>, StoreError>> {
        let mut all = self.lock();
        let queue = all.ranked(|task| queued_for(&claim.tool)(task).filter(|(ready, _)| *ready <= claim.at));
        let ids = ids(queue, claim.limit);
        let event = Event::Claimed {
            node: claim.node,
            host: claim.host,
        };
        answer(Ok(all.take(ids, &event, claim.at)))
    }

    fn adopt(
        &self,
        node: NodeId,
        host: &HostId,
        limit: usize,
        at: UnixMillis,
    ) -> BoxFuture<'_, Result<Vec<Claimed>, StoreError>> {
        let mut all = self.lock();
        let orphans = all.ranked(|task| {
            let attempt = task.active_attempt()?;
            let can_take = attempt.host.as_ref().is_none_or(|bound| bound == host);
            (attempt.node < node && can_take).then(|| (attempt.node, task.id.clone()))
        });
        let ids = ids(orphans, limit);
        answer(Ok(all.take(ids, &Event::Adopted { node }, at)))
    }

    fn forsaken(&self, node: NodeId, limit: usize) -> BoxFuture<'_, Result<Vec<Task>, StoreError>> {
        let all = self.lock();
        let wanted = |task: &Task| {
            (!task.is_done() && !task.announced && !task.keyed && task.front < node)
                .then(|| (task.front, task.id.clone()))
        };
        answer(Ok(first(all.ranked(wanted), limit)))
    }

    fn queued_tools(&self) -> BoxFuture<'_, Result<Vec<Arc<str>>, StoreError>> {
        let all = self.lock();
        let queued = all.tasks.values().filter(|kept| kept.task.state == State::Queued);
        let tools: BTreeSet<Arc<str>> = queued.map(|kept| kept.task.tool.clone()).collect();
        answer(Ok(tools.into_iter().collect()))
    }

    fn next_ready(&self, tool: &str) -> BoxFuture<'_, Result<Option<UnixMillis>, StoreError>> {
        let all = self.lock();
        answer(Ok(all.ranked(queued_for(tool)).first().map(|task| task.ready_at)))
    }

    fn get(&self, scope: &Scope, id: &TaskId) -> BoxFuture<'_, Result<Option<Record>, StoreError>> {
        let all = self.lock();
        let visible = all
            .tasks
            .get(id)
            .filter(|kept| kept.task.announced && kept.task.owner.principal == scope.principal);
        answer(Ok(visible.map(Kept::record)))
    }

    fn peek(&self, id: &TaskId) -> BoxFuture<'_, Result<Option<Record>, StoreError>> {
        answer(Ok(self.lock().tasks.get(id).map(Kept::record)))
    }

    fn answer(&self, id: &TaskId, key: &InputKey) -> BoxFuture<'_, Result<Option<Input>, StoreError>> {
        let all = self.lock();
        let answered = all.tasks.get(id).and_then(|kept| {
            let mut inputs = kept.inputs.iter();
            inputs.find(|input| input.key == *key && matches!(input.state, InputState::Answered(_)))
        });
        answer(Ok(answered.cloned()))
    }

    fn journal(&self, id: &TaskId, after: u32, limit: usize) -> BoxFuture<'_, Result<Vec<Entry>, StoreError>> {
        let all = self.lock();
        let entries = all.tasks.get(id).map_or(&[][..], |kept| &kept.journal);
        let later = entries.iter().filter(|entry| entry.seq > after);
        answer(Ok(later.take(limit).cloned().collect()))
    }

    fn emitted(&self, id: &TaskId, after: u32, limit: usize) -> BoxFuture<'_, Result<Vec<Entry>, StoreError>> {
        let all = self.lock();
        let entries = all.tasks.get(id).map_or(&[][..], |kept| &kept.journal);
        let emitted = entries
            .iter()
            .filter(|entry| entry.seq > after && entry.key.kind == EntryKind::Emit);
        answer(Ok(emitted.take(limit).cloned().collect()))
    }

    fn children(&self, parent: &TaskId, limit: usize) -> BoxFuture<'_, Result<Vec<Task>, StoreError>> {
        let all = self.lock();
        let wanted = |task: &Task| {
            parent_of(task)
                .filter(|found| *found == parent)
                .map(|_| task.id.clone())
        };
        answer(Ok(first(all.ranked(wanted), limit)))
    }

    fn stranded(&self, limit: usize) -> BoxFuture<'_, Result<Vec<Task>, StoreError>> {
        let all = self.lock();
        let goes_on = |id: &TaskId| {
            let parent = all.tasks.get(id).map(|kept| &kept.task);
            parent.is_some_and(|parent| !parent.is_done() && parent.stop.is_none())
        };
        let wanted = |task: &Task| {
            let parent = parent_of(task).filter(|parent| !goes_on(parent))?;
            Some((parent.clone(), task.id.clone()))
        };
        answer(Ok(first(all.ranked(wanted), limit)))
    }

    fn requestor(&self, id: &TaskId) -> BoxFuture<'_, Result<Option<Json>, StoreError>> {
        let all = self.lock();
        answer(Ok(all.tasks.get(id).map(|kept| kept.requestor.clone())))
    }

    fn list(&self, scope: &Scope, before: Option<&TaskId>, limit: usize) -> BoxFuture<'_, Result<Page, StoreError>> {
        let all = self.lock();
        let mut visible = all.tasks.values().rev().map(|kept| &kept.task).filter(|task| {
            task.announced
                && task.owner.principal == scope.principal
                && (scope.session.is_none() || task.owner.session == scope.session)
                && before.is_none_or(|before| task.id < *before)
        });
        let tasks = visible.by_ref().take(limit).cloned().collect();
        let more = visible.next().is_some();
        answer(Ok(Page { tasks, more }))
    }

    fn live(
        &self,
        owner: &Principal,
        session: &SessionKey,
        after: Option<&TaskId>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<Task>, StoreError>> {
        let all = self.lock();
        let live = all.tasks.values().map(|kept| &kept.task).filter(|task| {
            task.announced
                && !task.is_done()
                && task.owner.principal == *owner
                && task.owner.session.as_ref() == Some(session)
                && after.is_none_or(|after| task.id > *after)
        });
        answer(Ok(live.take(limit).cloned().collect()))
    }

    fn due(&self, at: UnixMillis, limit: usize) -> BoxFuture<'_, Result<Vec<Task>, StoreError>> {
        let all = self.lock();
        let due = all.ranked(|task| task.wake_at().filter(|wake| *wake <= at));
        answer(Ok(first(due, limit)))
    }

    fn next_wake(&self) -> BoxFuture<'_, Result<Option<UnixMillis>, StoreError>> {
        let all = self.lock();
        answer(Ok(all.tasks.values().filter_map(|kept| kept.task.wake_at()).min()))
    }

    fn expired(&self, at: UnixMillis, limit: usize) -> BoxFuture<'_, Result<Vec<TaskId>, StoreError>> {
        let all = self.lock();
        let expired = all.ranked(|task| task.delete_at().filter(|when| *when <= at));
        answer(Ok(ids(expired, limit)))
    }

    fn delete(&self, ids: Vec<TaskId>, at: UnixMillis) -> BoxFuture<'_, Result<usize, StoreError>> {
        let mut all = self.lock();
        all.forget_sessions(at);
        let before = all.tasks.len();
        for id in &ids {
            let expired = |kept: &Kept| kept.task.delete_at().is_some_and(|when| when <= at);
            if all.tasks.get(id).is_some_and(expired) {
                all.tasks.remove(id);
            }
        }
        answer(Ok(before - all.tasks.len()))
    }

    fn counts(&self) -> BoxFuture<'_, Result<Counts, StoreError>> {
        let mut counts = Counts::default();
        for kept in self.lock().tasks.values() {
            match kept.task.state {
                State::Queued => counts.queued += 1,
                State::Running => counts.running += 1,
                State::Parked => counts.parked += 1,
                State::Done(_) => {}
            }
        }
        answer(Ok(counts))
    }

    fn signing_keys(&self, purpose: &str, fresh: [u8; 32]) -> BoxFuture<'_, Result<Vec<SigningKey>, StoreError>> {
        let mut all = self.lock();
        let first = || vec![SigningKey { id: 1, secret: fresh }];
        let keys = all.keys.entry(purpose.to_owned()).or_insert_with(first).clone();
        answer(Ok(keys))
    }

    fn end_session(&self, session: &SessionKey, until: UnixMillis) -> BoxFuture<'_, Result<(), StoreError>> {
        let mut all = self.lock();
        let kept = all.ended_sessions.entry(session.clone()).or_insert(until);
        *kept = (*kept).max(until);
        answer(Ok(()))
    }

    fn session_ended(&self, session: &SessionKey) -> BoxFuture<'_, Result<bool, StoreError>> {
        answer(Ok(self.lock().ended_sessions.contains_key(session)))
    }

    fn listen(&self, listener: Listener) {
        self.lock().listeners.push(listener);
    }
}
