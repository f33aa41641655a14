//! What the log says of attempts that cannot be started, for want of disk space or processes.

use longhaul_core::{FailureLine, FailureStreak};
use parking_lot::Mutex;
use std::{collections::HashMap, sync::Arc, time::Duration};
use tracing::warn;

/// The failed starts of each tool. Each queued task of it tries, so the log counts by tool.
#[derive(Debug, Default)]
pub(crate) struct FailedStarts(Mutex<HashMap<Arc<str>, FailureStreak>>);

impl FailedStarts {
    /// An attempt of the tool could not be started, and is tried again.
    pub(crate) fn failed(&self, tool: &Arc<str>, why: &str, now: Duration) {
        let mut tools = self.0.lock();
        match tools.entry(Arc::clone(tool)).or_default().failed(now) {
            Some(FailureLine::Begun) => warn!(
                tool = &**tool,
                why, "attempts cannot be started: their tasks are queued again, and the attempts do not count"
            ),
            Some(FailureLine::Reminder(so_far)) => warn!(
                tool = &**tool,
                why, "attempts can still not be started, after {} tries", so_far.count
            ),
            None => {}
        }
    }

    /// An attempt of the tool that began at `began` has started. It says nothing of those that failed later.
    pub(crate) fn is_over(&self, tool: &str, began: Duration, now: Duration) {
        let mut tools = self.0.lock();
        let Some(failures) = tools.get_mut(tool) else {
            return;
        };
        if let Some(over) = failures.end_after(now.saturating_sub(began), now) {
            tools.remove(tool);
            // Whoever reads the default log has read when it began.
            let (count, seconds) = (over.count, over.length.as_secs());
            warn!(tool, "attempts are started again; {count} could not be in {seconds} s");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_that_began_before_others_failed_does_not_end_it() {
        let (starts, tool) = (FailedStarts::default(), Arc::from("build"));
        let at = Duration::from_secs;
        let goes_on = || starts.0.lock().contains_key("build");
        starts.failed(&tool, "no room", at(10));
        starts.failed(&tool, "no room", at(12));
        starts.is_over("build", at(11), at(13));
        assert!(goes_on());
        starts.is_over("other", at(13), at(14));
        assert!(goes_on());
        starts.is_over("build", at(13), at(14));
        assert!(!goes_on());
    }
}
