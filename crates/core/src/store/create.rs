//! What is written when a task is created.

use super::{Change, Record, ScheduledStart};
use crate::{
    Confirmation, Entry, Event, Fence, HostId, Input, InputKey, InputState, Json, NodeId, Outcome, Priority, Quota,
    Task, TaskHeader,
};
use std::{ops::Deref, sync::Arc};

/// The result of a creation.
#[derive(Debug, Clone, PartialEq)]
pub enum Created {
    /// It was written.
    New(Task),
    /// The same call was made before, under the same idempotency key: this is its task as it now is, and nothing was written.
    Existing(Task),
    /// A task of the principal with the same [unique value](NewTask::unique) and the same arguments is live: this is that task as it now is, and nothing
    /// was written.
    Joined(Task),
}

impl Created {
    /// The task, old or new.
    pub fn task(&self) -> &Task {
        match self {
            Self::New(task) | Self::Existing(task) | Self::Joined(task) => task,
        }
    }

    /// The task, old or new.
    pub fn into_task(self) -> Task {
        match self {
            Self::New(task) | Self::Existing(task) | Self::Joined(task) => task,
        }
    }
}

/// Makes a call that arrives twice one call. A key is unique with principal and tool, and is free again when its
/// task is deleted.
#[derive(Clone, PartialEq, Eq)]
pub struct Idempotency {
    /// The caller's name for the call. Opaque.
    pub key: Arc<str>,
    /// The digest of the arguments in a canonical form.
    pub digest: [u8; 32],
}

/// Whoever knows the key gets the task, so a debug print does not show it.
impl std::fmt::Debug for Idempotency {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Idempotency")
    }
}

/// Makes a task the only live one of its tool with this value. The value is free again when the task is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Uniqueness {
    /// The digest of the value: values can be longer than an index takes.
    pub value: [u8; 32],
    /// The digest of the arguments in a canonical form.
    pub arguments: [u8; 32],
}

/// A task to be created. The fields of its header can be read as its own.
#[derive(Debug, Clone, PartialEq)]
pub struct NewTask {
    /// The part that never changes. The id is new, and the definition was put before.
    pub header: TaskHeader,
    /// Whether its id is given away at once.
    pub announced: bool,
    /// Whether a store that [keeps plain calls in memory](super::StoreCapabilities::plain_calls_in_memory) may keep this one there: it is lost when the
    /// process ends, and nobody would ask for it then. Other stores ignore it.
    pub in_memory: bool,
    /// Its [`Task::priority`].
    pub priority: Priority,
    /// The arguments, as they came.
    pub arguments: Json,
    /// Who calls: an object that the runtime writes and reads, and that is no part of the task's [`Record`].
    pub requestor: Json,
    /// Claim it in the same write, for a node that has a free slot. One with a [group](TaskHeader::group) is queued all the same.
    pub claim: Option<(NodeId, Option<HostId>)>,
    /// What is asked before it runs: it is suspended until that is answered, and not claimed in the same write.
    pub confirmation: Option<Box<Confirmation>>,
    /// End it in the same write: a legacy call with bad arguments gets a failed task.
    pub outcome: Option<Outcome>,
    /// The caller's name for the call, if it may be made twice.
    pub idempotency: Option<Idempotency>,
    /// What no other live task of its tool may have. Such a task is [kept](Task::keyed), since its caller can make the same call again and join it.
    pub unique: Option<Uniqueness>,
    /// How much may be kept with it.
    pub quota: Quota,
    /// What the parent writes, if the header's lineage names one, in the same write.
    pub parent: Option<ParentEntry>,
    /// What of another task's journal it begins with.
    pub history: Option<Box<History>>,
    /// The end of a task of the same principal whose place the new one takes, in the same write: both happen or neither. The change must leave that task
    /// over, with no attempt that has still to stop. It is not the parent.
    pub replaces: Option<Box<Change>>,
    /// The schedule that it is the start of, whose row is changed in the same write: both happen or neither.
    pub schedule: Option<Box<ScheduledStart>>,
}

/// The beginning of another task's journal, which a new task takes over: its code is replayed from there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct History {
    entries: Vec<Entry>,
    inputs: Vec<Input>,
    inputs_asked: u32,
}

impl History {
    /// The entries and the questions that they name. `inputs_asked` is how many questions the other task has asked: their keys are not used again.
    ///
    /// `None` unless the entries are numbered from 1 without gaps and no question is open.
    pub fn new(entries: Vec<Entry>, inputs: Vec<Input>, inputs_asked: u32) -> Option<Self> {
        let are_numbered = (1..).zip(&entries).all(|(seq, entry)| entry.seq == seq);
        let are_settled = inputs.iter().all(|input| input.state != InputState::Open);
        (are_numbered && are_settled).then_some(Self {
            entries,
            inputs,
            inputs_asked,
        })
    }

    /// The entries, in order.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The questions.
    pub fn inputs(&self) -> &[Input] {
        &self.inputs
    }

    fn journaled(&self) -> u32 {
        self.entries.last().map_or(0, |entry| entry.seq)
    }
}

/// What a task writes when it starts another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParentEntry {
    /// The right of the parent's attempt to write.
    pub fence: Fence,
    /// The parent's entry, whose position is the [`Lineage::entry`](crate::Lineage::entry).
    pub entry: Entry,
}

impl Deref for NewTask {
    type Target = TaskHeader;

    fn deref(&self) -> &TaskHeader {
        &self.header
    }
}

impl NewTask {
    /// The change of the parent that goes with the creation; `None` without a parent.
    pub fn parent_change(&self) -> Option<Change> {
        let (parent, lineage) = (self.parent.as_ref()?, self.lineage.as_ref()?);
        Some(Change {
            task: lineage.parent.clone(),
            fence: Some(parent.fence),
            events: vec![Event::Journaled(parent.entry.clone())],
            at: self.created_at,
            number: None,
            can_wait: false,
        })
    }

    /// The confirmation that the task awaits when it is first written: one that is over asks nothing.
    pub fn asks(&self) -> Option<(InputKey, &Confirmation)> {
        let confirmation = self.confirmation.as_deref().filter(|_| self.outcome.is_none())?;
        let asked = self.history.as_ref().map_or(0, |history| history.inputs_asked);
        Some((InputKey::nth(asked + 1), confirmation))
    }

    /// The task as it is first written: queued, or claimed, or suspended until it is confirmed, or over and with its outcome.
    pub fn task(&self) -> (Task, Option<Outcome>) {
        let now = self.created_at;
        let mut task = Task {
            header: Arc::new(self.header.clone()),
            announced: self.announced,
            keyed: self.idempotency.is_some() || self.unique.is_some(),
            confirm_by: self.confirmation.as_ref().map(|confirmation| confirmation.by),
            state: crate::State::Queued,
            waits_for_group: self.group.is_some(),
            stop: None,
            attempt: None,
            attempts_used: 0,
            updated_at: now,
            priority: self.priority,
            ready_at: now,
            announced_until: now.plus(self.retention),
            retry_until: None,
            ended_at: None,
            status: None,
            progress: None,
            open_inputs: Vec::new(),
            inputs_asked: self.history.as_ref().map_or(0, |history| history.inputs_asked),
            journaled: self.history.as_ref().map_or(0, |history| history.journaled()),
            woken: 0,
            resume_at: None,
            blocked: None,
            version: 1,
        };
        if let Some((key, confirmation)) = self.asks() {
            task.state = crate::State::Suspended;
            task.status = Some(confirmation.by.waits().into());
            task.inputs_asked += 1;
            task.open_inputs.push(key);
            task.resume_at = Some(confirmation.until);
            return (task, None);
        }
        let event = match (&self.outcome, &self.claim) {
            (Some(outcome), _) => Some(Event::Abandoned(outcome.clone())),
            (None, Some((node, host))) => Some(Event::Claimed {
                node: *node,
                host: host.clone(),
            }),
            (None, None) => None,
        };
        // A queued task that is ready takes either event. One that waits for its group stays queued, and is claimed like any other.
        let outcome = event.and_then(|event| crate::transition(&mut task, &event, now).ok()?);
        (task, outcome)
    }
}

/// A plain call that was kept in memory until now, to be written.
#[derive(Debug, Clone, PartialEq)]
pub struct UnwrittenCall {
    /// The task as it is: live, without a parent, a journal or questions.
    pub task: Task,
    /// The arguments, as they came.
    pub arguments: Json,
    /// Who calls, as [`NewTask::requestor`] said.
    pub requestor: Json,
}

impl UnwrittenCall {
    /// All that a reader may see of it.
    pub fn record(&self) -> Record {
        Record {
            task: self.task.clone(),
            outcome: None,
            inputs: Vec::new(),
        }
    }
}
