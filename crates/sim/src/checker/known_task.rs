//! What the checker knows about one task, and which changes of it are allowed.

use super::{CONFIRMATION, HOST_LOST, Invariant, MAX_QUEUED, MAX_STOPPING, is_settled};
use crate::disk::{self, entries};
use longhaul_core::{
    Entry, EntryKind, Input, InputKey, InputState, Json, Outcome, State, Task, TaskId, UnixMillis, Verdict,
    store::Record,
};
use longhaul_store::MemoryStore;
use std::collections::{BTreeMap, BTreeSet};

/// The invariant that a task violates, and how.
pub(super) type BrokenInvariant = (Invariant, String);

pub(super) struct KnownTask {
    /// The number of the task, in order of creation.
    pub(super) nth: usize,
    /// The call that created it.
    pub(super) call: u64,
    pub(super) deleted: bool,
    /// It was announced by a node that had lost its lease.
    pub(super) promoted_late: bool,
    pub(super) outcome: Option<Outcome>,
    /// A client was told that the task is kept until this time.
    pub(super) promised_until: Option<UnixMillis>,
    /// The epochs of attempts that executors have run.
    pub(super) run_epochs: BTreeSet<u32>,
    /// The epochs of attempts that ran changed code.
    pub(super) changed_epochs: BTreeSet<u32>,
    /// The results of its program's acts, by number.
    pub(super) act_results: BTreeMap<u32, String>,
    task: Option<Task>,
    questions: BTreeMap<InputKey, KnownQuestion>,
    /// Since when the task should have made progress, in milliseconds, and why.
    stalled: Option<(u64, String)>,
    /// The requests that clients have read, by key.
    read_requests: BTreeMap<InputKey, Json>,
    entries: Vec<Entry>,
}

struct KnownQuestion {
    request: Json,
    answer: Option<Json>,
}

impl KnownTask {
    pub(super) fn new(nth: usize, arguments: &Json) -> Self {
        let arguments: serde_json::Value = serde_json::from_str(arguments.as_str()).unwrap_or_default();
        Self {
            nth,
            call: arguments["call"].as_u64().unwrap_or_default(),
            deleted: false,
            promoted_late: false,
            outcome: None,
            promised_until: None,
            run_epochs: BTreeSet::new(),
            changed_epochs: BTreeSet::new(),
            act_results: BTreeMap::new(),
            task: None,
            questions: BTreeMap::new(),
            stalled: None,
            read_requests: BTreeMap::new(),
            entries: Vec::new(),
        }
    }

    /// Whether the task and its last attempt have ended.
    pub(super) fn is_over(&self) -> bool {
        (self.task.as_ref()).is_some_and(|task| task.is_done() && task.active_attempt().is_none())
    }

    pub(super) fn promise_until(&mut self, until: UnixMillis) {
        self.promised_until = self.promised_until.max(Some(until));
    }

    /// Compares the task in the store with what was known about it.
    pub(super) fn update(&mut self, disk: &MemoryStore, record: Record) -> Result<(), BrokenInvariant> {
        self.check_task(&record)?;
        self.check_questions(disk, &record)?;
        check_confirmation(disk, &record)?;
        self.check_journal(entries(disk, &record.task.id))?;
        self.task = Some(record.task);
        Ok(())
    }

    fn check_task(&mut self, record: &Record) -> Result<(), BrokenInvariant> {
        let task = &record.task;
        if let Some(before) = &self.task {
            if before.is_done() && visible_fields(before) != visible_fields(task) {
                return Err((
                    Invariant::DONE_IS_FINAL,
                    format!(
                        "changed after its end: {:?} became {:?}",
                        visible_fields(before),
                        visible_fields(task)
                    ),
                ));
            }
            let is_monotonic = (before.stop.is_none() || before.stop == task.stop)
                && (!before.announced || task.announced)
                && before.announced_until <= task.announced_until
                && before.journaled <= task.journaled
                && before.inputs_asked <= task.inputs_asked
                && before.version <= task.version
                && epoch(before) <= epoch(task);
            if !is_monotonic {
                return Err((
                    Invariant::NOTHING_LOST,
                    format!("went back: {before:?} became {task:?}"),
                ));
            }
        }
        match (&self.outcome, &record.outcome) {
            (Some(first), now) if now.as_ref() != Some(first) => Err((
                Invariant::NOTHING_LOST,
                format!("had the outcome {first:?} and has {now:?}"),
            )),
            (None, Some(outcome)) => {
                self.outcome = Some(outcome.clone());
                // Only a plain call without a key may fail under changed code: everything else must be blocked.
                match task.announced || task.keyed || self.changed_epochs.is_empty() {
                    true => check_not_diverged(outcome),
                    false => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    fn check_questions(&mut self, disk: &MemoryStore, record: &Record) -> Result<(), BrokenInvariant> {
        for input in &record.inputs {
            let question = self
                .questions
                .entry(input.key.clone())
                .or_insert_with(|| KnownQuestion {
                    request: input.request.clone(),
                    answer: None,
                });
            if question.request != input.request || question.answer.is_some() {
                return Err((
                    Invariant::ANSWERED_ONCE,
                    format!("asks a second question under {}", input.key.as_str()),
                ));
            }
        }
        for (key, question) in &mut self.questions {
            let answered = disk::input(disk, &record.task.id, key);
            let answer = answered.and_then(|input| match input.state {
                InputState::Answered(answer) => Some(answer),
                InputState::Open | InputState::Withdrawn => None,
            });
            if question.answer.is_some() && question.answer != answer {
                return Err((
                    Invariant::ANSWERED_ONCE,
                    format!("has another answer to {} than before", key.as_str()),
                ));
            }
            question.answer = answer;
        }
        Ok(())
    }

    fn check_journal(&mut self, now: Vec<Entry>) -> Result<(), BrokenInvariant> {
        for (nth, before) in self.entries.iter().enumerate() {
            let Some(entry) = now
                .get(nth)
                .filter(|entry| entry.key == before.key && entry.seq == before.seq)
            else {
                return Err((Invariant::NOTHING_LOST, format!("has lost its entry {}", before.key)));
            };
            let fixed = match before.key.kind {
                EntryKind::Step => is_settled(before),
                EntryKind::Child | EntryKind::Input | EntryKind::Poll => false,
                _ => true,
            };
            if fixed && entry.value != before.value {
                return Err((
                    Invariant::STEP_ONCE,
                    format!("had its entry {} written over", before.key),
                ));
            }
        }
        self.entries = now;
        Ok(())
    }

    /// Describes the progress that the task should have made long ago, if any.
    pub(super) fn find_stalled(&mut self, disk: &MemoryStore, id: &TaskId, now: u64) -> Option<(usize, String)> {
        if self.deleted || self.outcome.is_some() {
            return None;
        }
        let task = disk::record(disk, id)?.task;
        let due = match (task.state, task.stop) {
            // As long as others of its group take, which is checked with each write.
            (State::Queued, _) if task.waits_for_group => None,
            (State::Queued, _) => Some(format!("is queued since {:?}", task.ready_at)),
            (_, Some(stop)) => Some(format!("is asked to stop since {:?}", stop.at)),
            _ => None,
        };
        let Some(due) = due else {
            self.stalled = None;
            return None;
        };
        let (since, why) = self.stalled.get_or_insert((now, due.clone()));
        if *why != due {
            self.stalled = Some((now, due));
            return None;
        }
        let is_bound = task.active_attempt().is_some_and(|attempt| attempt.host.is_some());
        let limit = match task.stop {
            Some(_) if is_bound => MAX_STOPPING + HOST_LOST,
            Some(_) => MAX_STOPPING,
            None => MAX_QUEUED,
        };
        (now - *since > limit).then_some((self.nth, due))
    }

    /// Compares what a client reads with what clients have read before.
    pub(super) fn read_by_client(&mut self, record: &Record) -> Option<BrokenInvariant> {
        self.promise_until(record.task.announced_until);
        for input in &record.inputs {
            let request = self
                .read_requests
                .entry(input.key.clone())
                .or_insert_with(|| input.request.clone());
            if *request != input.request {
                return Some((
                    Invariant::ANSWERED_ONCE,
                    format!("used the key {} for two questions", input.key.as_str()),
                ));
            }
        }
        match (&record.outcome, &self.outcome) {
            (Some(seen), known) if known.as_ref() != Some(seen) => Some((
                Invariant::NOTHING_LOST,
                "was read by its client with another outcome than the store has".to_owned(),
            )),
            _ => None,
        }
    }
}

/// The fields of an ended task that must not change: all that a client can read. Its last attempt may still end, and the task be announced.
fn visible_fields(task: &Task) -> impl PartialEq + std::fmt::Debug + use<> {
    (
        task.state,
        task.ended_at,
        task.updated_at,
        task.status.clone(),
        task.progress,
        task.open_inputs.clone(),
        task.journaled,
        task.stop,
    )
}

fn epoch(task: &Task) -> u32 {
    task.attempt.as_ref().map_or(0, |attempt| attempt.epoch)
}

/// What has to be confirmed is asked once, and begins only if that was accepted.
fn check_confirmation(disk: &MemoryStore, record: &Record) -> Result<(), BrokenInvariant> {
    let task = &record.task;
    if task.confirm_by.is_none() {
        return Ok(());
    }
    let asked = disk::input(disk, &task.id, &InputKey::nth(1));
    let is_accepted =
        |input: &Input| matches!(&input.state, InputState::Answered(answer) if answer.as_str().contains("accept"));
    if task.attempt.is_some() && !asked.as_ref().is_some_and(is_accepted) {
        return Err((
            Invariant::CONFIRMED,
            format!("has begun, and its confirmation is {asked:?}"),
        ));
    }
    let again = record.inputs.iter().filter(|input| input.key != InputKey::nth(1));
    match again
        .map(|input| &input.request)
        .any(|request| request.as_str() == CONFIRMATION)
    {
        true => Err((Invariant::CONFIRMED, "is asked to be confirmed again".to_owned())),
        false => Ok(()),
    }
}

/// No task may fail with a non-determinism error: the programs are deterministic, and changed ones block their tasks.
fn check_not_diverged(outcome: &Outcome) -> Result<(), BrokenInvariant> {
    if outcome.verdict() != Verdict::RpcError || !format!("{outcome:?}").contains("does not follow its journal") {
        return Ok(());
    }
    Err((
        Invariant::REPLAYS,
        format!("failed with a non-determinism error: {outcome:?}"),
    ))
}
