//! The port that runs the attempts of tools, and that by which tools are found again.

pub(crate) mod artifact;
pub(crate) mod elsewhere;
pub(crate) mod provider;

use crate::{context::TaskContext, execution_end::ExecutionEnd};
use longhaul_core::{AttemptState, BoxFuture, Json, TaskId, UnixMillis};
use std::{sync::Arc, time::Duration};

/// How long code of this process may take to stop once it was asked to, before it is dropped.
pub const STOP_GRACE: Duration = Duration::from_secs(10);

/// One attempt, as its executor sees it.
#[derive(Debug, Clone)]
pub struct ExecutorAttempt {
    /// The task.
    pub task: TaskId,
    /// The attempt's number, from 1, never used twice for a task.
    pub epoch: u32,
    /// Its state in the store when this process claimed or adopted it: [`AttemptState::Starting`] until its start was
    /// [recorded](crate::TaskContext::record_start).
    pub state: AttemptState,
    /// The arguments, as they came; they passed [`Executor::check`] when the task was created.
    pub arguments: Json,
    /// What the attempt has stored with [`TaskContext::checkpoint`] in an earlier process. Only [`Executor::resume`] is given one.
    pub checkpoint: Option<Json>,
    /// When the task's deadline passes. The runtime asks for a stop then; an executor whose work outlives the process must also
    /// enforce it by itself.
    pub deadline_at: Option<UnixMillis>,
}

/// Runs the attempts of one tool, in one definition of it.
///
/// The future may be dropped at any await (the server stops); what lives outside the process lives on and is adopted by
/// [`Executor::resume`] in the next one. A panic ends the attempt as [`ExecutionEnd::Errored`] with the panic's message; of work that
/// [replays](Executor::replays) as [`ExecutionEnd::Crashed`].
pub trait Executor: Send + Sync + 'static {
    /// Whether the work lives outside the process, so that only this host can adopt it.
    fn host_bound(&self) -> bool {
        false
    }

    /// Checks arguments beyond their JSON Schema, before a task is made: `arguments` as they came, and what is run with; `members` as the
    /// schema saw them, where a number may have lost digits.
    ///
    /// # Errors
    /// A sentence for the caller that says what to change.
    fn check(&self, arguments: &str, members: &serde_json::Map<String, serde_json::Value>) -> Result<(), String> {
        let _ = (arguments, members);
        Ok(())
    }

    /// Whether the work is durable: its results are in the journal, so it can be replayed after its process has died, and dropped during a
    /// long wait.
    fn replays(&self) -> bool {
        false
    }

    /// Whether a plain call of it has a record from its start, because something of it outlives this process. Other plain calls are kept in memory
    /// until they ask something, become a task, or store a [checkpoint](TaskContext::checkpoint).
    fn outlives_process(&self) -> bool {
        self.host_bound() || self.replays()
    }

    /// Whether each attempt asks the same questions under the same names, which are then unique in the task. A question that is open when an
    /// attempt is lost stays open, and the next attempt finds it, or its answer.
    fn asks_again(&self) -> bool {
        false
    }

    /// The upstream whose tool this is, by its name in the configuration. Operators may pause all tools of one at once.
    fn upstream(&self) -> Option<&str> {
        None
    }

    /// Whether an attempt first starts or reaches what does the work, and says with [`TaskContext::begins`] when it has.
    fn prepares(&self) -> bool {
        false
    }

    /// Whether its attempts may leave files for their callers: [`Provider::artifacts`](crate::Provider::artifacts).
    fn keeps_artifacts(&self) -> bool {
        false
    }

    /// Whether its work may send log messages to clients.
    fn may_log(&self) -> bool {
        true
    }

    /// Runs an attempt from its start. Not called for an attempt that was asked to stop, or passed its deadline, before that.
    fn run(self: Arc<Self>, attempt: ExecutorAttempt, cx: TaskContext) -> BoxFuture<'static, ExecutionEnd>;

    /// Adopts an attempt that an earlier process started, or was about to start.
    fn resume(self: Arc<Self>, attempt: ExecutorAttempt, cx: TaskContext) -> BoxFuture<'static, ExecutionEnd> {
        let _ = (attempt, cx);
        Box::pin(async { ExecutionEnd::Crashed })
    }
}
