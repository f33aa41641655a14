//! Counts and usage, updated by differences.

use super::stored_task::IndexedTask;
use longhaul_core::{Principal, State, Usage, store::Counts};
use std::collections::HashMap;

#[derive(Default, PartialEq)]
pub(super) struct Tally {
    /// Principals without tasks are not in it.
    by_principal: HashMap<Principal, Usage>,
    in_all: Usage,
    by_state: Counts,
}

impl Tally {
    pub(super) fn usage(&self, of: Option<&Principal>) -> Usage {
        match of {
            Some(principal) => self.by_principal.get(principal).copied().unwrap_or_default(),
            None => self.in_all,
        }
    }

    pub(super) fn counts(&self) -> Counts {
        self.by_state
    }

    /// Counts one task for what it is now, and no longer for what it was. `None` before it was created, and when it is deleted.
    pub(super) fn shift(&mut self, before: Option<IndexedTask<'_>>, after: Option<IndexedTask<'_>>) {
        if let Some(count) = before.and_then(|at| self.count_of(at.task.state)) {
            *count -= 1;
        }
        if let Some(count) = after.and_then(|at| self.count_of(at.task.state)) {
            *count += 1;
        }
        let [less, more] = [before, after].map(|at| at.map(IndexedTask::usage).unwrap_or_default());
        let owner = after.or(before).map(|at| &at.task.owner.principal);
        let Some(owner) = owner.filter(|_| less != more) else {
            return;
        };
        exchange(&mut self.in_all, less, more);
        let theirs = self.by_principal.entry(owner.clone()).or_default();
        exchange(theirs, less, more);
        if *theirs == Usage::default() {
            self.by_principal.remove(owner);
        }
    }

    /// The sum over all tasks.
    #[cfg(test)]
    pub(super) fn sum<'a>(tasks: impl Iterator<Item = IndexedTask<'a>>) -> Self {
        let mut tally = Self::default();
        for at in tasks {
            let theirs = tally.by_principal.entry(at.task.owner.principal.clone()).or_default();
            for sum in [theirs, &mut tally.in_all] {
                sum.live += at.usage().live;
                sum.bytes += at.usage().bytes;
            }
            if let Some(count) = tally.count_of(at.task.state) {
                *count += 1;
            }
        }
        tally
    }

    fn count_of(&mut self, state: State) -> Option<&mut u64> {
        match state {
            State::Queued => Some(&mut self.by_state.queued),
            State::Running => Some(&mut self.by_state.running),
            State::Suspended => Some(&mut self.by_state.suspended),
            State::Blocked => Some(&mut self.by_state.blocked),
            State::Done(_) => None,
        }
    }
}

fn exchange(sum: &mut Usage, less: Usage, more: Usage) {
    sum.live = sum.live + more.live - less.live;
    sum.bytes = sum.bytes + more.bytes - less.bytes;
}
