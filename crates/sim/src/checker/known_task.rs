//! What the checker knows of one task, and what may happen to it.

use super::{Invariant, MAX_QUEUED, MAX_STOPPING, is_settled};
use crate::disk::{self, entries};
use longhaul_core::{
    Entry, EntryKind, InputKey, InputState, Json, NodeId, Outcome, State, Task, TaskId, UnixMillis, Verdict,
    store::{NewTask, Record},
};
use longhaul_store::MemoryStore;
use std::collections::{BTreeMap, BTreeSet};

/// An invariant that a task breaks, and how.
pub(super) type Wrong = (Invariant, String);

pub(super) struct KnownTask {
    /// Tasks are counted as they are created.
    pub(super) nth: usize,
    /// The call that created it.
    pub(super) call: u64,
    pub(super) deleted: bool,
    /// Its id was given away when its front was no longer the newest node.
    pub(super) promoted_late: bool,
    pub(super) outcome: Option<Outcome>,
    /// Until when a client was told that it is kept.
    pub(super) told_until: Option<UnixMillis>,
    /// The attempts that were run from their start.
    pub(super) runs: BTreeSet<u32>,
    /// Those of them that ran changed code.
    pub(super) changed_runs: BTreeSet<u32>,
    /// What the acts of its program came to.
    pub(super) act_result: BTreeMap<u32, String>,
    task: Option<Task>,
    questions: BTreeMap<InputKey, Question>,
    /// Since when it should go on, and why.
    pause: Option<(u64, String)>,
    /// What clients were shown under each key.
    shown: BTreeMap<InputKey, Json>,
    entries: Vec<Entry>,
}

struct Question {
    request: Json,
    answer: Option<Json>,
}

impl KnownTask {
    pub(super) fn new(nth: usize, new: &NewTask) -> Self {
        let arguments: serde_json::Value = serde_json::from_str(new.arguments.as_str()).unwrap_or_default();
        Self {
            nth,
            call: arguments["call"].as_u64().unwrap_or_default(),
            deleted: false,
            promoted_late: false,
            outcome: None,
            told_until: None,
            runs: BTreeSet::new(),
            changed_runs: BTreeSet::new(),
            act_result: BTreeMap::new(),
            task: None,
            questions: BTreeMap::new(),
            pause: None,
            shown: BTreeMap::new(),
            entries: Vec::new(),
        }
    }

    /// Whether it is over, and its last attempt too.
    pub(super) fn is_over(&self) -> bool {
        (self.task.as_ref()).is_some_and(|task| task.is_done() && task.active_attempt().is_none())
    }

    pub(super) fn tell_until(&mut self, until: UnixMillis) {
        self.told_until = self.told_until.max(Some(until));
    }

    /// Holds the task, as it is in the store, to what was seen of it before.
    pub(super) fn look(&mut self, disk: &MemoryStore, record: Record) -> Result<(), Wrong> {
        self.look_at_task(&record)?;
        self.look_at_questions(disk, &record)?;
        self.look_at_journal(entries(disk, &record.task.id))?;
        self.task = Some(record.task);
        Ok(())
    }

    fn look_at_task(&mut self, record: &Record) -> Result<(), Wrong> {
        let task = &record.task;
        if let Some(before) = &self.task {
            if before.is_done() && shape(before) != shape(task) {
                return Err((
                    Invariant::DONE_IS_FINAL,
                    format!("was over, and changed: {:?} became {:?}", shape(before), shape(task)),
                ));
            }
            let kept = (before.stop.is_none() || before.stop == task.stop)
                && (!before.announced || task.announced)
                && before.announced_until <= task.announced_until
                && before.journaled <= task.journaled
                && before.inputs_asked <= task.inputs_asked
                && before.version <= task.version
                && epoch(before) <= epoch(task);
            if !kept {
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
                // A call that nobody could come back for is not blocked; anything else that a bad deploy ends is lost.
                match task.announced || task.keyed || self.changed_runs.is_empty() {
                    true => diverged(outcome),
                    false => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    fn look_at_questions(&mut self, disk: &MemoryStore, record: &Record) -> Result<(), Wrong> {
        for input in &record.inputs {
            let question = self.questions.entry(input.key.clone()).or_insert_with(|| Question {
                request: input.request.clone(),
                answer: None,
            });
            if question.request != input.request || question.answer.is_some() {
                return Err((Invariant::ANSWERED_ONCE, format!("asks {} again", input.key.as_str())));
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

    fn look_at_journal(&mut self, now: Vec<Entry>) -> Result<(), Wrong> {
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

    /// Says what it should long have done.
    pub(super) fn find_stalled(&mut self, disk: &MemoryStore, id: &TaskId, now: u64) -> Option<(usize, String)> {
        if self.deleted || self.outcome.is_some() {
            return None;
        }
        let task = disk::record(disk, id)?.task;
        let due = match (task.state, task.stop) {
            (State::Queued, _) => Some(format!("is queued since {:?}", task.ready_at)),
            (_, Some(stop)) => Some(format!("is asked to stop since {:?}", stop.at)),
            _ => None,
        };
        let Some(due) = due else {
            self.pause = None;
            return None;
        };
        let (since, why) = self.pause.get_or_insert((now, due.clone()));
        if *why != due {
            self.pause = Some((now, due));
            return None;
        }
        let longest = if task.stop.is_some() { MAX_STOPPING } else { MAX_QUEUED };
        (now - *since > longest).then_some((self.nth, due))
    }

    /// Holds what a client is shown to what it was shown before.
    pub(super) fn shown(&mut self, record: &Record) -> Option<Wrong> {
        self.tell_until(record.task.announced_until);
        for input in &record.inputs {
            let request = self
                .shown
                .entry(input.key.clone())
                .or_insert_with(|| input.request.clone());
            if *request != input.request {
                return Some((
                    Invariant::ANSWERED_ONCE,
                    format!("was given the key {} twice, for two questions", input.key.as_str()),
                ));
            }
        }
        match (&record.outcome, &self.outcome) {
            (Some(seen), known) if known.as_ref() != Some(seen) => Some((
                Invariant::NOTHING_LOST,
                "was shown to its client with another outcome than the store has".to_owned(),
            )),
            _ => None,
        }
    }
}

/// What of a task that is over may never change: all that a reader sees. Its last attempt may still stop, and its id be given away.
fn shape(task: &Task) -> impl PartialEq + std::fmt::Debug + use<> {
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

fn epoch(task: &Task) -> (u32, NodeId) {
    let attempt = task.attempt.as_ref();
    attempt.map_or((0, NodeId(0)), |attempt| (attempt.epoch, attempt.node))
}

/// The programs here follow their journals, and changed ones block their tasks; who says otherwise is wrong.
fn diverged(outcome: &Outcome) -> Result<(), Wrong> {
    if outcome.verdict() != Verdict::RpcError || !format!("{outcome:?}").contains("does not follow its journal") {
        return Ok(());
    }
    Err((Invariant::REPLAYS, format!("ended as diverged: {outcome:?}")))
}
