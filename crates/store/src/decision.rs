//! Decides what a change writes to a task, its questions and its journal, without any storage.

use longhaul_core::{
    AnsweredBy, Attempt, ChildEntry, Entry, Event, IllegalEvent, InputKey, Json, Outcome, Reason, Task, UnixMillis,
    store::{ApplyError, Change, NewTask},
    transition,
};
use std::sync::Arc;

/// All that must be written for one change, or nothing of it.
pub struct Decision<'a> {
    /// The task as it then is.
    pub task: Task,
    /// The outcome, if the change ended the task.
    pub outcome: Option<Outcome>,
    /// The writes to its questions, in order.
    pub inputs: Vec<InputWrite<'a>>,
    /// The writes to its journal, in order.
    pub entries: Vec<EntryWrite<'a>>,
}

impl Decision<'_> {
    /// A new task, as it is first written, without [what it asks](Self::asking).
    pub fn of_new(new: &NewTask) -> Self {
        let (task, outcome) = new.task();
        Self {
            outcome,
            ..Self::of(task)
        }
    }

    /// The same with the question that a task which has to be confirmed is written with; `None` for any other.
    pub fn asking<'a>(&self, new: &'a NewTask) -> Option<Decision<'a>> {
        let (key, confirmation) = new.asks()?;
        let asked = InputWrite::Asked {
            key,
            name: None,
            request: &confirmation.request,
            at: new.created_at,
        };
        Some(Decision {
            inputs: vec![asked],
            ..Decision::of(self.task.clone())
        })
    }

    /// A change of the task alone.
    pub fn of(task: Task) -> Self {
        Self {
            task,
            outcome: None,
            inputs: Vec::new(),
            entries: Vec::new(),
        }
    }
}

/// One write to a task's questions.
pub enum InputWrite<'a> {
    /// A new one, open.
    Asked {
        /// What it is answered by.
        key: InputKey,
        /// What its author calls it.
        name: Option<&'a Arc<str>>,
        /// The question.
        request: &'a Json,
        /// When.
        at: UnixMillis,
    },
    /// An open one has its answer.
    Answered {
        /// Which one.
        key: InputKey,
        /// The answer.
        answer: &'a Json,
        /// Who gave it.
        by: AnsweredBy,
        /// When.
        at: UnixMillis,
    },
    /// An open one is open no longer, and has no answer.
    Withdrawn {
        /// Which one.
        key: InputKey,
        /// When.
        at: UnixMillis,
    },
}

/// One write to a task's journal.
pub enum EntryWrite<'a> {
    /// A new entry.
    Appended(&'a Entry),
    /// A new value of an existing entry, and the attempt that wrote it, if one did.
    Rewritten {
        /// Its position.
        seq: u32,
        /// The new value.
        value: &'a Json,
        /// The attempt.
        epoch: Option<u32>,
    },
}

/// Runs the events of `change` over `task`.
///
/// # Errors
/// Why the change is refused, as [`TaskStore::apply`](longhaul_core::store::TaskStore::apply) says.
pub fn decide<'a>(task: &Task, change: &'a Change) -> Result<Decision<'a>, ApplyError> {
    if was_made_before(task, change) {
        return Ok(Decision::of(task.clone()));
    }
    check_fence(task, change)?;
    let mut open = task.open_inputs.clone();
    let mut decision = Decision::of(task.clone());
    for event in &change.events {
        let journaled = decision.task.journaled;
        let outcome = transition(&mut decision.task, event, change.at)?;
        decision.outcome = decision.outcome.or(outcome);
        match event {
            Event::InputRequested { key, name, request } => {
                open.push(key.clone());
                decision.inputs.push(InputWrite::Asked {
                    key: key.clone(),
                    name: name.as_ref(),
                    request,
                    at: change.at,
                });
            }
            Event::InputAnswered { key, answer, by } => {
                open.retain(|other| other != key);
                decision.inputs.push(InputWrite::Answered {
                    key: key.clone(),
                    answer,
                    by: *by,
                    at: change.at,
                });
            }
            Event::Journaled(entry) if entry.seq > journaled => decision.entries.push(EntryWrite::Appended(entry)),
            Event::Journaled(Entry { seq, value, epoch, .. }) => decision.entries.push(EntryWrite::Rewritten {
                seq: *seq,
                value,
                epoch: Some(*epoch),
            }),
            Event::ChildEnded { entry: seq, value } => decision.entries.push(EntryWrite::Rewritten {
                seq: *seq,
                value,
                epoch: None,
            }),
            _ => {}
        }
    }
    let withdrawn = open.into_iter().filter(|key| !decision.task.open_inputs.contains(key));
    decision
        .inputs
        .extend(withdrawn.map(|key| InputWrite::Withdrawn { key, at: change.at }));
    if let (Some(number), Some(attempt), [_, ..]) = (change.number, decision.task.attempt.as_mut(), &*change.events) {
        attempt.changes = number;
    }
    Ok(decision)
}

/// Whether the worker makes this change again, because it does not know that it has made it. Its attempt may have ended with it.
fn was_made_before(task: &Task, change: &Change) -> bool {
    let of_attempt = |attempt: &&Attempt| Some(attempt.fence()) == change.fence;
    let latest = task.attempt.as_ref().filter(of_attempt).map(|attempt| attempt.changes);
    change.number.is_some() && change.number <= latest
}

/// What `parent` writes of itself when it starts another task. A parent that must stop starts nothing, because cancelling its
/// children must end.
///
/// # Errors
/// Why the parent cannot start it.
pub fn decide_start<'a>(parent: &Task, change: &'a Change) -> Result<Decision<'a>, ApplyError> {
    let decision = decide(parent, change)?;
    if parent.stop.is_some() {
        return Err(ApplyError::Illegal(IllegalEvent {
            state: parent.state,
            event: change.events.first().map_or("", Event::name),
            reason: Reason::Stopping,
        }));
    }
    Ok(decision)
}

/// What is written of the task that `new` [replaces](NewTask::replaces).
///
/// # Errors
/// Why it cannot be ended.
pub fn decide_replacement<'a>(before: &Task, new: &NewTask, change: &'a Change) -> Result<Decision<'a>, ApplyError> {
    if before.owner.principal != new.owner.principal {
        return Err(ApplyError::NotFound);
    }
    let decision = decide(before, change)?;
    if decision.outcome.is_none() || decision.task.active_attempt().is_some() {
        return Err(ApplyError::Illegal(IllegalEvent {
            state: before.state,
            event: change.events.first().map_or("", Event::name),
            reason: Reason::WrongState,
        }));
    }
    Ok(decision)
}

/// The change of the parent if a task has ended, and has one.
pub fn end_for_parent(ended: &Decision<'_>, at: UnixMillis) -> Option<Change> {
    let (lineage, outcome) = (ended.task.lineage.as_ref()?, ended.outcome.as_ref()?);
    let event = Event::ChildEnded {
        entry: lineage.entry,
        value: ChildEntry::of_ended(&ended.task.id, outcome),
    };
    Some(Change::of(&lineage.parent, event, at))
}

/// Invariant 3: a fence must be that of the active attempt, a worker's events need one, and an entry records its attempt.
fn check_fence(task: &Task, change: &Change) -> Result<(), ApplyError> {
    let right = match change.fence {
        Some(fence) => {
            let own = |event: &Event| !matches!(event, Event::Journaled(entry) if entry.epoch != fence.epoch);
            task.attempt_held_by(fence).is_some() && change.events.iter().all(own)
        }
        None => !change.events.iter().any(Event::needs_fence),
    };
    if right { Ok(()) } else { Err(ApplyError::Stale) }
}
