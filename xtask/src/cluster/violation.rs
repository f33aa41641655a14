//! What the nodes did wrong.

use super::{effects::Misstep, history::Contradiction};
use crate::{crash, mcp::Outcome};

#[derive(Debug, thiserror::Error)]
pub(super) enum Violation {
    #[error("task {task} was acknowledged and is not known: {why}")]
    Lost { task: String, why: String },
    #[error("no order of the requests would explain all answers: {0:?}")]
    Order(Contradiction),
    #[error("a step had an effect that it must not have: {0:?}")]
    Step(Misstep),
    #[error("a command: {0}")]
    Command(#[from] crash::Violation),
    #[error("task {task} of call {token} ended as {outcome:?}")]
    WrongOutcome {
        task: String,
        token: String,
        outcome: Outcome,
    },
    #[error("task {task} of call {token} has not ended in time")]
    NeverEnds { task: String, token: String },
    #[error("task {task} of call {token} has ended, and its last step had no effect")]
    StepMissing { task: String, token: String },
    #[error("{era} client, {doing}: {problem}")]
    Misbehaved {
        era: &'static str,
        doing: &'static str,
        problem: String,
    },
    #[error("the node {service} on host {host} ended by itself: {said}")]
    Ended {
        service: &'static str,
        host: usize,
        said: String,
    },
}

impl From<Contradiction> for Violation {
    fn from(found: Contradiction) -> Self {
        Self::Order(found)
    }
}

impl From<Misstep> for Violation {
    fn from(found: Misstep) -> Self {
        Self::Step(found)
    }
}
