//! A promise that was not kept.

use super::supervisors::Attempt;
use crate::mcp::Outcome;

/// What the server did wrong, as seen from outside.
#[derive(Debug, thiserror::Error)]
pub(super) enum Violation {
    #[error("task {task} was acknowledged, and after a restart it is lost: {why}")]
    Lost { task: String, why: String },
    #[error("task {task} was acknowledged and cannot be found: {why}")]
    NotFound { task: String, why: String },
    #[error("task {task} ended as {was:?} and now shows {now}")]
    Changed { task: String, was: Outcome, now: String },
    #[error("task {task} is cancelled, and nobody asked for it")]
    CancelledByNobody { task: String },
    #[error("task {task} ended as {outcome:?}, though nothing happened to it but restarts of the server")]
    CostByRestart { task: String, outcome: Outcome },
    #[error("task {task} has a result that is not its own: {text:?}")]
    Foreign { task: String, text: String },
    #[error("task {task} has not ended, and nothing holds it up")]
    NeverEnds { task: String },
    #[error("the command of {attempt} ran twice")]
    RanTwice { attempt: Attempt },
    #[error("the command of task {task} was started {runs} times, and its policy and fate allow {allowed}")]
    RanTooOften { task: String, runs: usize, allowed: usize },
    #[error("{attempt} overlaps another attempt of its task")]
    Overlap { attempt: Attempt },
    #[error("{attempt} was declared void and its command was started")]
    StartedThoughVoid { attempt: Attempt },
    #[error("{attempt} is still supervised, and every task is over")]
    LeftBehind { attempt: Attempt },
    #[error("not all that the command of task {task} printed was kept: {problem}")]
    NotAllKept { task: String, problem: String },
    #[error("a command wrote a line that is none: {line:?}")]
    BadLine { line: String },
    #[error("{era} client, {doing}: {problem}")]
    Misbehaved {
        era: &'static str,
        doing: &'static str,
        problem: String,
    },
}
