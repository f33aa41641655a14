//! A cache of ended tasks' records.
//!
//! A task that is over, announced and without an attempt changes no more (invariant 2); it can only be deleted. So its record is
//! cached by its second read, and evicted by the commit that deletes it, before the deletion is acknowledged. No other invalidation is
//! needed, and the cache has nothing to recover after a crash.

use crate::usage;
use longhaul_core::{TaskId, store::Record};
use parking_lot::{Mutex, MutexGuard};
use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    mem,
    sync::Arc,
};

/// The most bytes that are cached.
const MAX_BYTES: usize = 4 << 20;
/// A larger record is not cached: it would evict too many others.
const MAX_RECORD_BYTES: usize = MAX_BYTES / 16;
/// About what a record needs beside its texts. Bytes.
const RECORD_OVERHEAD: usize = 768;
/// Buckets of four ids that were read once. A record that is never read again is cheaper to read than to cache.
const BUCKETS: usize = 1024;

/// The cached records, within [`MAX_BYTES`] bytes.
#[derive(Default)]
pub(super) struct EndedRecords(Mutex<Generations>);

/// Two generations: when the young one holds half of the limit, it becomes the old one, and records that were not read since the
/// last change of generations are dropped.
#[derive(Default)]
struct Generations {
    young: Generation,
    old: Generation,
    asked: RecentIds,
    deletions: u64,
}

/// Hashes of ids that were read lately: the last four of each bucket.
struct RecentIds {
    hasher: RandomState,
    hashes: Box<[[u64; 4]]>,
}

#[derive(Default)]
struct Generation {
    records: HashMap<TaskId, Arc<Record>>,
    bytes: usize,
}

/// A record is not cached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Absent {
    /// How many commits had deleted something. What was read before the next one may be deleted.
    deletions: u64,
    asked_before: bool,
}

impl EndedRecords {
    /// The record, or the state before it is read, for [`keep`](Self::keep).
    pub(super) fn find(&self, id: &TaskId) -> Result<Arc<Record>, Absent> {
        let mut kept = self.lock();
        if let Some(record) = kept.young.records.get(id) {
            return Ok(Arc::clone(record));
        }
        if let Some(record) = kept.old.remove(id) {
            kept.insert(Arc::clone(&record));
            return Ok(record);
        }
        Err(Absent {
            deletions: kept.deletions,
            asked_before: kept.asked.seen_before(id),
        })
    }

    /// Caches a record that was read after it was found `absent`, if it can change no more.
    pub(super) fn keep(&self, absent: Absent, record: &Record) {
        let settled = record.task.announced && record.task.delete_at().is_some();
        if !absent.asked_before || !settled || weight(record) > MAX_RECORD_BYTES {
            return;
        }
        let record = Arc::new(record.clone());
        let mut kept = self.lock();
        if kept.deletions == absent.deletions {
            kept.insert(record);
        }
    }

    /// Call it after the commit that deleted them, and before its acknowledgement.
    pub(super) fn deleted(&self, ids: &[TaskId]) {
        if ids.is_empty() {
            return;
        }
        let mut kept = self.lock();
        kept.deletions += 1;
        for id in ids {
            kept.young.remove(id);
            kept.old.remove(id);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Generations> {
        self.0.lock()
    }
}

impl Generations {
    fn insert(&mut self, record: Arc<Record>) {
        let bytes = weight(&record);
        if self.young.bytes + bytes > MAX_BYTES / 2 {
            self.old = mem::take(&mut self.young);
        }
        self.young.bytes += bytes;
        if let Some(same) = self.young.records.insert(record.task.id.clone(), record) {
            self.young.bytes -= weight(&same);
        }
    }
}

impl RecentIds {
    fn seen_before(&mut self, id: &TaskId) -> bool {
        let hash = self.hasher.hash_one(id);
        let bucket = &mut self.hashes[hash as usize % BUCKETS];
        if bucket.contains(&hash) {
            return true;
        }
        bucket.rotate_right(1);
        bucket[0] = hash;
        false
    }
}

impl Default for RecentIds {
    fn default() -> Self {
        Self {
            hasher: RandomState::new(),
            hashes: vec![[0; 4]; BUCKETS].into(),
        }
    }
}

impl Generation {
    fn remove(&mut self, id: &TaskId) -> Option<Arc<Record>> {
        let record = self.records.remove(id)?;
        self.bytes -= weight(&record);
        Some(record)
    }
}

fn weight(record: &Record) -> usize {
    let outcome = record.outcome.as_ref().map_or(0, usage::of_outcome);
    let status = record.task.status.as_ref().map_or(0, |line| line.len());
    RECORD_OVERHEAD + status + usize::try_from(outcome).unwrap_or(usize::MAX / 2)
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
                front: NodeId(1),
                created_at: UnixMillis(1),
                deadline: None,
                queue_timeout: None,
                retention: 1,
                lineage: None,
            },
            announced: true,
            in_memory: false,
            arguments: Json::trusted("{}"),
            requestor: Json::trusted("{}"),
            claim: None,
            outcome: Some(Outcome::result(Json::trusted("x".repeat(bytes)))),
            idempotency: None,
            quota: Quota::default(),
            parent: None,
        };
        let (task, outcome) = new.task();
        Record {
            task,
            outcome,
            inputs: Vec::new(),
        }
    }

    fn keep(ended: &EndedRecords, record: &Record) {
        for _ in 0..2 {
            if let Err(absent) = ended.find(&record.task.id) {
                ended.keep(absent, record);
            }
        }
    }

    fn has(ended: &EndedRecords, record: &Record) -> bool {
        ended.find(&record.task.id).is_ok_and(|kept| *kept == *record)
    }

    #[test]
    fn records_that_are_read_stay_cached_within_the_limit() {
        let ended = EndedRecords::default();
        let wanted = record(0, 1_000);
        for n in 0..20_000 {
            keep(&ended, &wanted);
            keep(&ended, &record(n, 1_000));
            assert!(has(&ended, &wanted), "after {n}");
            let kept = ended.lock();
            let added_up = |generation: &Generation| generation.records.values().map(|record| weight(record)).sum();
            for generation in [&kept.young, &kept.old] {
                let bytes: usize = added_up(generation);
                assert_eq!(generation.bytes, bytes);
                assert!(bytes <= MAX_BYTES / 2);
            }
        }
        assert!(ended.find(&record(1, 0).task.id).is_err(), "it was not read again");
    }

    #[test]
    fn a_record_read_once_is_not_cached() {
        let ended = EndedRecords::default();
        for n in 0..100 {
            let record = record(n, 10);
            let Err(absent) = ended.find(&record.task.id) else {
                panic!("it was not cached")
            };
            ended.keep(absent, &record);
        }
        // Ids may share a bucket, but hardly a hash.
        assert!(ended.lock().young.records.is_empty());
    }

    #[test]
    fn only_records_that_change_no_more_are_cached() {
        let ended = EndedRecords::default();
        let mut live = record(1, 10);
        live.task.ended_at = None;
        let mut unannounced = record(2, 10);
        unannounced.task.announced = false;
        for refused in [live, unannounced, record(3, MAX_RECORD_BYTES)] {
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
        let _once = ended.find(&late.task.id);
        let Err(before) = ended.find(&late.task.id) else {
            panic!("it is not there yet")
        };
        assert!(before.asked_before);
        ended.deleted(&[young.task.id.clone(), late.task.id.clone()]);
        ended.keep(before, &late);
        assert!(!has(&ended, &young) && !has(&ended, &late));
        let old = record(3, 10);
        keep(&ended, &old);
        for n in 4..3_000 {
            keep(&ended, &record(n, 1_000));
            if ended.lock().old.records.contains_key(&old.task.id) {
                break;
            }
        }
        ended.deleted(std::slice::from_ref(&old.task.id));
        assert!(!has(&ended, &old));
    }
}
