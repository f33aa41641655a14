//! Which commits need not wait for the disk: those of tasks that are not known outside of this process.
//!
//! Nothing is announced before it is on disk (invariant 1). The task behind a plain call is not announced: its caller waits for an answer
//! and has no task id and no key to come back with, and when this process ends, in whatever way, the next one cancels the task
//! ([`orphaned_calls`](longhaul_core::Store::orphaned_calls)). So no client depends on its row surviving a loss of power, and its commits are
//! *deferred*: they are not followed by an fsync of their own. They survive `kill -9` like all others, and the next *synced* commit brings
//! them to the disk together with its own pages, which come after theirs in the same log. So a loss of power leaves a prefix of what was
//! committed, and never less than the last synced commit.
//!
//! Deferred are the creation of such a task, and what its attempt reports: its start, its status and progress, its end. Everything else is
//! synced, and most of it makes the task synced from then on, because it leaves a mark in the row:
//!
//! | what | why it is synced |
//! | --- | --- |
//! | promoted | the client gets the task id |
//! | a question asked, answered, withdrawn | the client sees the question, and can return to the task |
//! | journaled, advanced, suspended, blocked | a step that was recorded is never run again, whatever it has done outside |
//! | asked to stop, out of time, abandoned | others than the attempt cause these, and rarely |
//! | claimed from its queue | a claim takes whichever task is first; the task itself stays deferred |
//!
//! Three changes are synced although the task is not known outside. Work outside of this process leaves files, and only the row knows
//! where, so the creation of a task that is claimed at once for such work is synced. So is the start of such work, whoever owns the task: a
//! row that says "not started yet" is the proof that missing files never existed, and must not be what a loss of power leaves of work that has
//! run. (Later reports of such work may get lost: recovery judges by the files.) The third is the creation of a child, because it is also an
//! entry in the journal of its parent.

use longhaul_core::{AttemptEnd, AttemptState, Event, Task, TaskId, store::Change};
use std::collections::HashSet;

/// Whether a change may be committed without an fsync, as far as that is known before it is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Durability {
    /// It may not.
    Synced,
    /// It may: it creates a task that is not known outside.
    Deferred,
    /// It may as long as this task is not known outside: its attempt reports.
    DeferredFor(TaskId),
}

impl Durability {
    /// Of the creation of `task`.
    pub(super) fn of_creation(task: &Task) -> Self {
        if is_deferrable(task) {
            Self::Deferred
        } else {
            Self::Synced
        }
    }

    /// Of a change of a task.
    pub(super) fn of_change(change: &Change) -> Self {
        if change.events.iter().all(is_report) {
            Self::DeferredFor(change.task.clone())
        } else {
            Self::Synced
        }
    }
}

/// Whether an attempt reports about itself, and nothing that is visible outside.
fn is_report(event: &Event) -> bool {
    match event {
        Event::Started | Event::Reported { .. } => true,
        Event::AttemptEnded(end) => match end {
            AttemptEnd::Finished(_)
            | AttemptEnd::Failed { .. }
            | AttemptEnd::Stopped(_)
            | AttemptEnd::NeverStarted { .. } => true,
            AttemptEnd::Suspended { .. } | AttemptEnd::Blocked(_) => false,
        },
        Event::Promoted
        | Event::InputRequested { .. }
        | Event::InputAnswered { .. }
        | Event::InputWithdrawn { .. }
        | Event::Journaled(_)
        | Event::Advanced
        | Event::TimerFired
        | Event::Unblocked { .. }
        | Event::BlockedTimedOut
        | Event::ChildEnded { .. }
        | Event::CancelRequested(_)
        | Event::DeadlinePassed
        | Event::QueueTimedOut
        | Event::Abandoned(_)
        | Event::TtlExtended { .. }
        | Event::Claimed { .. }
        | Event::Adopted { .. } => false,
    }
}

/// Whether a task's row shows that it is not known outside, and it is not about to start work outside of this process.
fn is_deferrable(task: &Task) -> bool {
    let starts_outside = (task.attempt.as_ref())
        .is_some_and(|attempt| attempt.state == AttemptState::Starting && attempt.host.is_some());
    !starts_outside
        && !task.announced
        && !task.keyed
        && task.lineage.is_none()
        && task.inputs_asked == 0
        && task.journaled == 0
        && task.stop.is_none()
        && !task.is_done()
}

/// The live tasks whose changes may be deferred. After a restart there are none: those that were deferred before are cancelled, and a task that
/// is not known to be deferrable is synced.
#[derive(Default)]
pub(super) struct DeferredTasks(HashSet<TaskId>);

impl DeferredTasks {
    /// Whether a change may be committed without an fsync.
    pub(super) fn allow(&self, durability: &Durability) -> bool {
        match durability {
            Durability::Synced => false,
            Durability::Deferred => true,
            Durability::DeferredFor(task) => self.0.contains(task),
        }
    }

    /// Applies what a committed transaction changed.
    pub(super) fn apply(&mut self, changes: DurabilityChanges) {
        for change in changes.0 {
            match change {
                DurabilityChange::Deferred(task) => self.0.insert(task),
                DurabilityChange::Synced(task) => self.0.remove(&task),
            };
        }
    }
}

/// Which tasks became deferrable or synced in one transaction, in order.
#[derive(Debug, Default)]
pub(super) struct DurabilityChanges(Vec<DurabilityChange>);

#[derive(Debug)]
enum DurabilityChange {
    Deferred(TaskId),
    Synced(TaskId),
}

impl DurabilityChanges {
    /// Notes a new task.
    pub(super) fn created(&mut self, task: &Task) {
        if is_deferrable(task) {
            self.0.push(DurabilityChange::Deferred(task.id.clone()));
        }
    }

    /// Notes a changed task.
    pub(super) fn changed(&mut self, before: &Task, after: &Task) {
        match (is_deferrable(before), is_deferrable(after)) {
            (true, false) => self.0.push(DurabilityChange::Synced(after.id.clone())),
            (false, true) => self.0.push(DurabilityChange::Deferred(after.id.clone())),
            _ => {}
        }
    }
}
