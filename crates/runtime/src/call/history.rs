//! A task's journal as clients see it: its output and its history. Both are read in bounded pages, so that a read costs the same however
//! long the journal is; the store finds output without reading the entries in between.

use crate::{
    Engine,
    context::{ChildDetails, is_join, read_child, read_poll, read_step},
    journal::{EntryDetails, EntryStatus, FailedStepAttempt, read_failure},
    question::{NoAnswerReason, QuestionEntry},
};
use longhaul_core::{
    BoxFuture, EndedBy, Entry, EntryKey, EntryKind, Input, InputState, Json, Millis, Task, TaskId, UnixMillis, shorten,
    store::StoreError,
};
use serde_json::Value;

/// How many entries are read at once.
const BATCH: usize = 16;
/// How many bytes one page reads at most; the last batch may go beyond.
const MOST_BYTES: usize = 1 << 20;

/// A part of a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalPage<T> {
    /// What was found, in order, each with its position.
    pub found: Vec<(u32, T)>,
    /// The last position that was read: where the next page continues.
    pub next: u32,
    /// The last position there is. There is more to read while `next` is less.
    pub total: u32,
}

/// An entry of a task's journal without its value, which may be long or secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntrySummary {
    /// What it is about.
    pub key: EntryKey,
    /// When it began.
    pub at: UnixMillis,
    /// Its status.
    pub status: EntryStatus,
    /// Of a failed attempt: what ended it, if that is known.
    pub ended_by: Option<EndedBy>,
    /// The latest failed attempts of a step or a poll, oldest first.
    pub failed: Vec<FailedStepAttempt>,
    /// How many attempts of the step have failed.
    pub failed_count: u32,
    /// The task that it has started.
    pub child: Option<TaskId>,
    /// How long it took, in milliseconds, if that is known: a step's last attempt, a timer, a child, a question until it was answered or
    /// withdrawn, a poll until it was ready.
    pub took: Option<Millis>,
    /// What a question asks.
    pub question: Option<String>,
    /// Whether a race is a join, which waits for all branches unless one fails.
    pub is_join: bool,
}

impl Engine {
    /// Up to `limit` blocks of a task's output, of those after position `after`. The caller has checked who owns the task.
    ///
    /// # Errors
    /// The store's.
    pub async fn output(&self, task: &Task, after: u32, limit: usize) -> Result<JournalPage<Json>, StoreError> {
        let read = |after, most| self.store().emitted(&task.id, after, most);
        let page = page(task, after, limit, read).await?;
        let values = page.found.into_iter().map(|(place, entry)| (place, entry.value));
        Ok(JournalPage {
            found: values.collect(),
            next: page.next,
            total: page.total,
        })
    }

    /// Up to `limit` entries of a task's journal, of those after position `after`. The caller has checked who owns the task.
    ///
    /// # Errors
    /// The store's.
    pub async fn history(
        &self,
        task: &Task,
        after: u32,
        limit: usize,
    ) -> Result<JournalPage<EntrySummary>, StoreError> {
        let read = |after, most| self.store().journal(&task.id, after, most);
        let page = page(task, after, limit, read).await?;
        let mut found = Vec::with_capacity(page.found.len());
        for (place, entry) in page.found {
            found.push((place, self.summary(task, entry).await?));
        }
        Ok(JournalPage {
            found,
            next: page.next,
            total: page.total,
        })
    }

    async fn summary(&self, task: &Task, entry: Entry) -> Result<EntrySummary, StoreError> {
        let mut child = None;
        let mut question = None;
        let EntryDetails {
            status,
            mut failed,
            ended_by,
            took,
        } = match entry.key.kind {
            EntryKind::Step => read_step(&entry.value),
            EntryKind::Poll => read_poll(&entry.value),
            EntryKind::Timer => self.read_timer(&entry.value, entry.at),
            EntryKind::Failure => read_failure(&entry.value),
            EntryKind::Child => {
                let ChildDetails { task, details } = read_child(&entry.value);
                let record = match &task {
                    Some(task) => self.store().get_unscoped(task).await?,
                    None => None,
                };
                child = task;
                EntryDetails {
                    took: record.and_then(|record| Some(record.task.ended_at?.since(record.task.created_at))),
                    ..details
                }
            }
            EntryKind::Input => match QuestionEntry::from_json(&entry.value) {
                Ok(asked) => {
                    let input = self.store().input(&task.id, &asked.key).await?;
                    question = input.as_ref().and_then(text_of);
                    read_question(&asked, input)
                }
                Err(_) => EntryDetails::of(EntryStatus::Unreadable),
            },
            EntryKind::Emit
            | EntryKind::Now
            | EntryKind::Random
            | EntryKind::Select
            | EntryKind::Version
            | EntryKind::Checkpoint => EntryDetails::of(EntryStatus::Done),
        };
        let status = match status {
            // The task has ended, so nothing waits any more.
            EntryStatus::Waiting(_) if task.is_done() => EntryStatus::Withdrawn,
            status => status,
        };
        let now = self.ports().clock.read();
        let status = match status {
            EntryStatus::Waiting(until) => EntryStatus::Waiting(until.map(|until| now.in_the_world(until))),
            status => status,
        };
        failed
            .last
            .iter_mut()
            .for_each(|failed| failed.at = now.in_the_world(UnixMillis(failed.at)).0);
        Ok(EntrySummary {
            at: now.in_the_world(entry.at),
            status,
            ended_by,
            failed_count: failed.tries,
            failed: failed.last,
            child,
            took,
            question,
            is_join: entry.key.kind == EntryKind::Select && is_join(&entry.value),
            key: entry.key,
        })
    }

    fn read_timer(&self, value: &Json, began: UnixMillis) -> EntryDetails {
        let until = value.as_str().parse().ok().map(UnixMillis);
        let now = self.ports().clock.now();
        let status = match until {
            Some(until) if until <= now => EntryStatus::Done,
            Some(until) => EntryStatus::Waiting(Some(until)),
            None => EntryStatus::Unreadable,
        };
        EntryDetails {
            took: until.filter(|until| *until <= now).map(|until| until.since(began)),
            ..EntryDetails::of(status)
        }
    }
}

fn read_question(asked: &QuestionEntry, input: Option<Input>) -> EntryDetails {
    let took = input
        .as_ref()
        .and_then(|input| Some(input.settled_at?.since(input.asked_at)));
    let status = match input.map(|input| input.state) {
        Some(InputState::Open) => EntryStatus::Waiting(Some(asked.until)),
        Some(InputState::Answered(_)) => EntryStatus::Done,
        Some(InputState::Withdrawn) | None if asked.gone == Some(NoAnswerReason::Unanswered) => EntryStatus::Unanswered,
        Some(InputState::Withdrawn) | None => EntryStatus::Withdrawn,
    };
    EntryDetails {
        took,
        ..EntryDetails::of(status)
    }
}

/// How much of a question the history shows, in bytes.
const LONGEST_QUESTION: usize = 300;

/// The text of a question, if it has one: the message of a form or page, or the last message to a model.
fn text_of(input: &Input) -> Option<String> {
    let request: Value = serde_json::from_str(input.request.as_str()).ok()?;
    let params = &request["params"];
    let last_message = || params["messages"].as_array()?.last()?["content"]["text"].as_str();
    let text = params["message"].as_str().or_else(last_message)?;
    Some(shorten(text, LONGEST_QUESTION).into_owned())
}

/// Reads batches of entries after a position, up to a page.
async fn page<'a>(
    task: &Task,
    after: u32,
    limit: usize,
    read: impl Fn(u32, usize) -> BoxFuture<'a, Result<Vec<Entry>, StoreError>>,
) -> Result<JournalPage<Entry>, StoreError> {
    let mut page = JournalPage {
        found: Vec::new(),
        next: after,
        total: task.journaled,
    };
    let mut bytes = 0;
    while page.found.len() < limit && bytes < MOST_BYTES {
        let most = BATCH.min(limit - page.found.len());
        let batch = read(page.next, most).await?;
        let is_last = batch.len() < most;
        for entry in batch {
            page.next = entry.seq;
            bytes += entry.value.as_str().len();
            page.found.push((entry.seq, entry));
        }
        if is_last {
            // Everything up to the total of the task has been read.
            page.next = page.next.max(page.total);
            break;
        }
    }
    // It may have grown meanwhile.
    page.total = page.total.max(page.next);
    Ok(page)
}
