//! Tasks that a task starts.

use super::{
    TaskContext,
    start_child::{DEEPEST, Refusal},
    writer::{Draft, WriteError, Written},
};
use crate::{
    change_feed::Watch,
    journal::{EntryDetails, EntryStatus, JournalError, Operation},
    suspension::Wait,
};
use longhaul_core::{CancelMode, ChildEntry, EntryKind, Json, Lineage, Outcome, TaskId};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What a child came to.
#[derive(Debug, Clone, PartialEq)]
pub struct ChildEnd {
    /// Its id.
    pub task: TaskId,
    /// How it ended.
    pub outcome: Outcome,
}

/// A child could not be started or waited for.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ChildError {
    /// It was not started, for this reason: the same each time the code comes to it.
    #[error("{0}")]
    Refused(Arc<str>),
    /// The journal cannot be gone along.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// What the entry of a child says that was not started.
#[derive(Serialize, Deserialize)]
struct RefusedEntry {
    refused: String,
}

/// How a child stands, and who it is.
pub(crate) struct ChildDetails {
    pub(crate) task: Option<TaskId>,
    pub(crate) details: EntryDetails,
}

/// How a child stands whose entry says this.
pub(crate) fn read_child(value: &Json) -> ChildDetails {
    if let Ok(RefusedEntry { refused }) = serde_json::from_str(value.as_str()) {
        return ChildDetails {
            task: None,
            details: EntryDetails::of(EntryStatus::Failed(refused)),
        };
    }
    let Ok(ChildEntry { task, outcome }) = ChildEntry::from_json(value) else {
        return ChildDetails {
            task: None,
            details: EntryDetails::default(),
        };
    };
    let status = match outcome {
        None => EntryStatus::Waiting(None),
        Some(Outcome::Result { is_error: false, .. }) => EntryStatus::Done,
        Some(Outcome::Result { is_error: true, .. }) => EntryStatus::Failed("the tool said that it failed".to_owned()),
        Some(Outcome::RpcError(failure)) => EntryStatus::Failed(failure.message.to_string()),
        Some(Outcome::Cancelled) => EntryStatus::Failed("it was cancelled".to_owned()),
    };
    ChildDetails {
        task: Some(task),
        details: EntryDetails::of(status),
    }
}

impl TaskContext {
    /// Calls another tool as a task of its own, and waits for its end. A call that was begun before is not begun again. Dropping the
    /// future cancels the child; so does the end of this task.
    ///
    /// The child belongs to the same caller, but cannot ask it anything: the caller knows this task only.
    ///
    /// # Errors
    /// [`ChildError`]. That the child fails is not one: its outcome says so.
    pub async fn call(&self, tool: &str, arguments: Json) -> Result<ChildEnd, ChildError> {
        let mut place = self.begin(EntryKind::Child, &Arc::from(tool))?;
        let (seq, child, mut watch) = match place.found.clone() {
            Some((seq, value)) => {
                if let Ok(RefusedEntry { refused }) = serde_json::from_str(value.as_str()) {
                    return Err(ChildError::Refused(refused.into()));
                }
                let entry = place.read_with(&value, ChildEntry::from_json)?;
                if let Some(outcome) = entry.outcome {
                    return Ok(ChildEnd {
                        task: entry.task,
                        outcome,
                    });
                }
                let watch = self.shared.node.change_feed.watch(&entry.task);
                (seq, entry.task, watch)
            }
            None => match self.start_child(&mut place, tool, arguments).await? {
                Ok(started) => started,
                Err(refusal) => return Err(self.refuse(&mut place, &refusal).await?),
            },
        };
        let pending = PendingChild {
            cx: self,
            child: Some(child.clone()),
        };
        let outcome = self.end_of(seq, &mut watch).await;
        // Told to stop, the parent's end cancels it.
        pending.settle();
        Ok(ChildEnd {
            task: child,
            outcome: outcome?,
        })
    }

    async fn end_of(&self, seq: u32, watch: &mut Watch) -> Result<Outcome, JournalError> {
        let mut waiting = None;
        loop {
            if let Some(outcome) = self.child_outcome(seq).await? {
                if let Some(waiting) = waiting {
                    self.go_on(waiting).await?;
                }
                return Ok(outcome);
            }
            waiting.get_or_insert_with(|| self.wait(Wait::Child(seq)));
            tokio::select! {
                biased;
                reason = self.stopped() => return Err(JournalError::Stopped(reason)),
                () = watch.changed() => {}
            }
        }
    }

    /// What the child with the entry of place `seq` came to, if it is over: the store has written it there.
    pub(crate) async fn child_outcome(&self, seq: u32) -> Result<Option<Outcome>, JournalError> {
        let entries = self
            .shared
            .node
            .store
            .journal(&self.shared.header.id, seq - 1, 1)
            .await?;
        let Some(entry) = entries.into_iter().find(|entry| entry.seq == seq) else {
            return Ok(None);
        };
        let child = ChildEntry::from_json(&entry.value).map_err(|error| JournalError::Garbled {
            asked: entry.key,
            why: error.to_string(),
        })?;
        Ok(child.outcome)
    }

    /// Starts a child: the entry's place, the child, and what watches it.
    async fn start_child(
        &self,
        place: &mut Operation,
        tool: &str,
        arguments: Json,
    ) -> Result<Result<(u32, TaskId, Watch), Refusal>, JournalError> {
        if self.shared.depth() >= DEEPEST {
            return Ok(Err(Refusal::TooDeep));
        }
        let new = match self.shared.children.new_child(self, tool, arguments) {
            Ok(new) => new,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let child = new.id.clone();
        // Watched before it is written, so that its end is not missed.
        let watch = self.shared.node.change_feed.watch(&child);
        let value = ChildEntry {
            task: child.clone(),
            outcome: None,
        }
        .to_json();
        let draft = place.draft(value.clone())?;
        match self.write(Draft::Child(Box::new(new), draft)).await {
            Ok(Written { seq, .. }) => {
                place.written(seq, value);
                Ok(Ok((seq, child, watch)))
            }
            Err(WriteError::Refused(refusal)) => Ok(Err(refusal)),
            Err(other) => Err(other.into()),
        }
    }

    /// Keeps that there is no child, so that the code is told the same the next time.
    async fn refuse(&self, place: &mut Operation, refusal: &Refusal) -> Result<ChildError, JournalError> {
        let entry = RefusedEntry {
            refused: refusal.to_string(),
        };
        self.settle(place, Json::trusted(serde_json::to_string(&entry).unwrap_or_default()))
            .await?;
        Ok(ChildError::Refused(entry.refused.into()))
    }

    /// Where a child comes from whose entry has this place.
    pub(super) fn lineage_of_child(&self, entry: u32) -> Lineage {
        let parent = self.shared.header.id.clone();
        let above = self.shared.header.lineage.as_ref();
        Lineage {
            entry,
            root: above.map_or_else(|| parent.clone(), |above| above.root.clone()),
            depth: self.shared.depth() + 1,
            parent,
        }
    }

    /// Asks a child to stop that nobody waits for any more.
    pub(crate) fn cancel_child(&self, child: &TaskId) {
        self.shared.node.cancel_soon(child.clone(), CancelMode::Cooperative);
    }
}

/// A child that is waited for; dropping this cancels it, unless the whole attempt goes.
struct PendingChild<'a> {
    cx: &'a TaskContext,
    child: Option<TaskId>,
}

impl PendingChild<'_> {
    fn settle(mut self) {
        self.child = None;
    }
}

impl Drop for PendingChild<'_> {
    fn drop(&mut self) {
        if let Some(child) = self.child.take()
            && !self.cx.is_over()
            && !self.cx.is_abandoned(&self.cx.path)
        {
            self.cx.cancel_child(&child);
        }
    }
}
