//! The changes that the writer makes, on their way to it, and their answers on the way back.

use longhaul_core::{
    AttemptEnd, Event, NodeId, SessionKey, Task, TaskId, UnixMillis,
    store::{ApplyError, Change, CreateError, Created, NewTask, StoreError, UnwrittenCall},
};
use longhaul_store::usage;
use tokio::sync::oneshot::Sender;

/// A change.
pub(crate) enum Request {
    /// [`longhaul_core::store::TaskStore::create`].
    Create(Box<NewTask>),
    /// [`longhaul_core::store::TaskStore::write_call`].
    WriteCall(Box<UnwrittenCall>, Change),
    /// [`longhaul_core::store::TaskStore::apply`].
    Apply(Change),
    /// [`longhaul_core::store::SessionStore::end_session`].
    EndSession(SessionKey, UnixMillis),
}

/// What became of a change, of the same kind as its [`Request`].
#[derive(Debug)]
pub(crate) enum RequestAnswer {
    Created(Box<Result<Created, CreateError>>),
    Applied(Box<Result<Task, ApplyError>>),
    SessionEnded(Result<(), StoreError>),
}

/// A change whose caller waits.
pub(crate) struct PendingRequest {
    pub(crate) request: Request,
    pub(crate) reply_to: Sender<RequestAnswer>,
}

impl PendingRequest {
    /// The caller may have stopped waiting.
    pub(crate) fn answer(self, answer: RequestAnswer) {
        let _ = self.reply_to.send(answer);
    }

    /// Answers that the change was not made, or that this is not known.
    pub(crate) fn refuse(self, why: StoreError) {
        let answer = self.request.refused(why);
        self.answer(answer);
    }
}

impl Request {
    fn refused(&self, why: StoreError) -> RequestAnswer {
        match self {
            Self::Create(_) => RequestAnswer::Created(Box::new(Err(why.into()))),
            Self::WriteCall(..) | Self::Apply(_) => RequestAnswer::Applied(Box::new(Err(why.into()))),
            Self::EndSession(..) => RequestAnswer::SessionEnded(Err(why)),
        }
    }

    /// About how many bytes it writes.
    pub(crate) fn size_hint_bytes(&self) -> u64 {
        let of_change = |change: &Change| change.events.iter().map(event_bytes).sum::<u64>();
        match self {
            Self::Create(new) => {
                let history = new.history.as_deref().map_or(0, usage::of_history);
                usage::bytes(&new.arguments) + usage::bytes(&new.requestor) + history
            }
            Self::WriteCall(call, change) => {
                usage::bytes(&call.arguments) + usage::bytes(&call.requestor) + of_change(change)
            }
            Self::Apply(change) => of_change(change),
            Self::EndSession(..) => 0,
        }
    }

    /// Whether it may wait for others to commit with: see [`Change::can_wait`].
    pub(crate) fn can_be_deferred(&self) -> bool {
        matches!(self, Self::Apply(change) if change.can_wait)
    }

    /// The tasks that it reads or writes, as far as the change says so.
    pub(crate) fn tasks(&self) -> impl Iterator<Item = &TaskId> {
        let (task, new) = match self {
            Self::Create(new) => (Some(&new.id), Some(new)),
            Self::WriteCall(call, _) => (Some(&call.task.id), None),
            Self::Apply(change) => (Some(&change.task), None),
            Self::EndSession(..) => (None, None),
        };
        let parent = new.and_then(|new| Some(&new.lineage.as_ref()?.parent));
        let replaced = new.and_then(|new| Some(&new.replaces.as_ref()?.task));
        task.into_iter().chain(parent).chain(replaced)
    }

    /// The task of a change that only the time has caused. Each node finds it: one that finds the row locked leaves it to the one that has locked it.
    pub(crate) fn timed(&self) -> Option<&TaskId> {
        let is_timed = |event: &Event| {
            matches!(
                event,
                Event::DeadlinePassed
                    | Event::QueueTimedOut
                    | Event::BlockedTimedOut
                    | Event::TimerFired
                    | Event::TtlExtended { .. }
            )
        };
        match self {
            Self::Apply(change) if change.fence.is_none() && change.events.iter().all(is_timed) => Some(&change.task),
            _ => None,
        }
    }

    /// The nodes whose rows it locks: those that make the row of a task, or claim it with that.
    pub(crate) fn writers(&self) -> impl Iterator<Item = NodeId> {
        let (front, claim) = match self {
            Self::Create(new) => (Some(new.accepted_by), new.claim.as_ref().map(|(node, _)| *node)),
            Self::WriteCall(call, _) => (Some(call.task.accepted_by), None),
            Self::Apply(_) | Self::EndSession(..) => (None, None),
        };
        front.into_iter().chain(claim)
    }

    /// The task that it may end: then its parent is written, too.
    pub(crate) fn may_end(&self) -> Option<&TaskId> {
        match self {
            Self::Apply(change) if change.events.iter().any(may_end) => Some(&change.task),
            Self::Create(new) => new.replaces.as_ref().map(|end| &end.task),
            _ => None,
        }
    }

    /// The tasks after whose change their groups may have to be filled. What only a worker may write and ends nothing is about a task that is in its group and stays there.
    pub(crate) fn may_regroup(&self) -> Option<&TaskId> {
        match self {
            Self::Apply(change) if change.fence.is_none() => Some(&change.task),
            _ => self.may_end(),
        }
    }

    /// The entries of journals that it may give another value.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&TaskId, u32)> {
        let (events, start) = match self {
            Self::Apply(change) => (Some(change), None),
            Self::Create(new) => (None, new.parent.as_ref().zip(new.lineage.as_ref())),
            _ => (None, None),
        };
        let events = events.into_iter().flat_map(|change| {
            let entry = |event: &Event| match event {
                Event::Journaled(entry) => Some(entry.seq),
                Event::ChildEnded { entry, .. } => Some(*entry),
                _ => None,
            };
            let entries = change.events.iter().filter_map(entry);
            entries.map(|seq| (&change.task, seq))
        });
        let start = start.map(|(parent, lineage)| (&lineage.parent, parent.entry.seq));
        events.chain(start)
    }
}

/// Whether a task can end with this event. Those that running work reports over and over are not among them, so that its parent is not locked for them. An answer can decline a
/// confirmation.
fn may_end(event: &Event) -> bool {
    !matches!(
        event,
        Event::Started
            | Event::Reported { .. }
            | Event::InputRequested { .. }
            | Event::InputWithdrawn { .. }
            | Event::Journaled(_)
            | Event::Advanced
            | Event::ChildEnded { .. }
    )
}

fn event_bytes(event: &Event) -> u64 {
    match event {
        Event::InputRequested { request: json, .. }
        | Event::InputAnswered { answer: json, .. }
        | Event::ChildEnded { value: json, .. } => usage::bytes(json),
        Event::Journaled(entry) => usage::of_entry(entry),
        Event::AttemptEnded(AttemptEnd::Finished(outcome) | AttemptEnd::Failed { outcome, .. })
        | Event::Abandoned(outcome) => usage::of_outcome(outcome),
        _ => 0,
    }
}
