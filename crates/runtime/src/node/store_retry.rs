//! Retrying while the store fails, and until it is known what it has written.

use super::{Node, active_attempts::AttemptOrigin};
use longhaul_core::{
    Event, Fence, State, Task, Verdict,
    store::{ApplyError, Change, CreateError, Created, NewTask, StoreError},
};
use std::time::Duration;
use tracing::warn;

/// The pause between two tries is doubled from the first to the last.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LAST_PAUSE: Duration = Duration::from_secs(5);

/// The pauses between tries.
struct Pauses(Duration);

impl Pauses {
    fn new() -> Self {
        Self(FIRST_PAUSE)
    }

    async fn next(&mut self, node: &Node) {
        node.ports.clock.sleep(self.0).await;
        self.0 = (self.0 * 2).min(LAST_PAUSE);
    }
}

impl Node {
    /// Retries an operation that must not be lost while the store fails, as on a full disk. Any answer of the store, also a
    /// refusal, is final; so is a closed store.
    pub(crate) async fn retry_store<T, F>(
        &self,
        what: &'static str,
        mut operation: impl FnMut() -> F,
    ) -> Result<T, ApplyError>
    where
        F: Future<Output = Result<T, ApplyError>>,
    {
        let mut pauses = Pauses::new();
        loop {
            match operation().await {
                Err(ApplyError::Store(error)) if error != StoreError::Closed => {
                    // Of these the store itself says when they begin and end.
                    if !matches!(error, StoreError::Locked | StoreError::LockedBy(_) | StoreError::Full) {
                        warn!(%error, what, "the store failed; trying again");
                    }
                    pauses.next(self).await;
                }
                answer => return answer,
            }
        }
    }

    /// Applies a change, and again while it is unknown whether it was made. A change without a number is recognized by what it leaves in the task.
    pub(crate) async fn apply_until_known(&self, change: Change) -> Result<Task, ApplyError> {
        let mut pauses = Pauses::new();
        let mut unknown = false;
        loop {
            match self.store.apply(change.clone()).await {
                Err(ApplyError::Store(StoreError::OutcomeUnknown(why))) => {
                    warn!(why, "whether a change was made is unknown; making it again");
                    unknown = true;
                }
                Err(ApplyError::Store(error)) if unknown && error != StoreError::Closed => {
                    warn!(%error, "the store failed; trying again");
                }
                Err(refused @ ApplyError::Illegal(_)) if unknown => match self.store.get_unscoped(&change.task).await {
                    Ok(Some(record)) if change.events.iter().all(|event| shows(&record.task, event)) => {
                        return Ok(record.task);
                    }
                    Ok(_) => return Err(refused),
                    Err(StoreError::Closed) => return Err(StoreError::Closed.into()),
                    Err(error) => warn!(%error, "a task could not be read; trying again"),
                },
                answer => return answer,
            }
            pauses.next(self).await;
        }
    }

    async fn await_earlier_writes(&self) -> Result<(), StoreError> {
        let mut pauses = Pauses::new();
        loop {
            match self.store.await_earlier_writes(self.id).await {
                Err(error) if error != StoreError::Closed => {
                    warn!(%error, "whether an earlier write can still be made is unknown; asking again");
                }
                answer => return answer,
            }
            pauses.next(self).await;
        }
    }

    /// Creates a task. While it is unknown whether it was written, it is looked for by its id, and created again if it is not there and cannot be written
    /// by the first try any more.
    pub(crate) async fn create_until_known(&self, new: NewTask) -> Result<Created, CreateError> {
        let mut pauses = Pauses::new();
        let mut unknown = false;
        loop {
            let refused = match self.store.create(new.clone()).await {
                Err(CreateError::Store(StoreError::OutcomeUnknown(why))) => {
                    warn!(why, "whether a task was created is unknown; looking for it");
                    unknown = true;
                    if new.claim.is_some() {
                        // It may be made after all, and after it was given up here.
                        self.active.claim_was_lost(AttemptOrigin::Claimed);
                    }
                    self.await_earlier_writes().await?;
                    None
                }
                Err(refused) if unknown && refused != StoreError::Closed.into() => Some(refused),
                // Found by its idempotency key or its unique value.
                Ok(Created::Existing(task) | Created::Joined(task)) if unknown && task.id == new.id => {
                    return Ok(found_later(&new, task));
                }
                answer => return answer,
            };
            // The refusal may be of a second task with its id, or for the room that the first one takes.
            match (self.store.get_unscoped(&new.id).await, refused) {
                (Ok(Some(record)), _) => return Ok(found_later(&new, record.task)),
                (Ok(None), Some(refused)) if !matches!(refused, CreateError::Store(_)) => return Err(refused),
                (Err(StoreError::Closed), _) => return Err(StoreError::Closed.into()),
                (Err(error), _) => warn!(%error, "a task could not be read; trying again"),
                (Ok(None), _) => {}
            }
            pauses.next(self).await;
        }
    }
}

/// A task that was written by a create whose answer was lost. If the attempt that was claimed with it is over, or another node has it, nobody is to
/// start it here.
fn found_later(new: &NewTask, task: Task) -> Created {
    let claimed = new.claim.as_ref().map(|(node, _)| Fence { node: *node, epoch: 1 });
    match claimed {
        Some(fence) if task.attempt_held_by(fence).is_none() => Created::Existing(task),
        _ => Created::New(task),
    }
}

/// Whether a task looks as if the event has happened to it.
fn shows(task: &Task, event: &Event) -> bool {
    match event {
        Event::CancelRequested(_) => task.stop.is_some() || task.state == State::Done(Verdict::Cancelled),
        Event::Promoted => task.announced,
        Event::InputAnswered { key, .. } | Event::InputWithdrawn { key } => !task.open_inputs.contains(key),
        _ => false,
    }
}
