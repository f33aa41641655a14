//! A task with all that belongs to it.

use crate::decision::{Decision, Question};
use longhaul_core::{
    Input, InputKey, InputState, Json, Outcome, Task,
    store::{NewTask, Record},
};

pub(super) struct Kept {
    pub(super) task: Task,
    pub(super) arguments: Json,
    pub(super) outcome: Option<Outcome>,
    pub(super) inputs: Vec<Input>,
}

impl Kept {
    pub(super) fn new(new: NewTask) -> Self {
        let (task, arguments, outcome) = new.into_task();
        Self {
            task,
            arguments,
            outcome,
            inputs: Vec::new(),
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
                Question::Asked { key, request, at } => self.inputs.push(Input {
                    key,
                    request: request.clone(),
                    state: InputState::Open,
                    asked_at: at,
                }),
                Question::Answered { key, answer } => self.set(&key, InputState::Answered(answer.clone())),
                Question::Withdrawn { key } => self.set(&key, InputState::Withdrawn),
            }
        }
    }

    fn set(&mut self, key: &InputKey, state: InputState) {
        if let Some(input) = self.inputs.iter_mut().find(|input| input.key == *key) {
            input.state = state;
        }
    }
}
