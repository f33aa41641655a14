//! Asking the client, from the question to its answer.

use super::{
    TaskContext,
    writer::{Draft, WriteError, Written},
};
use crate::{
    change_feed::Watch,
    journal::{EntryDraft, JournalError, Operation},
    question::{AskError, Gone, Question, QuestionEntry},
    reply::read_answer,
    suspension::Wait,
};
use futures_util::future::try_join_all;
use longhaul_core::{
    ChildEntry, EntryKey, EntryKind, Input, InputKey, InputState, Json, UnixMillis,
    store::{ApplyError, StoreError},
};
use std::sync::Arc;

/// What takes a question back, and overwrites its entry, if it has one.
fn withdrawal(key: InputKey, until: UnixMillis, gone: Gone, entry: Option<EntryDraft>) -> Draft {
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

/// A question that is open, and its place in the journal if there is one.
struct Open {
    key: InputKey,
    until: UnixMillis,
    place: Option<Operation>,
}

impl Open {
    fn withdrawal(&self, gone: Gone) -> Draft {
        let entry = self.place.as_ref().map(|place| place.entry(Json::trusted("null")));
        withdrawal(self.key.clone(), self.until, gone, entry)
    }
}

impl TaskContext {
    /// Asks the client a question and waits for the answer; meanwhile the attempt holds no slot, and after a while nothing at all.
    ///
    /// Several questions may be open at once. Those asked together, as with `join!`, are shown together. Dropping the future withdraws
    /// the question. In a tool that keeps a journal a question that was asked stays asked when its code is run again.
    ///
    /// # Errors
    /// [`AskError`] if the client cannot be asked this, if nobody answers in time, if the work is asked to stop, if the task is over, or
    /// if the store failed.
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
        // Watched before it is written, so that no answer is missed.
        let watch = self.shared.node.change_feed.watch(&self.shared.header.id);
        let open = self.open_question(question).await?;
        let mut pending = PendingQuestion {
            cx: self,
            open: Some(open),
        };
        let answer = pending.answer(watch).await;
        // Whatever came of it, the question is settled, or ends with the task.
        pending.open = None;
        read_answer(answer?)
    }

    /// Asks, unless it was asked before.
    async fn open_question(&self, question: Question) -> Result<Open, AskError> {
        let within = question.waits(self.shared.input_timeout);
        if let Some(asked) = self.asked_before(&question).await? {
            return Ok(Open {
                key: asked.key,
                until: asked.asked_at.plus(within),
                place: None,
            });
        }
        let name = question.name.clone().unwrap_or_else(|| Arc::from(""));
        let place = match &self.shared.journal {
            Some(_) => Some(self.begin(EntryKind::Input, &name)?),
            None => None,
        };
        let read = |place: &Operation| {
            let (_, value) = place.found.as_ref()?;
            Some(place.read_with(value, QuestionEntry::from_json))
        };
        if let Some(found) = place.as_ref().and_then(read).transpose()? {
            let QuestionEntry { key, until, gone } = found;
            return match gone {
                Some(gone) => Err(gone.into()),
                None => Ok(Open { key, until, place }),
            };
        }
        let entry = match &place {
            // The writer says until when, at the moment at which it is asked.
            Some(place) => Some(place.draft(Json::trusted("null"))?),
            None => None,
        };
        let Written { seq, input } = self
            .write(Draft::Ask(question, entry))
            .await
            .map_err(JournalError::from)?;
        let (key, until) = input.ok_or(StoreError::Closed)?;
        let Some(mut place) = place else {
            // Kept nowhere, so it counts from here.
            let until = self.now().plus(within);
            return Ok(Open {
                key,
                until,
                place: None,
            });
        };
        // The writer has written the same, with the key.
        place.written(seq, Json::trusted("null"));
        Ok(Open {
            key,
            until,
            place: Some(place),
        })
    }

    /// The question of this name that an earlier attempt has asked, if it is open or answered.
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

    /// How a question stands in the store.
    async fn input_state(&self, key: &InputKey) -> Result<InputState, AskError> {
        let input = self.shared.node.store.input(&self.shared.header.id, key).await?;
        Ok(input.map_or(InputState::Withdrawn, |input| input.state))
    }

    /// Gives up what this branch has asked and begun, in earlier attempts too: its questions are withdrawn, in one write, and its children
    /// cancelled. Completes when that is written.
    pub(crate) async fn abandon(&self) -> Result<(), JournalError> {
        let Some(journal) = &self.shared.journal else {
            return Ok(());
        };
        let mut withdrawals = Vec::new();
        let given_up = journal.abandon(&self.path);
        self.note_replayed();
        for (key, seq, value) in given_up {
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

    /// Withdraws a question that was written while the one who asked it went away.
    pub(crate) fn take_back_question(&self, key: InputKey, until: UnixMillis, entry: Option<EntryDraft>, seq: u32) {
        if entry.as_ref().is_some_and(|entry| self.is_abandoned(&entry.key.path)) {
            return;
        }
        let entry = entry.map(|entry| EntryDraft {
            seq: Some(seq),
            ..entry
        });
        // Refused if the attempt is over.
        let _ = self.hand_in(withdrawal(key, until, Gone::Withdrawn, entry));
    }

    /// Writes a withdrawal, unless the question was answered, or withdrawn, meanwhile.
    async fn write_if_open(&self, withdrawal: Draft) -> Result<(), JournalError> {
        match self.write(withdrawal).await {
            Ok(_) | Err(WriteError::Apply(ApplyError::Illegal(_))) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// What takes back the question that an entry is about, if that is not settled already.
fn withdrawal_of(key: EntryKey, seq: u32, value: &Json) -> Option<Draft> {
    let open = QuestionEntry::from_json(value)
        .ok()
        .filter(|question| question.gone.is_none())?;
    let entry = EntryDraft {
        key,
        beside: false,
        seq: Some(seq),
        again: false,
        value: Json::trusted("null"),
    };
    Some(withdrawal(open.key, open.until, Gone::Withdrawn, Some(entry)))
}

/// A question whose answer is waited for; dropping this withdraws it, unless the whole attempt goes.
struct PendingQuestion<'a> {
    cx: &'a TaskContext,
    open: Option<Open>,
}

impl PendingQuestion<'_> {
    async fn answer(&self, mut watch: Watch) -> Result<Json, AskError> {
        let (cx, Some(open)) = (self.cx, &self.open) else {
            return Err(AskError::Withdrawn);
        };
        let mut waiting = None;
        loop {
            match cx.input_state(&open.key).await? {
                InputState::Open => {}
                InputState::Answered(answer) => {
                    if let Some(waiting) = waiting {
                        cx.go_on(waiting).await?;
                    }
                    return Ok(answer);
                }
                InputState::Withdrawn => return Err(AskError::Withdrawn),
            }
            waiting.get_or_insert_with(|| cx.wait(Wait::Input(open.key.clone(), open.until)));
            tokio::select! {
                biased;
                reason = cx.stopped() => return Err(AskError::Stopped(reason)),
                () = watch.changed() => {}
                () = cx.reach(open.until) => match self.expire(open).await {
                    // Answered at the last moment.
                    Err(WriteError::Apply(ApplyError::Illegal(_))) => {}
                    Ok(()) => {
                        if let Some(waiting) = waiting.take() {
                            cx.go_on(waiting).await?;
                        }
                        return Err(AskError::Unanswered);
                    }
                    Err(error) => return Err(JournalError::from(error).into()),
                },
            }
        }
    }

    async fn expire(&self, open: &Open) -> Result<(), WriteError> {
        self.cx.write(open.withdrawal(Gone::Unanswered)).await.map(drop)
    }
}

impl Drop for PendingQuestion<'_> {
    fn drop(&mut self) {
        if let Some(open) = self.open.take()
            && !self.cx.is_abandoned(&self.cx.path)
        {
            // Refused if the attempt is over: then the question stays for the next one, or ends with the task.
            let _ = self.cx.hand_in(open.withdrawal(Gone::Withdrawn));
        }
    }
}
