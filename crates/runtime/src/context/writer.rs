//! Writing what the code has come to: one write for all that came together.

use super::{
    TaskContext,
    start_child::{MOST_CHILDREN, Refusal},
};
use crate::{
    journal::{EntryDraft, JournalError},
    question::{Question, QuestionEntry},
};
use longhaul_core::{
    Entry, Event, InputKey, Json, StopReason, TaskHeader, TaskId, UnixMillis,
    store::{ApplyError, CreateError, NewTask, ParentEntry, StoreError},
};
use std::{convert::Infallible, sync::Arc};
use tokio::sync::oneshot;

/// Something to be written under the attempt's fence.
pub(crate) enum Draft {
    /// An entry: at its place, if it has one already.
    Entry(EntryDraft),
    /// A question, with its entry if the attempt keeps a journal. The entry's value names the question's key.
    Ask(Question, Option<EntryDraft>),
    /// A question that nobody needs answered any more.
    Withdraw(InputKey, Option<EntryDraft>),
    /// Another task, with the entry that names it.
    Child(Box<NewTask>, EntryDraft),
}

impl Draft {
    /// What is written to the journal with it, if anything is.
    fn entry(&self) -> Option<&EntryDraft> {
        match self {
            Self::Ask(_, entry) | Self::Withdraw(_, entry) => entry.as_ref(),
            Self::Entry(entry) | Self::Child(_, entry) => Some(entry),
        }
    }

    /// What goes on by itself once this is written.
    pub(crate) fn begun(&self) -> Begun {
        match self {
            Self::Ask(_, entry) => Begun::Question(entry.clone()),
            Self::Child(new, entry) => Begun::Child(new.id.clone(), Arc::clone(&entry.key.path)),
            Self::Entry(_) | Self::Withdraw(..) => Begun::Nothing,
        }
    }
}

/// What is to be given up if the one who has had it written goes away meanwhile.
pub(crate) enum Begun {
    Nothing,
    /// A question, with what was drafted as its entry.
    Question(Option<EntryDraft>),
    /// A child of this branch.
    Child(TaskId, Arc<str>),
}

/// What was written.
#[derive(Debug, Clone, Default)]
pub(crate) struct Written {
    /// The entry's place, or 0 if there is no entry.
    pub(crate) seq: u32,
    /// The new question's key, and until when an answer is waited for.
    pub(crate) input: Option<(InputKey, UnixMillis)>,
}

/// Why a draft was not written.
#[derive(Debug, Clone)]
pub(crate) enum WriteError {
    Apply(ApplyError),
    /// The child is not to be.
    Refused(Refusal),
    Stopped(StopReason),
    /// It is not to have an entry.
    Journal(JournalError),
}

impl From<WriteError> for JournalError {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Apply(error) => Self::Task(error),
            WriteError::Stopped(reason) => Self::Stopped(reason),
            WriteError::Journal(error) => error,
            // Whoever starts a child keeps why it is not to be.
            WriteError::Refused(refusal) => Self::Task(ApplyError::Store(StoreError::Failed(refusal.to_string()))),
        }
    }
}

/// A draft with someone waiting for it.
pub(crate) struct Pending {
    pub(crate) draft: Draft,
    pub(crate) tell: oneshot::Sender<Result<Written, WriteError>>,
}

/// Writes drafts as the work hands them in. What it hands in without waiting in between is written at once, so that a reader who sees one
/// question of several sees all (G2-28): the work has been polled before this is.
pub(crate) async fn write_drafts(cx: &TaskContext) -> Infallible {
    loop {
        let batch = cx.next_drafts().await;
        let (done, written) = oneshot::channel();
        let carrier = cx.clone();
        // Not this future, which ends with the work, but the engine carries them through: a write that was begun must be known of.
        cx.shared.node.spawn(async move {
            carrier.write_batch(batch).await;
            let _ = done.send(());
        });
        let _ = written.await;
    }
}

/// A wait for something to be written. Dropping it gives up what was begun by that, also if it had been written and not been heard of.
pub(crate) struct Told<'a> {
    pub(crate) cx: &'a TaskContext,
    pub(crate) begun: Begun,
    pub(crate) receiver: oneshot::Receiver<Result<Written, WriteError>>,
}

impl Told<'_> {
    pub(crate) async fn written(mut self) -> Result<Written, WriteError> {
        let written = (&mut self.receiver).await;
        written.unwrap_or(Err(WriteError::Apply(ApplyError::Stale)))
    }
}

impl Drop for Told<'_> {
    fn drop(&mut self) {
        // From here on the writer knows.
        self.receiver.close();
        if let Ok(Ok(written)) = self.receiver.try_recv() {
            let begun = std::mem::replace(&mut self.begun, Begun::Nothing);
            self.cx.take_back(begun, written);
        }
    }
}

impl TaskContext {
    fn take_back(&self, begun: Begun, written: Written) {
        match (begun, written.input) {
            (Begun::Question(entry), Some((key, until))) => self.take_back_question(key, until, entry, written.seq),
            (Begun::Child(child, path), _) if !self.is_over() && !self.is_abandoned(&path) => self.cancel_child(&child),
            _ => {}
        }
    }

    async fn write_batch(&self, batch: Vec<Pending>) {
        let mut together = Vec::new();
        for pending in batch {
            if matches!(pending.draft, Draft::Child(..)) {
                self.write_together(std::mem::take(&mut together)).await;
                self.write_child(pending).await;
            } else {
                together.push(pending);
            }
        }
        self.write_together(together).await;
    }

    async fn write_together(&self, batch: Vec<Pending>) {
        if batch.is_empty() {
            return;
        }
        match self.write_events(&batch).await {
            Ok(written) => {
                for (Pending { draft, tell }, written) in batch.into_iter().zip(written) {
                    if let Err(Ok(written)) = tell.send(written) {
                        self.take_back(draft.begun(), written);
                    }
                }
            }
            // One of them is not legal any more, as a question that was answered meanwhile; the others have nothing to do with that.
            Err(WriteError::Apply(ApplyError::Illegal(_))) if batch.len() > 1 => {
                for pending in batch {
                    Box::pin(self.write_together(vec![pending])).await;
                }
            }
            Err(error) => {
                for pending in batch {
                    let _ = pending.tell.send(Err(error.clone()));
                }
            }
        }
    }

    /// One write. What the journal is to keep is not to be lost: while the store cannot write, it is tried again. What it has no room for
    /// is told so after the rest is written: only then is that sure.
    async fn write_events(&self, batch: &[Pending]) -> Result<Vec<Result<Written, WriteError>>, WriteError> {
        let mut asked = self.shared.asked.lock().await;
        self.follows()?;
        let mut next = self.shared.journal.as_ref().map_or(0, |journal| journal.next());
        let mut ever = *asked;
        let mut events = Vec::new();
        let mut all = Vec::with_capacity(batch.len());
        let mut entries = Vec::new();
        // The questions whose time is in their entries.
        let mut asks = Vec::new();
        let mut again = false;
        for Pending { draft, .. } in batch {
            if let Err(error) = self.has_room(draft, next) {
                all.push(Err(WriteError::Journal(error)));
                continue;
            }
            let mut written = Written::default();
            let mut entry = None;
            match draft {
                Draft::Entry(draft) => entry = Some((draft, draft.value.clone())),
                Draft::Ask(question, draft) => {
                    if let Some(reason) = self.stop_requested() {
                        return Err(WriteError::Stopped(reason));
                    }
                    ever += 1;
                    let key = InputKey::nth(ever);
                    events.push(Event::InputRequested {
                        key: key.clone(),
                        name: question.name.clone(),
                        request: question.request.clone(),
                    });
                    let until = self.now().plus(question.waits(self.shared.input_timeout));
                    if let Some(draft) = draft {
                        asks.push((question, key.clone(), all.len(), events.len(), entries.len()));
                        entry = Some((draft, QuestionEntry::open(key.clone(), until).to_json()));
                    }
                    written.input = Some((key, until));
                }
                Draft::Withdraw(key, draft) => {
                    events.push(Event::InputWithdrawn { key: key.clone() });
                    entry = draft.as_ref().map(|draft| (draft, draft.value.clone()));
                }
                // Written by itself.
                Draft::Child(..) => {}
            }
            if let Some((draft, value)) = entry {
                let seq = draft.seq.unwrap_or(next);
                next = next.max(seq + 1);
                written.seq = seq;
                again |= draft.again;
                events.push(Event::Journaled(self.entry(draft, seq, value.clone())));
                entries.push((seq, draft.key.clone(), value));
            }
            all.push(Ok(written));
        }
        if events.is_empty() {
            return Ok(all);
        }
        if again {
            events.push(Event::Advanced);
        }
        let applied = if entries.is_empty() {
            self.apply(events).await
        } else {
            let node = &self.shared.node;
            node.retry_store("writing to a journal", || {
                // Each try as if it were the first: no time is to run while nothing can be written.
                let now = self.now();
                for (question, key, written, event, entry) in &asks {
                    let until = now.plus(question.waits(self.shared.input_timeout));
                    let value = QuestionEntry::open(key.clone(), until).to_json();
                    if let Event::Journaled(entry) = &mut events[*event] {
                        entry.value = value.clone();
                    }
                    let (.., kept) = &mut entries[*entry];
                    *kept = value;
                    all[*written] = all[*written].clone().map(|written| Written {
                        input: Some((key.clone(), until)),
                        ..written
                    });
                }
                for event in &mut events {
                    if let Event::Journaled(entry) = event {
                        entry.at = now;
                    }
                }
                self.apply(events.clone())
            })
            .await
        };
        let task = applied.map_err(WriteError::Apply)?;
        *asked = ever;
        if let Some(journal) = &self.shared.journal {
            for (seq, key, value) in &entries {
                journal.wrote(*seq, key, value);
            }
            if again {
                journal.advance();
            }
            if journal.has_advanced() {
                self.set_isolation_guard(None);
            }
        }
        self.shared.node.changed(&task);
        Ok(all)
    }

    async fn write_child(&self, Pending { draft, tell }: Pending) {
        let Draft::Child(new, draft) = draft else { return };
        let begun = Begun::Child(new.id.clone(), Arc::clone(&draft.key.path));
        if let Err(Ok(written)) = tell.send(self.create_child(*new, draft).await) {
            self.take_back(begun, written);
        }
    }

    async fn create_child(&self, new: NewTask, draft: EntryDraft) -> Result<Written, WriteError> {
        // One at a time: the place must be the next one.
        let _turn = self.shared.asked.lock().await;
        self.follows()?;
        if let Some(reason) = self.stop_requested() {
            return Err(WriteError::Stopped(reason));
        }
        let Some(journal) = &self.shared.journal else {
            return Err(WriteError::Apply(ApplyError::Stale));
        };
        let seq = journal.next();
        journal.has_room(seq, &draft.key).map_err(WriteError::Journal)?;
        if journal.children() >= MOST_CHILDREN {
            return Err(WriteError::Refused(Refusal::TooMany));
        }
        let node = &self.shared.node;
        let create = || async {
            // Each try as if it were the first: the child's times are not to run while nobody could start it.
            let parent = ParentEntry {
                fence: self.shared.fence,
                entry: self.entry(&draft, seq, draft.value.clone()),
            };
            let new = NewTask {
                header: TaskHeader {
                    created_at: self.now(),
                    lineage: Some(self.lineage_of_child(seq)),
                    ..new.header.clone()
                },
                parent: Some(parent),
                ..new.clone()
            };
            match self.shared.children.clone().start(new).await {
                Ok(_) => Ok(Ok(())),
                Err(CreateError::Parent(error)) => Err(error),
                Err(CreateError::Store(error)) => Err(error.into()),
                Err(refused) => Ok(Err(refused)),
            }
        };
        let created = node.retry_store("starting a child", create).await;
        created
            .map_err(WriteError::Apply)?
            .map_err(|refused| WriteError::Refused(refused.into()))?;
        journal.wrote(seq, &draft.key, &draft.value);
        self.set_isolation_guard(None);
        Ok(Written { seq, input: None })
    }

    /// What was handed in before the code diverged, and is not written yet, is not written any more: a journal takes nothing past that.
    fn follows(&self) -> Result<(), WriteError> {
        let journal = self.shared.journal.as_ref();
        let followed = journal.map_or(Ok(()), |journal| journal.has_diverged());
        followed.map_err(|divergence| WriteError::Journal(divergence.into()))
    }

    /// Whether the entry of a draft, if it is a new one, may have the place `seq`.
    fn has_room(&self, draft: &Draft, seq: u32) -> Result<(), JournalError> {
        match (&self.shared.journal, draft.entry()) {
            (Some(journal), Some(entry)) if entry.seq.is_none() => journal.has_room(seq, &entry.key),
            _ => Ok(()),
        }
    }

    fn entry(&self, draft: &EntryDraft, seq: u32, value: Json) -> Entry {
        Entry {
            seq,
            key: draft.key.clone(),
            beside: draft.beside,
            value,
            at: self.now(),
            epoch: self.shared.fence.epoch,
        }
    }
}
