//! The port behind which work is done.

use crate::{context::TaskContext, execution_end::End};
use longhaul_core::{AttemptState, BoxFuture, Json, TaskId, UnixMillis};
use std::sync::Arc;

/// One attempt, as its executor sees it.
#[derive(Debug, Clone)]
pub struct Attempt {
    /// The task.
    pub task: TaskId,
    /// The attempt's number, from 1, never used twice for a task.
    pub epoch: u32,
    /// Where the store had it when this process came to it: [`AttemptState::Starting`] until its start was
    /// [recorded](crate::TaskContext::record_start).
    pub state: AttemptState,
    /// The arguments, as they came; they passed [`Executor::check`] when the task was created.
    pub arguments: Json,
    /// When the task's deadline passes. The runtime asks for a stop then; an executor whose work outlives the process must see to
    /// it by itself as well.
    pub deadline_at: Option<UnixMillis>,
}

/// Runs the attempts of one tool, in one definition of it.
///
/// The future may be dropped at any await (the server stops); what lives outside the process lives on and is adopted by
/// [`Executor::resume`] in the next one. A panic ends the attempt as [`End::Errored`] with the panic's message; of work that
/// [replays](Executor::replays) as [`End::Crashed`].
pub trait Executor: Send + Sync + 'static {
    /// Whether the work lives outside the process, so that only this host can adopt it.
    fn host_bound(&self) -> bool {
        false
    }

    /// Checks arguments beyond their JSON Schema, before a task is made: `arguments` as they came, and what is run with; `members` as the
    /// schema saw them, where a number may have lost digits.
    ///
    /// # Errors
    /// A sentence that says what to change, for the caller to read.
    fn check(&self, arguments: &str, members: &serde_json::Map<String, serde_json::Value>) -> Result<(), String> {
        let _ = (arguments, members);
        Ok(())
    }

    /// Whether the work keeps what it comes to in the journal, so that it can be run again from its start at any time: after its process
    /// has died, and after a long wait, for which it is dropped.
    fn replays(&self) -> bool {
        false
    }

    /// Whether work that is run again asks again, under the same name, what an attempt before it asked; no two questions of a task have the
    /// same name then. A question that is open when an attempt is lost stays open, and is the one that the next attempt asks; what was
    /// answered is answered.
    fn asks_again(&self) -> bool {
        false
    }

    /// Runs an attempt from its start. Not called for an attempt that was asked to stop, or passed its deadline, before that.
    fn run(self: Arc<Self>, attempt: Attempt, cx: TaskContext) -> BoxFuture<'static, End>;

    /// Adopts an attempt that an earlier process began, or was about to begin.
    fn resume(self: Arc<Self>, attempt: Attempt, cx: TaskContext) -> BoxFuture<'static, End> {
        let _ = (attempt, cx);
        Box::pin(async { End::Crashed })
    }
}
