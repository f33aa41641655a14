//! A task with all that belongs to it.

use crate::{
    decision::{Decision, Place, Question},
    usage,
};
use longhaul_core::{
    Entry, Input, InputKey, InputState, Json, Outcome, Task, Usage,
    store::{Idempotency, NewTask, Record},
};

pub(super) struct Kept {
    pub(super) task: Task,
    pub(super) arguments: Json,
    pub(super) requestor: Json,
    pub(super) outcome: Option<Outcome>,
    pub(super) inputs: Vec<Input>,
    pub(super) journal: Vec<Entry>,
    pub(super) idempotency: Option<Idempotency>,
}

impl Kept {
    pub(super) fn new(new: NewTask) -> Self {
        let (task, outcome) = new.task();
        Self {
            task,
            arguments: new.arguments,
            requestor: new.requestor,
            outcome,
            inputs: Vec::new(),
            journal: Vec::new(),
            idempotency: new.idempotency,
        }
    }

    /// What it adds to what its owner has.
    pub(super) fn usage(&self) -> Usage {
        let inputs = self.inputs.iter().map(|input| match &input.state {
            InputState::Answered(answer) => usage::bytes(&input.request) + usage::bytes(answer),
            InputState::Open | InputState::Withdrawn => usage::bytes(&input.request),
        });
        let journal = self.journal.iter().map(usage::of_entry);
        let call = usage::bytes(&self.arguments) + usage::bytes(&self.requestor);
        Usage {
            live: u64::from(!self.task.is_done()),
            bytes: call
                + self.outcome.as_ref().map_or(0, usage::of_outcome)
                + inputs.sum::<u64>()
                + journal.sum::<u64>(),
        }
    }

    pub(super) fn record(&self) -> Record {
        let open = self.inputs.iter().filter(|input| input.state == InputState::Open);
        Record {
            task: self.task.clone(),
            outcome: self.outcome.clone(),
            inputs: open.cloned().collect(),
        }
    }

    pub(super) fn write(&mut self, decision: Decision<'_>) {
        self.task = decision.task;
        if decision.outcome.is_some() {
            self.outcome = decision.outcome;
        }
        for question in decision.questions {
            match question {
                Question::Asked { key, name, request, at } => self.inputs.push(Input {
                    key,
                    name: name.cloned(),
                    request: request.clone(),
                    state: InputState::Open,
                    asked_at: at,
                }),
                Question::Answered { key, answer } => self.set(&key, InputState::Answered(answer.clone())),
                Question::Withdrawn { key } => self.set(&key, InputState::Withdrawn),
            }
        }
        for place in decision.places {
            match place {
                Place::Taken(entry) => self.journal.push(entry.clone()),
                Place::Rewritten { seq, value } => {
                    if let Some(entry) = self.journal.iter_mut().find(|entry| entry.seq == seq) {
                        entry.value = value.clone();
                    }
                }
            }
        }
    }

    fn set(&mut self, key: &InputKey, state: InputState) {
        if let Some(input) = self.inputs.iter_mut().find(|input| input.key == *key) {
            input.state = state;
        }
    }
}
