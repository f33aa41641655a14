//! Tasks that a task starts.

use super::{
    TaskContext,
    context_engine::{ChildRefusal, DEEPEST},
    writer::{Draft, WriteError, WriteOutcome},
};
use crate::{
    journal::{EntryDetails, EntryStatus, JournalError, Operation},
    node::{TaskWatch, Wait},
};
use longhaul_core::{CancelMode, ChildEntry, EntryKind, Json, Lineage, Outcome, TaskId};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A child that has ended.
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
    /// It was not started, for this reason, which replay returns again.
    #[error("{0}")]
    Refused(Arc<str>),
    /// The journal could not be read or written.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// The entry of a child that was not started.
#[derive(Serialize, Deserialize)]
struct RefusedEntry {
    refused: String,
}

/// The child that an entry names, and its status.
pub(crate) struct ChildDetails {
    pub(crate) task: Option<TaskId>,
    pub(crate) details: EntryDetails,
}

/// Reads the entry of a child.
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
            details: EntryDetails::of(EntryStatus::Unreadable),
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
    /// Calls another tool as a child task, and waits for its end. Replay waits for the child that was started before. Dropping the
    /// future cancels the child; so does the end of this task.
    ///
    /// The child belongs to the same principal, but cannot ask the client: the client knows only this task.
    ///
    /// # Errors
    /// [`ChildError`]. A child that fails is no error here: its outcome says so.
    pub async fn call(&self, tool: &str, arguments: Json) -> Result<ChildEnd, ChildError> {
        let mut operation = self.begin(EntryKind::Child, &Arc::from(tool))?;
        let (seq, child, mut watch) = match operation.found.clone() {
            Some((seq, value)) => {
                if let Ok(RefusedEntry { refused }) = serde_json::from_str(value.as_str()) {
                    return Err(ChildError::Refused(refused.into()));
                }
                let entry = operation.read_with(&value, ChildEntry::from_json)?;
                if let Some(outcome) = entry.outcome {
                    return Ok(ChildEnd {
                        task: entry.task,
                        outcome,
                    });
                }
                let watch = self.shared.node.change_feed.watch(&entry.task);
                (seq, entry.task, watch)
            }
            None => match self.start_child(&mut operation, tool, arguments).await? {
                Ok(started) => started,
                Err(refusal) => return Err(self.refuse(&mut operation, &refusal).await?),
            },
        };
        let pending = PendingChild {
            cx: self,
            child: Some(child.clone()),
        };
        let outcome = self.end_of(seq, &child, &mut watch).await;
        // If this task was asked to stop, its end cancels the child.
        pending.settle();
        Ok(ChildEnd {
            task: child,
            outcome: outcome?,
        })
    }

    async fn end_of(&self, seq: u32, child: &TaskId, watch: &mut TaskWatch) -> Result<Outcome, JournalError> {
        let mut waiting = None;
        loop {
            if let Some(outcome) = self.child_outcome(seq).await? {
                if let Some(waiting) = waiting {
                    self.end_wait(waiting).await?;
                }
                return Ok(outcome);
            }
            waiting.get_or_insert_with(|| self.begin_wait(Wait::Child(seq, child.clone())));
            tokio::select! {
                biased;
                reason = self.stopped() => return Err(JournalError::Stopped(reason)),
                () = watch.changed() => {}
            }
        }
    }

    /// The outcome of the child whose entry is at position `seq`, if it has ended: the store has written it there.
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
        let child = ChildEntry::from_json(&entry.value).map_err(|error| JournalError::Unreadable {
            asked: entry.key,
            why: error.to_string(),
        })?;
        Ok(child.outcome)
    }

    /// Starts a child. Returns the position of its entry, its id, and a watch on it.
    async fn start_child(
        &self,
        operation: &mut Operation,
        tool: &str,
        arguments: Json,
    ) -> Result<Result<(u32, TaskId, TaskWatch), ChildRefusal>, JournalError> {
        if self.shared.depth() >= DEEPEST {
            return Ok(Err(ChildRefusal::TooDeep));
        }
        let new = match self.shared.engine.new_child(self, tool, arguments).await {
            Ok(new) => new,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let child = new.id.clone();
        // The watch begins before the write, so that the child's end is not missed.
        let watch = self.shared.node.change_feed.watch(&child);
        let value = ChildEntry {
            task: child.clone(),
            outcome: None,
        }
        .to_json();
        let draft = operation.draft(value.clone())?;
        match self.write(Draft::Child(Box::new(new), draft)).await {
            Ok(WriteOutcome { seq, .. }) => {
                operation.written(seq, value);
                Ok(Ok((seq, child, watch)))
            }
            Err(WriteError::Refused(refusal)) => Ok(Err(refusal)),
            Err(other) => Err(other.into()),
        }
    }

    /// Records the refusal, so that replay returns it too.
    async fn refuse(&self, operation: &mut Operation, refusal: &ChildRefusal) -> Result<ChildError, JournalError> {
        let entry = RefusedEntry {
            refused: refusal.to_string(),
        };
        self.record(
            operation,
            Json::trusted(serde_json::to_string(&entry).unwrap_or_default()),
        )
        .await?;
        Ok(ChildError::Refused(entry.refused.into()))
    }

    /// The lineage of a child whose entry has this position.
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

    /// Asks a child to stop, in the background.
    pub(crate) fn cancel_child(&self, child: &TaskId) {
        self.shared.node.cancel_soon(child.clone(), CancelMode::Cooperative);
    }
}

/// A child that is waited for. Dropping this cancels it, unless the whole attempt has ended.
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
