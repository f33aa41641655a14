//! A cache of ended tasks' records.
//!
//! A task that is over, announced and without an attempt changes no more (invariant 2); it can only be deleted. So its record is
//! cached when it is read, and evicted by the commit that deletes it, before the deletion is acknowledged. No other invalidation is
//! needed, and the cache has nothing to recover after a crash. Reads of ever other tasks do not evict those that are read again and again
//! (`quick_cache`: S3-FIFO).

use crate::usage;
use longhaul_core::{TaskId, store::Record};
use parking_lot::Mutex;
use quick_cache::{Weighter, unsync::Cache};
use std::sync::Arc;

/// The most bytes that are cached.
const MAX_BYTES: u64 = 4 << 20;
/// A larger record is not cached: it would evict too many others.
const MAX_RECORD_BYTES: u64 = MAX_BYTES / 16;
/// About what a record needs beside its texts. Bytes.
const RECORD_OVERHEAD: u64 = 768;

/// The cached records, within [`MAX_BYTES`] bytes.
pub(crate) struct EndedRecords(Mutex<RecordCache>);

struct RecordCache {
    records: Cache<TaskId, Arc<Record>, Weight>,
    deletions: u64,
}

/// A record is not cached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Absent {
    /// How many commits had deleted something. What was read before the next one may be deleted.
    deletions: u64,
}

impl Default for EndedRecords {
    fn default() -> Self {
        // So many fit, if they have no texts.
        let most = (MAX_BYTES / RECORD_OVERHEAD) as usize;
        Self(Mutex::new(RecordCache {
            records: Cache::with_weighter(most, MAX_BYTES, Weight),
            deletions: 0,
        }))
    }
}

impl EndedRecords {
    /// The record, or the state before it is read, for [`keep`](Self::keep).
    pub(crate) fn find(&self, id: &TaskId) -> Result<Arc<Record>, Absent> {
        let cached = self.0.lock();
        cached.records.get(id).map(Arc::clone).ok_or(Absent {
            deletions: cached.deletions,
        })
    }

    /// Caches a record that was read after it was found `absent`, if it can change no more.
    pub(crate) fn keep(&self, absent: Absent, record: &Record) {
        let settled = record.task.announced && record.task.delete_at().is_some();
        if !settled || weight(record) > MAX_RECORD_BYTES {
            return;
        }
        let record = Arc::new(record.clone());
        let mut cached = self.0.lock();
        if cached.deletions == absent.deletions {
            cached.records.insert(record.task.id.clone(), record);
        }
    }

    /// Call it after the commit that deleted them, and before its acknowledgement.
    pub(crate) fn deleted(&self, ids: &[TaskId]) {
        if ids.is_empty() {
            return;
        }
        let mut cached = self.0.lock();
        cached.deletions += 1;
        for id in ids {
            cached.records.remove(id);
        }
    }
}

#[derive(Clone)]
struct Weight;

impl Weighter<TaskId, Arc<Record>> for Weight {
    fn weight(&self, _id: &TaskId, record: &Arc<Record>) -> u64 {
        weight(record)
    }
}

fn weight(record: &Record) -> u64 {
    let outcome = record.outcome.as_ref().map_or(0, usage::of_outcome);
    let status = record.task.status.as_ref().map_or(0, |line| line.len() as u64);
    RECORD_OVERHEAD + status + outcome
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_core::{
        Json, NodeId, Origin, Outcome, Owner, Principal, Quota, SpecId, TaskHeader, UnixMillis, store::NewTask,
    };

    fn record(n: usize, bytes: usize) -> Record {
        let new = NewTask {
            header: TaskHeader {
                id: format!("t{n}").parse().unwrap(),
                owner: Owner {
                    principal: Principal::local(),
                    session: None,
                },
                tool: "tool".into(),
                spec: SpecId::named("spec"),
                origin: Origin::Modern,
                accepted_by: NodeId(1),
                created_at: UnixMillis(1),
                deadline: None,
                queue_timeout: None,
                retention: 1,
                lineage: None,
                labels: longhaul_core::Labels::default(),
                group: None,
            },
            announced: true,
            in_memory: false,
            priority: longhaul_core::Priority::default(),
            arguments: Json::trusted("{}"),
            requestor: Json::trusted("{}"),
            claim: None,
            confirmation: None,
            outcome: Some(Outcome::result(Json::trusted("x".repeat(bytes)))),
            idempotency: None,
            unique: None,
            quota: Quota::default(),
            parent: None,
            history: None,
            replaces: None,
            schedule: None,
        };
        let (task, outcome) = new.task();
        Record {
            task,
            outcome,
            inputs: Vec::new(),
        }
    }

    fn keep(ended: &EndedRecords, record: &Record) {
        if let Err(absent) = ended.find(&record.task.id) {
            ended.keep(absent, record);
        }
    }

    fn has(ended: &EndedRecords, record: &Record) -> bool {
        ended.find(&record.task.id).is_ok_and(|kept| *kept == *record)
    }

    #[test]
    fn a_record_that_is_read_again_and_again_stays_cached_within_the_limit() {
        let ended = EndedRecords::default();
        let wanted = record(0, 1_000);
        for n in 1..20_000 {
            keep(&ended, &wanted);
            keep(&ended, &record(n, 1_000));
            assert!(has(&ended, &wanted), "after {n}");
            assert!(ended.0.lock().records.weight() <= MAX_BYTES);
        }
    }

    #[test]
    fn only_records_that_change_no_more_are_cached() {
        let ended = EndedRecords::default();
        let mut live = record(1, 10);
        live.task.ended_at = None;
        let mut unannounced = record(2, 10);
        unannounced.task.announced = false;
        for refused in [live, unannounced, record(3, MAX_RECORD_BYTES as usize)] {
            keep(&ended, &refused);
            assert!(!has(&ended, &refused));
        }
    }

    /// A reader that read the record before its deletion was committed must not cache it.
    #[test]
    fn a_deleted_record_is_evicted_and_not_cached_again() {
        let ended = EndedRecords::default();
        let (young, late) = (record(1, 10), record(2, 10));
        keep(&ended, &young);
        let Err(before) = ended.find(&late.task.id) else {
            panic!("it is not there yet")
        };
        ended.deleted(&[young.task.id.clone(), late.task.id.clone()]);
        ended.keep(before, &late);
        assert!(!has(&ended, &young) && !has(&ended, &late));
    }
}
