//! Writes what the branches of the code hand in: one change for all that came at one time.

use super::{
    TaskContext,
    context_engine::{ChildRefusal, MOST_CHILDREN},
};
use crate::{
    journal::{EntryDraft, JournalError},
    question::{Question, QuestionEntry},
};
use longhaul_core::{
    Entry, EntryKey, Event, InputKey, Json, Millis, StopReason, Task, TaskHeader, TaskId, UnixMillis,
    store::{ApplyError, Change, CreateError, NewTask, ParentEntry, StoreError},
};
use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use tokio::sync::oneshot;

/// Something to be written under the attempt's fencing token.
pub(crate) enum Draft {
    /// An entry, new or overwritten.
    Entry(EntryDraft),
    /// A question, with its entry if the task is durable. The writer fills in the entry's value, since it assigns the question's key.
    Ask(Question, Option<EntryDraft>),
    /// The withdrawal of a question.
    Withdraw(InputKey, Option<EntryDraft>),
    /// A child, with the entry that names it.
    Child(Box<NewTask>, EntryDraft),
}

impl Draft {
    /// The journal entry that is written with it.
    fn entry(&self) -> Option<&EntryDraft> {
        match self {
            Self::Ask(_, entry) | Self::Withdraw(_, entry) => entry.as_ref(),
            Self::Entry(entry) | Self::Child(_, entry) => Some(entry),
        }
    }

    /// What undoes it if nobody waits for it any more once it is written.
    pub(super) fn undo(&self) -> Undo {
        match self {
            Self::Ask(_, entry) => Undo::WithdrawQuestion(entry.clone()),
            Self::Child(new, entry) => Undo::CancelChild(new.id.clone(), Arc::clone(&entry.key.path)),
            Self::Entry(_) | Self::Withdraw(..) => Undo::Nothing,
        }
    }
}

/// What has to happen if the future that wanted a draft written is dropped before it learns of the write.
pub(super) enum Undo {
    Nothing,
    /// Withdraw the question, which has this entry.
    WithdrawQuestion(Option<EntryDraft>),
    /// Cancel the child, which belongs to this branch.
    CancelChild(TaskId, Arc<str>),
}

/// The result of a write.
#[derive(Debug, Clone, Default)]
pub(crate) struct WriteOutcome {
    /// The entry's position in the journal, or 0 if there is no entry.
    pub(crate) seq: u32,
    /// The new question's key, and when it times out.
    pub(crate) input: Option<(InputKey, UnixMillis)>,
}

/// Why a draft was not written.
#[derive(Debug, Clone)]
pub(crate) enum WriteError {
    Apply(ApplyError),
    /// The child is refused.
    Refused(ChildRefusal),
    Stopped(StopReason),
    /// The journal does not accept it.
    Journal(JournalError),
}

impl From<WriteError> for JournalError {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Apply(error) => Self::Task(error),
            WriteError::Stopped(reason) => Self::Stopped(reason),
            WriteError::Journal(error) => error,
            // A refused child is recorded by `call`, so this does not happen.
            WriteError::Refused(refusal) => Self::Task(ApplyError::Store(StoreError::Failed(refusal.to_string()))),
        }
    }
}

/// A draft that waits for the writer, and where its result goes.
pub(crate) struct QueuedDraft {
    pub(crate) draft: Draft,
    pub(crate) reply: oneshot::Sender<Result<WriteOutcome, WriteError>>,
}

/// Writes queued drafts until it is dropped. Drafts that the code queues in one poll are written together, so that a reader who sees one of
/// several questions sees all: the code is polled before this is.
pub(crate) async fn write_drafts(cx: &TaskContext) -> Infallible {
    loop {
        let batch = cx.next_drafts().await;
        let (done, written) = oneshot::channel();
        let writer = cx.clone();
        // Spawned, because this future is dropped with the code, and the result of a write must not be lost.
        cx.shared.node.spawn(async move {
            writer.write_batch(batch).await;
            let _ = done.send(());
        });
        let _ = written.await;
    }
}

/// A draft that is being written. Dropping this undoes the draft, also if it was just written.
pub(super) struct PendingWrite<'a> {
    pub(crate) cx: &'a TaskContext,
    pub(super) undo: Undo,
    pub(crate) receiver: oneshot::Receiver<Result<WriteOutcome, WriteError>>,
}

impl PendingWrite<'_> {
    pub(crate) async fn written(mut self) -> Result<WriteOutcome, WriteError> {
        let written = (&mut self.receiver).await;
        written.unwrap_or(Err(WriteError::Apply(ApplyError::Stale)))
    }
}

impl Drop for PendingWrite<'_> {
    fn drop(&mut self) {
        // From here on the writer sees that nobody waits, and undoes the draft itself.
        self.receiver.close();
        if let Ok(Ok(written)) = self.receiver.try_recv() {
            let undo = std::mem::replace(&mut self.undo, Undo::Nothing);
            self.cx.undo(undo, written);
        }
    }
}

/// The change that several drafts make together, while it is put together.
#[derive(Default)]
struct Batch<'a> {
    events: Vec<Event>,
    /// The entries among the events: position, key, value.
    entries: Vec<(u32, EntryKey, Json)>,
    questions: Vec<JournaledQuestion<'a>>,
    /// The result of each draft if the rest is written.
    outcomes: Vec<Result<WriteOutcome, WriteError>>,
    /// The number of questions the task has ever asked.
    asked: u32,
    /// Whether this attempt has written one of the entries before, which is forward progress.
    is_second_write: bool,
}

/// A question with an entry, which says when it times out, and where both are in the batch.
struct JournaledQuestion<'a> {
    question: &'a Question,
    key: InputKey,
    outcome: usize,
    event: usize,
    entry: usize,
}

impl Batch<'_> {
    /// Sets when the entries are made and when their questions time out.
    fn set_time(&mut self, change: &mut Change, now: UnixMillis, input_timeout: Millis) {
        change.at = now;
        for asked in &self.questions {
            let until = now.plus(asked.question.waits(input_timeout));
            let value = QuestionEntry::open(asked.key.clone(), until).to_json();
            if let Event::Journaled(entry) = &mut change.events[asked.event] {
                entry.value = value.clone();
            }
            let (.., kept) = &mut self.entries[asked.entry];
            *kept = value;
            if let Ok(outcome) = &mut self.outcomes[asked.outcome] {
                outcome.input = Some((asked.key.clone(), until));
            }
        }
        for event in &mut change.events {
            if let Event::Journaled(entry) = event {
                entry.at = now;
            }
        }
    }
}

impl TaskContext {
    fn undo(&self, undo: Undo, written: WriteOutcome) {
        match (undo, written.input) {
            (Undo::WithdrawQuestion(entry), Some((key, until))) => {
                self.withdraw_unwaited_question(key, until, entry, written.seq)
            }
            (Undo::CancelChild(child, path), _) if !self.is_over() && !self.is_abandoned(&path) => {
                self.cancel_child(&child)
            }
            _ => {}
        }
    }

    async fn write_batch(&self, batch: Vec<QueuedDraft>) {
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

    async fn write_together(&self, batch: Vec<QueuedDraft>) {
        if batch.is_empty() {
            return;
        }
        match self.write_events(&batch).await {
            Ok(written) => {
                for (QueuedDraft { draft, reply }, written) in batch.into_iter().zip(written) {
                    if let Err(Ok(written)) = reply.send(written) {
                        self.undo(draft.undo(), written);
                    }
                }
            }
            // One of them is no longer legal, such as the withdrawal of a question that was answered meanwhile; the others may be.
            Err(WriteError::Apply(ApplyError::Illegal(_))) if batch.len() > 1 => {
                for pending in batch {
                    Box::pin(self.write_together(vec![pending])).await;
                }
            }
            Err(error) => {
                for pending in batch {
                    let _ = pending.reply.send(Err(error.clone()));
                }
            }
        }
    }

    /// One change for the whole batch. Journal entries must not be lost, so it is retried while the store fails. A draft for which the journal
    /// has no room is refused after the others are written, since only then is that certain.
    async fn write_events(&self, drafts: &[QueuedDraft]) -> Result<Vec<Result<WriteOutcome, WriteError>>, WriteError> {
        let mut so_far = self.shared.written.lock().await;
        self.check_not_diverged()?;
        let mut batch = self.batch(drafts, so_far.asked)?;
        if batch.events.is_empty() {
            return Ok(batch.outcomes);
        }
        if batch.is_second_write {
            batch.events.push(Event::Advanced);
        }
        let change = self.change_once(&mut so_far, std::mem::take(&mut batch.events));
        let applied = match batch.entries.is_empty() {
            true => self.shared.node.apply_until_known(change).await,
            false => self.apply_with_entries(&mut batch, change).await,
        };
        let task = applied.map_err(WriteError::Apply)?;
        so_far.asked = batch.asked;
        if let Some(journal) = &self.shared.journal {
            for (seq, key, value) in &batch.entries {
                journal.wrote(*seq, key, value);
            }
            if batch.is_second_write {
                journal.advance();
            }
            if journal.has_advanced() {
                self.set_isolation_guard(None);
            }
        }
        self.shared.node.changed(&task);
        Ok(batch.outcomes)
    }

    /// What drafts are to write, after so many questions.
    fn batch<'a>(&self, drafts: &'a [QueuedDraft], asked: u32) -> Result<Batch<'a>, WriteError> {
        let mut next = self.shared.journal.as_ref().map_or(0, |journal| journal.next());
        let mut batch = Batch {
            outcomes: Vec::with_capacity(drafts.len()),
            asked,
            ..Batch::default()
        };
        for QueuedDraft { draft, .. } in drafts {
            if let Err(error) = self.has_room(draft, next) {
                batch.outcomes.push(Err(WriteError::Journal(error)));
                continue;
            }
            let mut written = WriteOutcome::default();
            let mut entry = None;
            match draft {
                Draft::Entry(draft) => entry = Some((draft, draft.value.clone())),
                Draft::Ask(question, draft) => {
                    if let Some(reason) = self.stop_requested() {
                        return Err(WriteError::Stopped(reason));
                    }
                    batch.asked += 1;
                    let key = InputKey::nth(batch.asked);
                    batch.events.push(Event::InputRequested {
                        key: key.clone(),
                        name: question.name.clone(),
                        request: question.request.clone(),
                    });
                    let until = self.now().plus(question.waits(self.shared.input_timeout));
                    if let Some(draft) = draft {
                        batch.questions.push(JournaledQuestion {
                            question,
                            key: key.clone(),
                            outcome: batch.outcomes.len(),
                            event: batch.events.len(),
                            entry: batch.entries.len(),
                        });
                        entry = Some((draft, QuestionEntry::open(key.clone(), until).to_json()));
                    }
                    written.input = Some((key, until));
                }
                Draft::Withdraw(key, draft) => {
                    batch.events.push(Event::InputWithdrawn { key: key.clone() });
                    entry = draft.as_ref().map(|draft| (draft, draft.value.clone()));
                }
                // Written on its own.
                Draft::Child(..) => {}
            }
            if let Some((draft, value)) = entry {
                let seq = draft.seq.unwrap_or(next);
                next = next.max(seq + 1);
                written.seq = seq;
                batch.is_second_write |= draft.is_second_write;
                batch
                    .events
                    .push(Event::Journaled(self.entry(draft, seq, value.clone())));
                batch.entries.push((seq, draft.key.clone(), value));
            }
            batch.outcomes.push(Ok(written));
        }
        Ok(batch)
    }

    async fn apply_with_entries(&self, batch: &mut Batch<'_>, mut change: Change) -> Result<Task, ApplyError> {
        let node = &self.shared.node;
        let unknown = AtomicBool::new(false);
        node.retry_store("writing to a journal", || {
            // Each try takes the present time: timeouts must not run while the store fails. But what may have been written must stay as it is.
            let now = match unknown.load(Ordering::Relaxed) {
                true => change.at,
                false => self.now(),
            };
            batch.set_time(&mut change, now, self.shared.input_timeout);
            let applied = node.store.apply(change.clone());
            async {
                let applied = applied.await;
                if let Err(ApplyError::Store(StoreError::OutcomeUnknown(_))) = &applied {
                    unknown.store(true, Ordering::Relaxed);
                }
                applied
            }
        })
        .await
    }

    async fn write_child(&self, QueuedDraft { draft, reply }: QueuedDraft) {
        let Draft::Child(new, draft) = draft else { return };
        let undo = Undo::CancelChild(new.id.clone(), Arc::clone(&draft.key.path));
        if let Err(Ok(written)) = reply.send(self.create_child(*new, draft).await) {
            self.undo(undo, written);
        }
    }

    async fn create_child(&self, new: NewTask, draft: EntryDraft) -> Result<WriteOutcome, WriteError> {
        // Locked, because the position must be the next one.
        let _next_position = self.shared.written.lock().await;
        self.check_not_diverged()?;
        if let Some(reason) = self.stop_requested() {
            return Err(WriteError::Stopped(reason));
        }
        let Some(journal) = &self.shared.journal else {
            return Err(WriteError::Apply(ApplyError::Stale));
        };
        let seq = journal.next();
        journal.has_room(seq, &draft.key).map_err(WriteError::Journal)?;
        if journal.children() >= MOST_CHILDREN {
            return Err(WriteError::Refused(ChildRefusal::TooMany));
        }
        let node = &self.shared.node;
        let create = || async {
            // Each try takes the present time: the child's deadline must not run while the store fails.
            let parent = ParentEntry {
                fence: self.shared.fence,
                entry: self.entry(&draft, seq, draft.value.clone()),
            };
            let new = NewTask {
                header: TaskHeader {
                    created_at: self.now(),
                    lineage: Some(self.lineage_of_child(seq)),
                    group: None,
                    ..new.header.clone()
                },
                parent: Some(parent),
                ..new.clone()
            };
            match self.shared.engine.clone().start(new).await {
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
        Ok(WriteOutcome { seq, input: None })
    }

    /// Refuses everything once the code has diverged, also drafts that were queued before.
    fn check_not_diverged(&self) -> Result<(), WriteError> {
        let journal = self.shared.journal.as_ref();
        let followed = journal.map_or(Ok(()), |journal| journal.has_diverged());
        followed.map_err(|divergence| WriteError::Journal(divergence.into()))
    }

    /// Whether the journal has room for the draft's entry, if that is a new one, at position `seq`.
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
