//! Who has how many live tasks.

use longhaul_core::{State, Task, UnixMillis};
use serde::Serialize;
use std::collections::HashMap;

/// A principal and its live tasks and plain calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PrincipalView {
    pub(crate) principal: String,
    pub(crate) queued: u64,
    pub(crate) running: u64,
    pub(crate) suspended: u64,
    pub(crate) blocked: u64,
    pub(crate) asking: u64,
    /// How old the oldest one is, in milliseconds.
    pub(crate) oldest_ms: u64,
}

impl PrincipalView {
    fn live(&self) -> u64 {
        self.queued + self.running + self.suspended + self.blocked
    }

    fn count(&mut self, task: &Task, now: UnixMillis) {
        let count = match task.state {
            State::Queued => &mut self.queued,
            State::Running => &mut self.running,
            State::Suspended => &mut self.suspended,
            State::Blocked => &mut self.blocked,
            State::Done(_) => return,
        };
        *count += 1;
        self.asking += u64::from(!task.open_inputs.is_empty());
        let age = u64::try_from(now.0.saturating_sub(task.created_at.0)).unwrap_or_default();
        self.oldest_ms = self.oldest_ms.max(age);
    }
}

/// All principals with live tasks, the one with the most first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PrincipalsView {
    pub(crate) principals: Vec<PrincipalView>,
    /// So many live tasks were counted.
    pub(crate) counted: usize,
    /// Whether there are more, which are older.
    pub(crate) or_more: bool,
}

impl PrincipalsView {
    /// Counts these live tasks.
    pub(crate) fn of(tasks: &[Task], or_more: bool, now: UnixMillis) -> Self {
        let mut principals: HashMap<&str, PrincipalView, foldhash::fast::RandomState> = HashMap::default();
        for task in tasks {
            let name = task.owner.principal.as_str();
            let view = principals.entry(name).or_insert_with(|| PrincipalView {
                principal: name.to_owned(),
                queued: 0,
                running: 0,
                suspended: 0,
                blocked: 0,
                asking: 0,
                oldest_ms: 0,
            });
            view.count(task, now);
        }
        let mut principals: Vec<PrincipalView> = principals.into_values().collect();
        principals.sort_unstable_by(|one, other| {
            let by_count = other.live().cmp(&one.live());
            by_count.then_with(|| one.principal.cmp(&other.principal))
        });
        Self {
            principals,
            counted: tasks.len(),
            or_more,
        }
    }
}
