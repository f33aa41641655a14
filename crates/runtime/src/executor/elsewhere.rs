//! What stands for a tool that only other nodes have, in attempts that this node has taken over from one of them.

use crate::{ExecutionEnd, Executor, ExecutorAttempt, context::TaskContext};
use longhaul_core::BoxFuture;
use std::sync::Arc;

/// Runs nothing: the attempt ends as lost with its node, and the retry policy of its tool decides. A retry is queued, for a node that has the tool.
pub(crate) struct ExecutorElsewhere {
    durable: bool,
}

impl ExecutorElsewhere {
    pub(crate) fn new(durable: bool) -> Arc<Self> {
        Arc::new(Self { durable })
    }
}

impl Executor for ExecutorElsewhere {
    fn replays(&self) -> bool {
        self.durable
    }

    /// The tool was removed here after the task was claimed.
    fn run(self: Arc<Self>, _: ExecutorAttempt, _: TaskContext) -> BoxFuture<'static, ExecutionEnd> {
        Box::pin(async { ExecutionEnd::NeverStarted("this server does not have its tool".to_owned()) })
    }
}
