//! Tasks that a task starts.

use super::{
    Draft, JournalError, Written,
    writer::{EntryDraft, WriteError},
};
use crate::{Requestor, TaskContext, Tool, hub::Watch, parking::Wait};
use longhaul_core::{
    CancelMode, ChildEntry, EntryKind, Json, Lineage, Outcome, QuotaExceeded, TaskId,
    store::{CreateError, NewTask},
};
use std::sync::Arc;

/// How far down a line of children may go.
const DEEPEST: u32 = 8;
/// How many children one task may start over its life.
const MOST: u32 = 1_000;

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
    /// No tool of that name is offered.
    #[error("there is no tool {0:?}")]
    UnknownTool(Arc<str>),
    /// The tool refuses the arguments.
    #[error("{0}")]
    Arguments(String),
    /// The line of children would be too long.
    #[error("a line of more than {DEEPEST} tasks, each started by the one before, is not allowed")]
    TooDeep,
    /// The task has started too many.
    #[error("a task may start {MOST} others")]
    TooMany,
    /// The caller has no room for more.
    #[error(transparent)]
    Quota(QuotaExceeded),
    /// The journal cannot be gone along.
    #[error(transparent)]
    Journal(#[from] JournalError),
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
                let entry = place.read_with(&value, ChildEntry::from_json)?;
                if let Some(outcome) = entry.outcome {
                    return Ok(ChildEnd {
                        task: entry.task,
                        outcome,
                    });
                }
                let watch = self.shared.inner.hub.watch(&entry.task);
                (seq, entry.task, watch)
            }
            None => {
                let new = self.new_child(tool, arguments)?;
                let child = new.id.clone();
                // Watched before it is written, so that its end is not missed.
                let watch = self.shared.inner.hub.watch(&child);
                let value = ChildEntry {
                    task: child.clone(),
                    outcome: None,
                }
                .to_json();
                let draft = EntryDraft {
                    key: place.key.clone(),
                    beside: place.beside,
                    seq: None,
                    value: value.clone(),
                };
                let Written { seq, .. } = self.write(Draft::Child(Box::new(new), draft)).await.map_err(refused)?;
                place.written(seq, value);
                (seq, child, watch)
            }
        };
        let unheard = Unheard {
            cx: self,
            child: Some(child.clone()),
        };
        let outcome = self.end_of(seq, &mut watch).await;
        // Told to stop, the parent's end cancels it.
        unheard.heard();
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
        let entries = self.shared.inner.store.journal(&self.shared.task, seq - 1, 1).await?;
        let Some(entry) = entries.into_iter().find(|entry| entry.seq == seq) else {
            return Ok(None);
        };
        let child = ChildEntry::from_json(&entry.value).map_err(|error| JournalError::Garbled {
            asked: entry.key,
            why: error.to_string(),
        })?;
        Ok(child.outcome)
    }

    fn new_child(&self, name: &str, arguments: Json) -> Result<NewTask, ChildError> {
        let inner = &self.shared.inner;
        let journal = self.shared.journal.as_ref().ok_or(JournalError::None)?;
        if let Some(reason) = self.stop_requested() {
            return Err(JournalError::Stopped(reason).into());
        }
        if self.shared.depth() >= DEEPEST {
            return Err(ChildError::TooDeep);
        }
        if journal.children() >= MOST {
            return Err(ChildError::TooMany);
        }
        let tool = inner
            .catalog
            .tool(name)
            .ok_or_else(|| ChildError::UnknownTool(name.into()))?;
        tool.check(arguments.as_str())
            .map_err(|error| ChildError::Arguments(error.0))?;
        Ok(self.child_of(&tool, arguments))
    }

    fn child_of(&self, tool: &Arc<Tool>, arguments: Json) -> NewTask {
        let inner = &self.shared.inner;
        let settings = tool.settings();
        let at = self.now();
        let requestor = Requestor {
            abilities: crate::Abilities::default(),
            progress_token: None,
            ..Requestor::clone(&self.shared.requestor)
        };
        NewTask {
            id: TaskId::mint(at, &*inner.ports.entropy),
            owner: self.shared.owner.clone(),
            tool: Arc::clone(&settings.name),
            spec: tool.spec().id.clone(),
            origin: self.shared.origin,
            front: inner.node,
            announced: true,
            arguments,
            requestor: requestor.to_json(),
            at,
            deadline: settings.deadline,
            queue_timeout: settings.queue_timeout,
            retention: settings.retention,
            claim: None,
            outcome: None,
            idempotency: None,
            quota: inner.quota,
            parent: None,
        }
    }

    /// Where a child comes from whose entry has this place.
    pub(super) fn lineage_of_child(&self, entry: u32) -> Lineage {
        let parent = self.shared.task.clone();
        let above = self.shared.lineage.as_ref();
        Lineage {
            entry,
            root: above.map_or_else(|| parent.clone(), |above| above.root.clone()),
            depth: self.shared.depth() + 1,
            parent,
        }
    }

    /// Asks a child to stop that nobody waits for any more.
    pub(crate) fn cancel_child(&self, child: &TaskId) {
        self.shared.inner.cancel_soon(child.clone(), CancelMode::Cooperative);
    }
}

fn refused(error: WriteError) -> ChildError {
    match error {
        WriteError::Create(CreateError::Quota(exceeded)) => ChildError::Quota(exceeded),
        WriteError::Create(CreateError::Parent(error)) => ChildError::Journal(JournalError::Task(error)),
        other => ChildError::Journal(other.into()),
    }
}

/// A child that is waited for; dropping this cancels it, unless the whole attempt goes.
struct Unheard<'a> {
    cx: &'a TaskContext,
    child: Option<TaskId>,
}

impl Unheard<'_> {
    fn heard(mut self) {
        self.child = None;
    }
}

impl Drop for Unheard<'_> {
    fn drop(&mut self) {
        if let Some(child) = self.child.take()
            && !self.cx.is_over()
            && !self.cx.is_abandoned()
        {
            self.cx.cancel_child(&child);
        }
    }
}
