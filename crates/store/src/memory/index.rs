//! Where tasks are found.
//!
//! Everything here is derived from the tasks by [`Index::shift`], which has the rule of each line once. A read costs finding its
//! position in a line, and what it returns.

use super::{lines::Lines, queues::Queues, stored_task::IndexedTask};
use longhaul_core::{
    ConcurrencyGroup, Label, NodeId, Principal, SessionKey, State, Task, TaskId, UnixMillis, store::QueuePlace,
};
use std::sync::Arc;

/// A principal's session.
pub(super) type Session = (Principal, SessionKey);
/// A principal's name for a call of a tool.
pub(super) type Call = (Principal, Arc<str>, Arc<str>);

/// A unique value of a tool.
pub(super) type UniqueValue = (Arc<str>, [u8; 32]);

/// A group of a tool.
pub(super) type Group = (Arc<str>, ConcurrencyGroup);

#[derive(Default, PartialEq)]
pub(super) struct Index {
    /// Each tool's queue.
    pub(super) queued: Queues,
    /// Each principal's queued tasks of each tool, also those that wait for their groups.
    pub(super) queued_of_principal: Lines<(Arc<str>, Principal), QueuePlace>,
    /// Active attempts, by their node.
    pub(super) held: Lines<(), NodeId>,
    /// Live plain calls whose callers cannot come back, by the node they are connected to.
    pub(super) orphanable: Lines<(), NodeId>,
    /// Live ones that were not asked to stop, by their parent.
    pub(super) children: Lines<TaskId, ()>,
    /// All of them, by their parent.
    pub(super) started: Lines<TaskId, ()>,
    /// All that are not over.
    pub(super) open: Lines<(), ()>,
    /// Blocked ones.
    pub(super) blocked: Lines<(), ()>,
    /// Announced ones.
    pub(super) owned: Lines<Principal, ()>,
    /// Announced ones that a session created.
    pub(super) of_session: Lines<Session, ()>,
    /// Those of them that are not over.
    pub(super) live: Lines<Session, ()>,
    /// By when time alone changes them.
    pub(super) waking: Lines<(), UnixMillis>,
    /// By when they may be deleted.
    pub(super) expiring: Lines<(), UnixMillis>,
    /// Those with an idempotency key.
    pub(super) keyed: Lines<Call, ()>,
    /// Live ones with a unique value.
    pub(super) unique: Lines<UniqueValue, ()>,
    /// All with a label.
    pub(super) labelled: Lines<Label, ()>,
    /// Those that count towards the limits of their groups.
    pub(super) in_group: Lines<Group, ()>,
    /// Queued ones that wait for their groups.
    pub(super) waiting_for_group: Lines<Group, QueuePlace>,
}

impl Index {
    /// Moves one task from where it was found to where it is found now. `None` before it was created, and when it is deleted.
    pub(super) fn shift(&mut self, id: &TaskId, before: Option<IndexedTask<'_>>, after: Option<IndexedTask<'_>>) {
        self.keyed.shift(id, before.and_then(keyed), after.and_then(keyed));
        self.unique.shift(id, before.and_then(unique), after.and_then(unique));
        let (before, after) = (before.map(|at| at.task), after.map(|at| at.task));
        if before.is_none() || after.is_none() {
            // They never change.
            for label in before.or(after).iter().flat_map(|task| task.labels.iter()) {
                let line = |_: &Task| (label.clone(), ());
                self.labelled.shift(id, before.map(line), after.map(line));
            }
        }
        let is_in_queue = |task: &&Task| task.is_in_queue();
        self.queued
            .shift(id, before.filter(is_in_queue), after.filter(is_in_queue));
        self.queued_of_principal.shift(
            id,
            before.and_then(queued_of_principal),
            after.and_then(queued_of_principal),
        );
        self.in_group
            .shift(id, before.and_then(in_group), after.and_then(in_group));
        self.waiting_for_group.shift(
            id,
            before.and_then(waiting_for_group),
            after.and_then(waiting_for_group),
        );
        self.held.shift(id, before.and_then(held), after.and_then(held));
        self.orphanable
            .shift(id, before.and_then(orphanable), after.and_then(orphanable));
        self.children.shift(id, before.and_then(child), after.and_then(child));
        self.started
            .shift(id, before.and_then(started), after.and_then(started));
        self.open.shift(id, before.and_then(open), after.and_then(open));
        self.blocked
            .shift(id, before.and_then(blocked), after.and_then(blocked));
        self.owned.shift(id, before.and_then(owned), after.and_then(owned));
        self.of_session
            .shift(id, before.and_then(of_session), after.and_then(of_session));
        self.live.shift(id, before.and_then(live), after.and_then(live));
        self.waking.shift(id, before.and_then(waking), after.and_then(waking));
        self.expiring
            .shift(id, before.and_then(expiring), after.and_then(expiring));
    }
}

fn queued_of_principal(task: &Task) -> Option<((Arc<str>, Principal), QueuePlace)> {
    let part = || (Arc::clone(&task.tool), task.owner.principal.clone());
    (task.state == State::Queued).then(|| (part(), QueuePlace::of(task)))
}

fn in_group(task: &Task) -> Option<(Group, ())> {
    let group = task.group.filter(|_| task.is_in_group())?;
    Some(((Arc::clone(&task.tool), group), ()))
}

fn waiting_for_group(task: &Task) -> Option<(Group, QueuePlace)> {
    let is_waiting = task.state == State::Queued && task.waits_for_group;
    let group = task.group.filter(|_| is_waiting)?;
    Some(((Arc::clone(&task.tool), group), QueuePlace::of(task)))
}

fn held(task: &Task) -> Option<((), NodeId)> {
    Some(((), task.active_attempt()?.node))
}

fn orphanable(task: &Task) -> Option<((), NodeId)> {
    task.is_bound_to_node().then_some(((), task.accepted_by))
}

fn child(task: &Task) -> Option<(TaskId, ())> {
    let lineage = task.lineage.as_ref()?;
    (!task.is_done() && task.stop.is_none()).then(|| (lineage.parent.clone(), ()))
}

fn started(task: &Task) -> Option<(TaskId, ())> {
    Some((task.lineage.as_ref()?.parent.clone(), ()))
}

fn open(task: &Task) -> Option<((), ())> {
    (!task.is_done()).then_some(((), ()))
}

fn blocked(task: &Task) -> Option<((), ())> {
    (task.state == State::Blocked).then_some(((), ()))
}

fn owned(task: &Task) -> Option<(Principal, ())> {
    task.announced.then(|| (task.owner.principal.clone(), ()))
}

fn of_session(task: &Task) -> Option<(Session, ())> {
    let session = task.owner.session.as_ref().filter(|_| task.announced)?;
    Some(((task.owner.principal.clone(), session.clone()), ()))
}

fn live(task: &Task) -> Option<(Session, ())> {
    if task.is_done() { None } else { of_session(task) }
}

fn waking(task: &Task) -> Option<((), UnixMillis)> {
    Some(((), task.wake_at()?))
}

fn expiring(task: &Task) -> Option<((), UnixMillis)> {
    Some(((), task.delete_at()?))
}

fn keyed(of: IndexedTask<'_>) -> Option<(Call, ())> {
    let key = Arc::clone(&of.idempotency?.key);
    Some((call(&of.task.owner.principal, &of.task.tool, key), ()))
}

fn unique(of: IndexedTask<'_>) -> Option<(UniqueValue, ())> {
    let unique = of.unique.filter(|_| !of.task.is_done())?;
    Some(((Arc::clone(&of.task.tool), unique.value), ()))
}

pub(super) fn call(owner: &Principal, tool: &str, key: Arc<str>) -> Call {
    (owner.clone(), tool.into(), key)
}
