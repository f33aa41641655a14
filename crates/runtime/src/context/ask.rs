//! Asking the client, from the question to its answer.

use super::{
    TaskContext,
    writer::{Draft, WriteError, WriteOutcome},
};
use crate::{
    journal::{EntryDraft, JournalError, Operation},
    node::{TaskWatch, Wait},
    question::{AskError, NoAnswerReason, Question, QuestionEntry, read_answer},
};
use futures_util::future::try_join_all;
use longhaul_core::{
    ChildEntry, EntryKey, EntryKind, Input, InputKey, InputState, Json, UnixMillis,
    store::{ApplyError, StoreError},
};
use std::sync::Arc;

/// The withdrawal of a question, which overwrites its entry, if it has one.
fn withdrawal(key: InputKey, until: UnixMillis, gone: NoAnswerReason, entry: Option<EntryDraft>) -> Draft {
    let entry = entry.map(|entry| {
        let value = QuestionEntry {
            key: key.clone(),
            until,
            gone: Some(gone),
        };
        EntryDraft {
            value: value.to_json(),
            ..entry
        }
    });
    Draft::Withdraw(key, entry)
}

/// An open question, and its operation in a durable task.
struct OpenQuestion {
    key: InputKey,
    until: UnixMillis,
    operation: Option<Operation>,
}

impl OpenQuestion {
    fn withdrawal(&self, gone: NoAnswerReason) -> Draft {
        let entry = self
            .operation
            .as_ref()
            .map(|operation| operation.entry(Json::trusted("null")));
        withdrawal(self.key.clone(), self.until, gone, entry)
    }
}

impl TaskContext {
    /// Asks the client a question and waits for the answer. Meanwhile the attempt's slot is free, and after a while a durable task is
    /// suspended.
    ///
    /// Several questions may be open at once. Those asked together, as with `join!`, are shown together. Dropping the future withdraws
    /// the question. In a durable task, replay waits for the question that was asked before.
    ///
    /// # Errors
    /// [`AskError`] if the client cannot be asked this, nobody answers in time, the work is asked to stop, the task has ended, or the store
    /// fails.
    pub async fn ask(&self, question: impl Into<Question>) -> Result<Json, AskError> {
        let question = question.into();
        let fits = question.fits(&self.shared.requestor.capabilities);
        fits.map_err(|unfit| {
            if self.shared.header.lineage.is_some() {
                AskError::Child
            } else {
                unfit
            }
        })?;
        // The watch begins before the write, so that no answer is missed.
        let watch = self.shared.node.change_feed.watch(&self.shared.header.id);
        let open = self.open_question(question).await?;
        let mut pending = PendingQuestion {
            cx: self,
            open: Some(open),
        };
        let answer = pending.answer(watch).await;
        // In any case the question is settled now, or ends with the task.
        pending.open = None;
        read_answer(answer?)
    }

    /// Asks, or finds the question that was asked before.
    async fn open_question(&self, question: Question) -> Result<OpenQuestion, AskError> {
        let within = question.waits(self.shared.input_timeout);
        if let Some(asked) = self.asked_before(&question).await? {
            return Ok(OpenQuestion {
                key: asked.key,
                until: asked.asked_at.plus(within),
                operation: None,
            });
        }
        let name = question.name.clone().unwrap_or_else(|| Arc::from(""));
        let operation = match &self.shared.journal {
            Some(_) => Some(self.begin(EntryKind::Input, &name)?),
            None => None,
        };
        let read = |operation: &Operation| {
            let (_, value) = operation.found.as_ref()?;
            Some(operation.read_with(value, QuestionEntry::from_json))
        };
        if let Some(found) = operation.as_ref().and_then(read).transpose()? {
            let QuestionEntry { key, until, gone } = found;
            return match gone {
                Some(gone) => Err(gone.into()),
                None => Ok(OpenQuestion { key, until, operation }),
            };
        }
        let entry = match &operation {
            // The writer fills in the value.
            Some(operation) => Some(operation.draft(Json::trusted("null"))?),
            None => None,
        };
        let WriteOutcome { seq, input } = self
            .write(Draft::Ask(question, entry))
            .await
            .map_err(JournalError::from)?;
        let (key, until) = input.ok_or(StoreError::Closed)?;
        let Some(mut operation) = operation else {
            // The timeout is not stored, so it counts from here.
            let until = self.now().plus(within);
            return Ok(OpenQuestion {
                key,
                until,
                operation: None,
            });
        };
        // The real value, with the key, is not needed any more.
        operation.written(seq, Json::trusted("null"));
        Ok(OpenQuestion {
            key,
            until,
            operation: Some(operation),
        })
    }

    /// The question of this name that an earlier attempt asked, if it is open or answered.
    async fn asked_before(&self, question: &Question) -> Result<Option<Input>, StoreError> {
        if self.shared.asked_before == 0 || question.name.is_none() {
            return Ok(None);
        }
        let (store, task) = (&self.shared.node.store, &self.shared.header.id);
        for nth in 1..=self.shared.asked_before {
            let asked = store.input(task, &InputKey::nth(nth)).await?;
            let found = asked.filter(|input| input.name == question.name && input.state != InputState::Withdrawn);
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// The state of a question in the store.
    async fn input_state(&self, key: &InputKey) -> Result<InputState, AskError> {
        let input = self.shared.node.store.input(&self.shared.header.id, key).await?;
        Ok(input.map_or(InputState::Withdrawn, |input| input.state))
    }

    /// Withdraws the questions of this branch, in one write, and cancels its children, those of earlier attempts too. Completes when that is
    /// written.
    pub(crate) async fn abandon(&self) -> Result<(), JournalError> {
        let Some(journal) = &self.shared.journal else {
            return Ok(());
        };
        let mut withdrawals = Vec::new();
        let abandoned = journal.abandon(&self.path);
        self.entry_replayed();
        for (key, seq, value) in abandoned {
            match key.kind {
                EntryKind::Input => withdrawals.extend(withdrawal_of(key, seq, &value)),
                EntryKind::Child => {
                    if let Ok(ChildEntry { task, outcome: None }) = ChildEntry::from_json(&value) {
                        self.cancel_child(&task);
                    }
                }
                _ => {}
            }
        }
        let written = withdrawals.into_iter().map(|draft| self.write_if_open(draft));
        try_join_all(written).await.map(drop)
    }

    /// Withdraws a question whose future was dropped while it was written.
    pub(super) fn withdraw_unwaited_question(
        &self,
        key: InputKey,
        until: UnixMillis,
        entry: Option<EntryDraft>,
        seq: u32,
    ) {
        if entry.as_ref().is_some_and(|entry| self.is_abandoned(&entry.key.path)) {
            return;
        }
        let entry = entry.map(|entry| EntryDraft {
            seq: Some(seq),
            ..entry
        });
        // Refused if the attempt has ended.
        let _ = self.queue_draft(withdrawal(key, until, NoAnswerReason::Withdrawn, entry));
    }

    /// Writes a withdrawal, unless the question was answered or withdrawn meanwhile.
    async fn write_if_open(&self, withdrawal: Draft) -> Result<(), JournalError> {
        match self.write(withdrawal).await {
            Ok(_) | Err(WriteError::Apply(ApplyError::Illegal(_))) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// The withdrawal of the question of an entry, unless it is settled already.
fn withdrawal_of(key: EntryKey, seq: u32, value: &Json) -> Option<Draft> {
    let open = QuestionEntry::from_json(value)
        .ok()
        .filter(|question| question.gone.is_none())?;
    let entry = EntryDraft {
        key,
        beside: false,
        seq: Some(seq),
        is_second_write: false,
        value: Json::trusted("null"),
    };
    Some(withdrawal(open.key, open.until, NoAnswerReason::Withdrawn, Some(entry)))
}

/// A question whose answer is waited for. Dropping this withdraws it, unless the whole attempt has ended.
struct PendingQuestion<'a> {
    cx: &'a TaskContext,
    open: Option<OpenQuestion>,
}

impl PendingQuestion<'_> {
    async fn answer(&self, mut watch: TaskWatch) -> Result<Json, AskError> {
        let (cx, Some(open)) = (self.cx, &self.open) else {
            return Err(AskError::Withdrawn);
        };
        let mut waiting = None;
        loop {
            match cx.input_state(&open.key).await? {
                InputState::Open => {}
                InputState::Answered(answer) => {
                    if let Some(waiting) = waiting {
                        cx.end_wait(waiting).await?;
                    }
                    return Ok(answer);
                }
                InputState::Withdrawn => return Err(AskError::Withdrawn),
            }
            waiting.get_or_insert_with(|| cx.begin_wait(Wait::Input(open.key.clone(), open.until)));
            tokio::select! {
                biased;
                reason = cx.stopped() => return Err(AskError::Stopped(reason)),
                () = watch.changed() => {}
                () = cx.reach(open.until) => match self.expire(open).await {
                    // Answered meanwhile.
                    Err(WriteError::Apply(ApplyError::Illegal(_))) => {}
                    Ok(()) => {
                        if let Some(waiting) = waiting.take() {
                            cx.end_wait(waiting).await?;
                        }
                        return Err(AskError::Unanswered);
                    }
                    Err(error) => return Err(JournalError::from(error).into()),
                },
            }
        }
    }

    async fn expire(&self, open: &OpenQuestion) -> Result<(), WriteError> {
        self.cx
            .write(open.withdrawal(NoAnswerReason::Unanswered))
            .await
            .map(drop)
    }
}

impl Drop for PendingQuestion<'_> {
    fn drop(&mut self) {
        if let Some(open) = self.open.take()
            && !self.cx.is_abandoned(&self.cx.path)
        {
            // Refused if the attempt has ended: then the question stays open for the next one, or ends with the task.
            let _ = self.cx.queue_draft(open.withdrawal(NoAnswerReason::Withdrawn));
        }
    }
}
