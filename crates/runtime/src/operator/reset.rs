//! Resets: a new task goes on from an earlier point of a durable task's journal.

use crate::{
    Call, Engine, OperatorError,
    context::read_child,
    journal::EntryStatus,
    question::{QuestionEntry, Requestor},
};
use longhaul_core::{
    CancelMode, Entry, EntryKind, Event, Input, InputState, Json, State, Task, TaskId,
    store::{ApplyError, Change, CreateError, History, StoreError},
};
use std::sync::Arc;

/// What the idempotency keys of resets begin with; the id of the task is behind it.
const RESET_KEY: &str = "dev.longhaul/reset-of/";
/// How many entries are read at once.
const PAGE: usize = 64;

fn reset_key(of: &TaskId) -> String {
    format!("{RESET_KEY}{of}")
}

impl Engine {
    /// Makes a new task that goes on from the journal of a durable one as it was before entry `before`, counted from 1. The operations of that entry and of
    /// all later ones run again. The new task belongs to the same principal and session and has the same arguments; its code is that of the tool as it is
    /// offered now. Its [`Requestor::retry_of`] and [`Requestor::reset_before`] say where it comes from.
    ///
    /// A task that is queued, suspended or blocked is cancelled by the write that creates the new one. What the dropped operations have done outside stays done.
    /// A task is reset once: doing it again returns the task of the first time, as long as that is kept.
    ///
    /// # Errors
    /// [`OperatorError`]: [`OperatorError::NoEntry`] for a position that the journal does not have, [`OperatorError::Unsettled`] if a question or a child
    /// before it has no result, [`OperatorError::ResetBefore`] if the task was reset to another entry, [`OperatorError::NotNow`] if it runs, was
    /// started by a task, has no journal, or if its tool is not offered. Nothing was changed then.
    pub async fn reset_any(&self, id: &TaskId, before: u32) -> Result<Task, OperatorError> {
        loop {
            match self.reset_as_it_is(id, before).await {
                // It has begun to run, or has ended, since it was read.
                Err(OperatorError::Create(CreateError::Replaced(ApplyError::Illegal(_)))) => {}
                reset => return reset,
            }
        }
    }

    async fn reset_as_it_is(&self, id: &TaskId, before: u32) -> Result<Task, OperatorError> {
        let task = self.any_task(id).await?.task;
        if task.lineage.is_some() {
            return Err(OperatorError::NotNow(
                "the task was started by another one, which has its outcome: reset that one",
            ));
        }
        let offered = self.0.catalog.tool(&task.tool);
        let tool = offered.ok_or(OperatorError::NotNow("its tool is not offered any more"))?;
        if !tool.settings().executor.replays() {
            return Err(OperatorError::NotNow(
                "its tool is, as it is now, not a durable tool in Rust, which alone can be reset: cancel the task and retry it",
            ));
        }
        if before == 0 || before > task.journaled {
            return Err(OperatorError::NoEntry {
                before,
                entries: task.journaled,
            });
        }
        let store = &self.0.node.store;
        let arguments = store.arguments(id).await?.ok_or(OperatorError::NotFound)?;
        let key = reset_key(id);
        if let Some(first) = (self.0)
            .find_keyed(&task.owner.principal, &task.tool, &key, &arguments)
            .await?
        {
            return self.same_reset(first, before).await;
        }
        if task.state == State::Running {
            return Err(OperatorError::NotNow("the task is running: cancel it first"));
        }
        let arguments = self.clear_arguments(&tool, id, arguments)?;
        let history = self.history_before(&task, before).await?;
        let requestor = store.requestor(id).await?.ok_or(OperatorError::NotFound)?;
        let requestor = Arc::new(Requestor {
            retry_of: Some(id.to_string()),
            reset_before: Some(before),
            // Nobody waits for the progress of the new one.
            progress_token: None,
            ..Requestor::from_json(&requestor)
        });
        let call = Call {
            tool,
            arguments,
            owner: task.owner.clone(),
            origin: task.origin,
            requestor: Arc::clone(&requestor),
            // Made again, because its answer was lost, it gets the task of the first time.
            idempotency_key: Some(key.into()),
            ttl: None,
            priority: None,
            cancel_if_caller_leaves: false,
        };
        let mut new = self.0.new_task(&call, true);
        new.history = Some(Box::new(history));
        // What it continues was confirmed before its first entry.
        new.confirmation = None;
        // One that waits, so that two do not go on from one journal.
        let end = || Change::of(id, Event::CancelRequested(CancelMode::Cooperative), new.created_at);
        new.replaces = (!task.is_done()).then(|| Box::new(end()));
        let created = self.0.submit(new, requestor, false).await?;
        self.same_reset(super::made(created)?, before).await
    }

    /// The task that a [reset](Self::reset_any) has made of this one, if that is kept. `arguments` are those of the task.
    ///
    /// # Errors
    /// The store's.
    pub async fn find_reset(&self, task: &Task, arguments: &Json) -> Result<Option<TaskId>, StoreError> {
        // Without a journal there is nothing to go on from.
        if task.journaled == 0 {
            return Ok(None);
        }
        let key = reset_key(&task.id);
        let reset = (self.0)
            .find_keyed(&task.owner.principal, &task.tool, &key, arguments)
            .await?;
        Ok(reset.map(|reset| reset.id.clone()))
    }

    /// The task of a reset, if it was one to the same entry.
    async fn same_reset(&self, reset: Task, before: u32) -> Result<Task, OperatorError> {
        let requestor = self.0.node.store.requestor(&reset.id).await?;
        let first = requestor.and_then(|requestor| Requestor::from_json(&requestor).reset_before);
        match first {
            Some(first) if first != before => Err(OperatorError::ResetBefore {
                task: reset.id.clone(),
                before: first,
            }),
            _ => Ok(reset),
        }
    }

    /// The entries before this one, without failed attempts, which do not count for the new task.
    async fn history_before(&self, task: &Task, before: u32) -> Result<History, OperatorError> {
        let (mut entries, mut inputs) = (Vec::new(), Vec::new());
        let mut after = 0;
        while after + 1 < before {
            let page = self.0.node.store.journal(&task.id, after, PAGE).await?;
            let Some(last) = page.last() else { break };
            after = last.seq;
            for entry in page.into_iter().filter(|entry| entry.seq < before) {
                inputs.extend(self.settled_question(task, &entry).await?);
                if entry.key.kind == EntryKind::Failure {
                    continue;
                }
                if is_open_child(&entry) {
                    return Err(unsettled(&entry));
                }
                entries.push(Entry {
                    seq: entries.len() as u32 + 1,
                    // No attempt of the new task has written it.
                    epoch: 0,
                    ..entry
                });
            }
        }
        History::new(entries, inputs, task.inputs_asked).ok_or(OperatorError::NotNow("its journal cannot be read"))
    }

    /// The question of an entry, with its answer; `None` for other entries.
    async fn settled_question(&self, task: &Task, entry: &Entry) -> Result<Option<Input>, OperatorError> {
        if entry.key.kind != EntryKind::Input {
            return Ok(None);
        }
        let Ok(question) = QuestionEntry::from_json(&entry.value) else {
            return Err(unsettled(entry));
        };
        let input = self.0.node.store.input(&task.id, &question.key).await?;
        match input {
            Some(input) if matches!(input.state, InputState::Answered(_)) => Ok(Some(input)),
            // Replay reads from the entry that there is no answer.
            Some(input) if question.gone.is_some() && input.state == InputState::Withdrawn => Ok(Some(input)),
            _ => Err(unsettled(entry)),
        }
    }
}

fn is_open_child(entry: &Entry) -> bool {
    entry.key.kind == EntryKind::Child
        && matches!(
            read_child(&entry.value).details.status,
            EntryStatus::Waiting(_) | EntryStatus::Unreadable
        )
}

fn unsettled(entry: &Entry) -> OperatorError {
    OperatorError::Unsettled {
        position: entry.seq,
        entry: entry.key.clone(),
    }
}
