//! A task with all that belongs to it.

use crate::{
    backend::Insertion,
    decision::{Decision, EntryWrite, InputWrite},
    usage,
};
use longhaul_core::{
    AnsweredBy, Entry, EntryKind, HostId, Input, InputKey, InputState, Json, Outcome, Task, UnixMillis, Usage,
    store::{Claimed, Idempotency, Record, Uniqueness, UnwrittenCall},
};
use std::{collections::BTreeMap, mem};

pub(super) struct StoredTask {
    pub(super) task: Task,
    pub(super) arguments: Json,
    pub(super) requestor: Json,
    pub(super) idempotency: Option<Idempotency>,
    pub(super) unique: Option<Uniqueness>,
    outcome: Option<Outcome>,
    inputs: BTreeMap<InputKey, Input>,
    /// Entry n is at n - 1.
    journal: Vec<Entry>,
    /// The numbers of the entries that are output.
    emitted: Vec<u32>,
    /// The hosts to which attempts were bound: they may have files.
    pub(super) hosts: Vec<HostId>,
    /// Of all payloads, updated with each write.
    bytes: u64,
}

/// All that decides where a task is found and what it counts for.
#[derive(Clone, Copy)]
pub(super) struct IndexedTask<'a> {
    pub(super) task: &'a Task,
    pub(super) idempotency: Option<&'a Idempotency>,
    pub(super) unique: Option<Uniqueness>,
    pub(super) bytes: u64,
}

impl IndexedTask<'_> {
    /// Its share of its owner's usage.
    pub(super) fn usage(self) -> Usage {
        Usage {
            live: u64::from(!self.task.is_done()),
            bytes: self.bytes,
        }
    }
}

impl StoredTask {
    pub(super) fn new(new: Insertion<'_>) -> Self {
        let mut stored = Self {
            bytes: usage::bytes(new.arguments) + usage::bytes(new.requestor),
            task: new.decision.task.clone(),
            arguments: new.arguments.clone(),
            requestor: new.requestor.clone(),
            idempotency: new.idempotency.cloned(),
            unique: new.unique.copied(),
            hosts: Vec::new(),
            outcome: None,
            inputs: BTreeMap::new(),
            journal: Vec::new(),
            emitted: Vec::new(),
        };
        if let Some(history) = new.history {
            for entry in history.entries() {
                stored.write_entry(&EntryWrite::Appended(entry));
            }
            for input in history.inputs() {
                stored.bytes += usage::of_input(input);
                stored.inputs.insert(input.key.clone(), input.clone());
            }
        }
        stored.write_parts(new.decision);
        stored
    }

    /// The call as it is.
    pub(super) fn unwritten(self) -> UnwrittenCall {
        UnwrittenCall {
            task: self.task,
            arguments: self.arguments,
            requestor: self.requestor,
        }
    }

    pub(super) fn indexed(&self) -> IndexedTask<'_> {
        IndexedTask {
            task: &self.task,
            idempotency: self.idempotency.as_ref(),
            unique: self.unique,
            bytes: self.bytes,
        }
    }

    /// As [`indexed`](Self::indexed), with all bytes counted anew.
    #[cfg(test)]
    pub(super) fn recount(&self) -> IndexedTask<'_> {
        let inputs = self.inputs.values().map(usage::of_input);
        let journal = self.journal.iter().map(usage::of_entry);
        let call = usage::bytes(&self.arguments) + usage::bytes(&self.requestor);
        let outcome = self.outcome.as_ref().map_or(0, usage::of_outcome);
        IndexedTask {
            bytes: call + outcome + inputs.sum::<u64>() + journal.sum::<u64>(),
            ..self.indexed()
        }
    }

    /// With what its worker needs.
    pub(super) fn claimed(&self) -> Claimed {
        Claimed {
            task: self.task.clone(),
            arguments: self.arguments.clone(),
            requestor: self.requestor.clone(),
        }
    }

    pub(super) fn record(&self) -> Record {
        let open = self.task.open_inputs.iter().filter_map(|key| self.inputs.get(key));
        Record {
            task: self.task.clone(),
            outcome: self.outcome.clone(),
            inputs: open.cloned().collect(),
        }
    }

    pub(super) fn input(&self, key: &InputKey) -> Option<&Input> {
        self.inputs.get(key)
    }

    /// By the time they were asked, then by key.
    pub(super) fn inputs(&self, limit: usize) -> Vec<Input> {
        let mut inputs: Vec<Input> = self.inputs.values().cloned().collect();
        inputs.sort_by(|one, other| (one.asked_at, one.key.as_str()).cmp(&(other.asked_at, other.key.as_str())));
        inputs.truncate(limit);
        inputs
    }

    pub(super) fn journal(&self, after: u32) -> &[Entry] {
        self.journal.get(after as usize..).unwrap_or_default()
    }

    pub(super) fn emitted(&self, after: u32) -> impl Iterator<Item = &Entry> {
        let first = self.emitted.partition_point(|place| *place <= after);
        self.emitted[first..]
            .iter()
            .filter_map(|place| self.journal.get(at(*place)))
    }

    /// Returns the task as it was.
    pub(super) fn write(&mut self, decision: &Decision<'_>) -> Task {
        self.write_parts(decision);
        mem::replace(&mut self.task, decision.task.clone())
    }

    /// Writes all that belongs to the task.
    fn write_parts(&mut self, decision: &Decision<'_>) {
        if let Some(outcome) = &decision.outcome {
            self.bytes += usage::of_outcome(outcome);
            self.outcome = Some(outcome.clone());
        }
        for question in &decision.inputs {
            self.write_input(question);
        }
        for place in &decision.entries {
            self.write_entry(place);
        }
        let bound = bound_to(&decision.task).filter(|host| !self.hosts.contains(host));
        self.hosts.extend(bound.cloned());
    }

    fn write_input(&mut self, question: &InputWrite<'_>) {
        match question {
            InputWrite::Asked { key, name, request, at } => {
                self.bytes += usage::bytes(request);
                let input = Input {
                    key: key.clone(),
                    name: name.cloned(),
                    request: (*request).clone(),
                    state: InputState::Open,
                    asked_at: *at,
                    settled_at: None,
                    answered_by: None,
                };
                self.inputs.insert(key.clone(), input);
            }
            InputWrite::Answered { key, answer, by, at } => {
                self.bytes += usage::bytes(answer);
                self.settle(key, InputState::Answered((*answer).clone()), Some(*by), *at);
            }
            InputWrite::Withdrawn { key, at } => self.settle(key, InputState::Withdrawn, None, *at),
        }
    }

    fn settle(&mut self, key: &InputKey, state: InputState, by: Option<AnsweredBy>, at: UnixMillis) {
        if let Some(input) = self.inputs.get_mut(key) {
            input.state = state;
            input.settled_at = Some(at);
            input.answered_by = by;
        }
    }

    fn write_entry(&mut self, place: &EntryWrite<'_>) {
        match place {
            EntryWrite::Appended(entry) => {
                self.bytes += usage::of_entry(entry);
                if entry.key.kind == EntryKind::Emit {
                    self.emitted.push(entry.seq);
                }
                self.journal.push((*entry).clone());
            }
            EntryWrite::Rewritten { seq, value, epoch } => {
                if let Some(entry) = self.journal.get_mut(at(*seq)) {
                    self.bytes = self.bytes + usage::bytes(value) - usage::bytes(&entry.value);
                    entry.value = (*value).clone();
                    entry.epoch = epoch.unwrap_or(entry.epoch);
                }
            }
        }
    }
}

/// The host of the latest attempt, if it is bound to one.
fn bound_to(task: &Task) -> Option<&HostId> {
    task.attempt.as_ref()?.host.as_ref()
}

fn at(place: u32) -> usize {
    (place as usize).wrapping_sub(1)
}
