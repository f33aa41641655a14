//! Which commits need not wait for the disk: those of which nobody can have heard.
//!
//! Nothing is announced before it is on disk (invariant 1). The task behind a plain call is not announced: its caller waits for an answer
//! and learns no id, has no key to come back by, and when this process ends, in whatever way, the next one cancels the task
//! ([`forsaken`](longhaul_core::Store::forsaken)). Whether its row outlived a loss of power can make no difference to anyone. So its commits are
//! not followed by an fsync of their own. They survive `kill -9` like all others, and the next synced commit brings them to the disk
//! together with its own pages, which stand behind theirs in the same log: what a loss of power leaves is always a beginning of what was
//! committed, and never less than the last synced commit.
//!
//! Unsynced are the creation of such a task, and what its attempt says of itself: that it has begun, its news, its end. Anything else is
//! synced, and most of it ends the silence for good, because it leaves a mark in the row:
//!
//! | what | why it is synced |
//! | --- | --- |
//! | promoted | its id is given away |
//! | a question asked, answered, withdrawn | its client is told of it, and how to come back to it |
//! | journaled, come further, suspended, blocked | a step that is written is never run again, whatever it has done outside |
//! | asked to stop, out of time, abandoned | others than its attempt say so, and rarely |
//! | claimed from its queue | a claim takes whoever is first there; the task stays unheard |
//!
//! Three changes are synced although nobody hears of the task. Work outside of this process leaves files, and only the row knows where: so the
//! creation of a task that is claimed at once for such work is synced. So is the start of such work, whoever the task belongs to: a row that
//! says "not started yet" is the proof that missing files never were, and must not be what a loss of power leaves of work that has run.
//! (What the work says later may get lost: recovery judges by the files.) The third is the creation of a task which another one starts,
//! since it is also an entry in that one's journal.

use longhaul_core::{AttemptEnd, AttemptState, Event, Task, TaskId, store::Change};
use std::collections::HashSet;

/// Who may hear of a change, as far as it can be told before it is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Effect {
    /// Someone.
    Heard,
    /// Nobody: a task begins of which nobody hears.
    Begun,
    /// Nobody, as long as nobody has heard of this task: its attempt speaks of itself.
    Reported(TaskId),
}

impl Effect {
    /// Of the creation of `task`.
    pub(super) fn of_creation(task: &Task) -> Self {
        if is_unheard(task) { Self::Begun } else { Self::Heard }
    }

    /// Of a change of a task.
    pub(super) fn of_change(change: &Change) -> Self {
        if change.events.iter().all(is_report) {
            Self::Reported(change.task.clone())
        } else {
            Self::Heard
        }
    }
}

/// Whether an attempt speaks of itself, and of nothing that anyone else may know.
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
        | Event::CameFurther
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

/// Whether nothing in a task's row says that someone may have heard of it, and it is not about to start work outside of this process.
fn is_unheard(task: &Task) -> bool {
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

/// The live tasks of which nobody has heard, and whose changes may go without a sync. After a restart there are none, and those that began
/// before it are cancelled: what is not known to be unheard is synced.
#[derive(Default)]
pub(super) struct Unheard(HashSet<TaskId>);

impl Unheard {
    /// Whether nobody can have heard of what a change is about, so that it may be committed without an fsync.
    pub(super) fn covers(&self, effect: &Effect) -> bool {
        match effect {
            Effect::Heard => false,
            Effect::Begun => true,
            Effect::Reported(task) => self.0.contains(task),
        }
    }

    /// A transaction is committed.
    pub(super) fn learn(&mut self, turns: Turns) {
        for turn in turns.0 {
            match turn {
                Turn::Unheard(task) => self.0.insert(task),
                Turn::Heard(task) => self.0.remove(&task),
            };
        }
    }
}

/// What one transaction makes of the tasks of which nobody has heard, in order.
#[derive(Debug, Default)]
pub(super) struct Turns(Vec<Turn>);

#[derive(Debug)]
enum Turn {
    Unheard(TaskId),
    Heard(TaskId),
}

impl Turns {
    /// A task has begun.
    pub(super) fn began(&mut self, task: &Task) {
        if is_unheard(task) {
            self.0.push(Turn::Unheard(task.id.clone()));
        }
    }

    /// A task has changed.
    pub(super) fn changed(&mut self, before: &Task, after: &Task) {
        match (is_unheard(before), is_unheard(after)) {
            (true, false) => self.0.push(Turn::Heard(after.id.clone())),
            (false, true) => self.0.push(Turn::Unheard(after.id.clone())),
            _ => {}
        }
    }
}
