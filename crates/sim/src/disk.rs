//! Reading the disk without delays, for the checker.

use futures_util::FutureExt;
use longhaul_core::{
    Entry, HostId, Input, InputKey, Priority, State, Task, TaskId,
    store::{
        Claim, Counts, JournalStore, LeaseStore, Record, ScheduleRecord, ScheduleStore, SearchOrder, SearchStore,
        TaskFilter, TaskSearch, TaskStore,
    },
};
use longhaul_store::MemoryStore;
use std::sync::Arc;

/// The answer of the store in memory, whose futures are always ready.
pub(crate) fn now<T>(answer: impl Future<Output = T>) -> T {
    match answer.now_or_never() {
        Some(answer) => answer,
        None => unreachable!("the store in memory answers at once"),
    }
}

/// All tasks of a tool.
pub(crate) fn tasks_of(disk: &MemoryStore, tool: &Arc<str>) -> Vec<Task> {
    all(
        disk,
        TaskFilter {
            tool: Some(Arc::clone(tool)),
            ..TaskFilter::default()
        },
    )
}

fn all(disk: &MemoryStore, filter: TaskFilter) -> Vec<Task> {
    let search = TaskSearch {
        filter,
        order: SearchOrder::OldestFirst,
        after: None,
        limit: usize::MAX,
        most_examined: usize::MAX,
    };
    now(disk.search(search)).map(|found| found.tasks).unwrap_or_default()
}

/// The highest priority of what a claim may take, by all queued tasks and not by the index of the queues.
pub(crate) fn highest_ready(disk: &MemoryStore, claim: &Claim) -> Option<Priority> {
    let queued = all(
        disk,
        TaskFilter {
            tool: Some(claim.tool.clone()),
            states: vec![State::Queued],
            ..TaskFilter::default()
        },
    );
    let ready = queued
        .iter()
        .filter(|task| task.is_in_queue() && task.ready_at <= claim.at);
    ready.map(|task| task.priority).max()
}

pub(crate) fn record(disk: &MemoryStore, id: &TaskId) -> Option<Record> {
    now(disk.get_unscoped(id)).ok().flatten()
}

pub(crate) fn schedule(disk: &MemoryStore, name: &str) -> Option<ScheduleRecord> {
    now(disk.schedule(name)).ok().flatten()
}

pub(crate) fn input(disk: &MemoryStore, id: &TaskId, key: &InputKey) -> Option<Input> {
    now(disk.input(id, key)).ok().flatten()
}

pub(crate) fn entries(disk: &MemoryStore, id: &TaskId) -> Vec<Entry> {
    now(disk.journal(id, 0, usize::MAX)).unwrap_or_default()
}

pub(crate) fn has_tombstone(disk: &MemoryStore, host: &HostId, id: &TaskId) -> bool {
    tombstones(disk, host).contains(id)
}

pub(crate) fn tombstones(disk: &MemoryStore, host: &HostId) -> Vec<TaskId> {
    now(disk.tombstones(host, usize::MAX)).unwrap_or_default()
}

pub(crate) fn counts(disk: &MemoryStore) -> Counts {
    now(disk.counts()).unwrap_or_default()
}
