//! Whether an attempt that has not begun may still begin.

use super::TaskContext;
use crate::execution_end::ExecutionEnd;
use longhaul_core::StopReason;
use tracing::info;

impl TaskContext {
    /// How an attempt that has not begun must end now: its tool was paused, its server drains or is cordoned, or the credentials of its principal were revoked.
    /// An executor that first [prepares](crate::Executor::prepares), or waits, asks this meanwhile, and right before it begins.
    #[must_use]
    pub fn end_unless_it_may_begin(&self) -> Option<ExecutionEnd> {
        self.end_if_withdrawn().or_else(|| {
            let may_begin = self.shared.engine.may_begin(&self.shared.header);
            (!may_begin).then_some(ExecutionEnd::NotBegun)
        })
    }

    /// The end of an attempt that has not begun, if the credentials of its principal were revoked and none has begun before.
    pub(crate) fn end_if_withdrawn(&self) -> Option<ExecutionEnd> {
        let is_withdrawn = self.shared.is_first && self.shared.engine.is_withdrawn(&self.shared.header);
        is_withdrawn.then(|| {
            info!(
                task = self.task().short(),
                "a call was cancelled before it began: the credentials of its principal were revoked"
            );
            ExecutionEnd::Stopped(StopReason::Cancel)
        })
    }
}
