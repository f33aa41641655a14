//! What a change makes of a task and of its questions: the part of every store that needs no storage.

use longhaul_core::{
    Event, InputKey, Json, Outcome, Task, UnixMillis,
    store::{ApplyError, Change},
    transition,
};
use std::sync::Arc;

/// All that must be written for one change, or nothing of it.
pub(crate) struct Decision<'a> {
    /// The task as it then is.
    pub(crate) task: Task,
    /// The outcome, if the change ended the task.
    pub(crate) outcome: Option<Outcome>,
    /// What becomes of its questions, in order.
    pub(crate) questions: Vec<Question<'a>>,
}

/// One write to a task's questions.
pub(crate) enum Question<'a> {
    /// A new one, open.
    Asked {
        key: InputKey,
        name: Option<&'a Arc<str>>,
        request: &'a Json,
        at: UnixMillis,
    },
    /// An open one has its answer.
    Answered { key: InputKey, answer: &'a Json },
    /// An open one is open no longer, and has no answer.
    Withdrawn { key: InputKey },
}

/// Runs the events of `change` over `task`.
pub(crate) fn decide<'a>(task: &Task, change: &'a Change) -> Result<Decision<'a>, ApplyError> {
    check_fence(task, change)?;
    let mut open = task.open_inputs.clone();
    let mut decision = Decision {
        task: task.clone(),
        outcome: None,
        questions: Vec::new(),
    };
    for event in &change.events {
        let (task, outcome) = transition(&decision.task, event, change.at)?;
        decision.task = task;
        decision.outcome = decision.outcome.or(outcome);
        match event {
            Event::InputRequested { key, name, request } => {
                open.push(key.clone());
                decision.questions.push(Question::Asked {
                    key: key.clone(),
                    name: name.as_ref(),
                    request,
                    at: change.at,
                });
            }
            Event::InputAnswered { key, answer } => {
                open.retain(|other| other != key);
                decision.questions.push(Question::Answered {
                    key: key.clone(),
                    answer,
                });
            }
            _ => {}
        }
    }
    let withdrawn = open.into_iter().filter(|key| !decision.task.open_inputs.contains(key));
    decision
        .questions
        .extend(withdrawn.map(|key| Question::Withdrawn { key }));
    Ok(decision)
}

/// Invariant 3: whoever shows a fence must hold the active attempt, and a worker's events need one.
fn check_fence(task: &Task, change: &Change) -> Result<(), ApplyError> {
    let right = match change.fence {
        Some(fence) => task.attempt_held_by(fence).is_some(),
        None => !change.events.iter().any(Event::needs_fence),
    };
    if right { Ok(()) } else { Err(ApplyError::Stale) }
}
