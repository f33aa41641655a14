//! What counts towards a quota, in every store alike.

use crate::decision::{Decision, Question};
use longhaul_core::{Json, Outcome, Task, Usage, store::NewTask};

/// What a new task adds.
pub(crate) fn of_new(new: &NewTask, task: &Task, outcome: Option<&Outcome>) -> Usage {
    Usage {
        live: u64::from(!task.is_done()),
        bytes: bytes(&new.arguments) + bytes(&new.requestor) + outcome.map_or(0, of_outcome),
    }
}

/// The bytes that a change adds; it takes none away.
pub(crate) fn of_decision(decision: &Decision<'_>) -> u64 {
    let questions = decision.questions.iter().map(|question| match question {
        Question::Asked { request: json, .. } | Question::Answered { answer: json, .. } => bytes(json),
        Question::Withdrawn { .. } => 0,
    });
    decision.outcome.as_ref().map_or(0, of_outcome) + questions.sum::<u64>()
}

/// The bytes of an outcome.
pub(crate) fn of_outcome(outcome: &Outcome) -> u64 {
    match outcome {
        Outcome::Result { json, .. } => bytes(json),
        Outcome::RpcError(failure) => failure.message.len() as u64 + failure.data.as_ref().map_or(0, bytes),
        Outcome::Cancelled => 0,
    }
}

/// The bytes of a text.
pub(crate) fn bytes(json: &Json) -> u64 {
    json.as_str().len() as u64
}
