//! What the server did wrong.

use super::supervisors::Attempt;
use crate::mcp::Outcome;

/// Something that the server did wrong.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Violation {
    #[error("task {task} was acknowledged and is lost after a restart: {why}")]
    Lost { task: String, why: String },
    #[error("task {task} was acknowledged and cannot be found: {why}")]
    NotFound { task: String, why: String },
    #[error("task {task} was deleted, and {what}")]
    StillThere { task: String, what: &'static str },
    #[error("task {task} ended as {was:?} and now shows {now}")]
    Changed { task: String, was: Outcome, now: String },
    #[error("task {task} is cancelled, and no client has cancelled it")]
    CancelledByNobody { task: String },
    #[error("task {task} ended as {outcome:?} because of a restart")]
    CostByRestart { task: String, outcome: Outcome },
    #[error("task {task} has the result of something else: {text:?}")]
    Foreign { task: String, text: String },
    #[error("task {task} has not ended in time")]
    NeverEnds { task: String },
    #[error("the command of {attempt} ran twice")]
    RanTwice { attempt: Attempt },
    #[error("the command of task {task} was started {runs} times, and at most {allowed} are allowed")]
    RanTooOften { task: String, runs: usize, allowed: usize },
    #[error("{attempt} overlaps another attempt of its task")]
    Overlap { attempt: Attempt },
    #[error("{attempt} was declared void and its command was started")]
    StartedThoughVoid { attempt: Attempt },
    #[error("{attempt} still has a supervisor, and all tasks have ended")]
    LeftBehind { attempt: Attempt },
    #[error("the output of the command of task {task} is not complete: {problem}")]
    IncompleteOutput { task: String, problem: String },
    #[error("a plain call was interrupted, and this test has not killed its supervisor: {message}")]
    CallInterrupted { message: String },
    #[error("the journal has an invalid line: {line:?}")]
    BadLine { line: String },
    #[error("{era} client, {doing}: {problem}")]
    Misbehaved {
        era: &'static str,
        doing: &'static str,
        problem: String,
    },
}
