//! What is left of deleted tasks: which hosts may still have files of them.

use longhaul_core::{HostId, TaskId, UnixMillis, store::TOMBSTONE_RETENTION};
use std::collections::BTreeMap;

/// The tombstones of all hosts, with the times of their deletion.
#[derive(Default)]
pub(super) struct Tombstones(BTreeMap<HostId, BTreeMap<TaskId, UnixMillis>>);

impl Tombstones {
    pub(super) fn leave(&mut self, host: HostId, task: TaskId, at: UnixMillis) {
        self.0.entry(host).or_default().insert(task, at);
    }

    pub(super) fn of(&self, host: &HostId) -> impl Iterator<Item = &TaskId> {
        self.0.get(host).into_iter().flat_map(BTreeMap::keys)
    }

    pub(super) fn remove(&mut self, host: &HostId, tasks: &[TaskId]) {
        if let Some(left) = self.0.get_mut(host) {
            left.retain(|task, _| !tasks.contains(task));
            if left.is_empty() {
                self.0.remove(host);
            }
        }
    }

    /// Forgets those of hosts that do not come back.
    pub(super) fn remove_expired(&mut self, now: UnixMillis) {
        self.0.retain(|_, left| {
            left.retain(|_, at| at.plus(TOMBSTONE_RETENTION) > now);
            !left.is_empty()
        });
    }
}
