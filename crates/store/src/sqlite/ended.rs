//! Tasks that are over, kept at hand for those who ask again.
//!
//! A task that is over, announced and let go by its last attempt changes no more (invariant 2); it can only be deleted. So a record is
//! taken in by whoever reads it a second time, and put out by the commit that deletes it before that is acknowledged. Nothing else is needed to keep
//! it right, and a crash leaves nothing behind.

use crate::usage;
use longhaul_core::{TaskId, store::Record};
use parking_lot::{Mutex, MutexGuard};
use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    mem,
    sync::Arc,
};

/// Bytes kept, at most.
const MOST: usize = 4 << 20;
/// A record larger than this is not kept: it would put too many others out.
const LARGEST: usize = MOST / 16;
/// What a record takes beside its texts, about. Bytes.
const FRAME: usize = 768;
/// So many ids, times four, that were asked for once are remembered: keeping what is never asked for again costs more than reading it.
const REMEMBERED: usize = 1024;

/// The records at hand, within [`MOST`] bytes.
#[derive(Default)]
pub(super) struct Ended(Mutex<Kept>);

/// Two generations: when the young one holds half of what may be kept, it becomes the old one, and what nobody asked for since the
/// last time is forgotten.
#[derive(Default)]
struct Kept {
    young: Generation,
    old: Generation,
    asked: Asked,
    deletions: u64,
}

/// Hashes of ids that were asked for lately: the last four of each place.
struct Asked {
    hasher: RandomState,
    hashes: Box<[[u64; 4]]>,
}

#[derive(Default)]
struct Generation {
    records: HashMap<TaskId, Arc<Record>>,
    bytes: usize,
}

/// A record is not at hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Absent {
    /// How many commits had deleted something: what was read before the next one may be gone.
    deletions: u64,
    asked_before: bool,
}

impl Ended {
    /// The record, or what [`keep`](Self::keep) must be told of the moment before it is read.
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
            asked_before: kept.asked.again(id),
        })
    }

    /// Takes in a record that was read after it was found `absent`, if it is one that changes no more.
    pub(super) fn keep(&self, absent: Absent, record: &Record) {
        let settled = record.task.announced && record.task.delete_at().is_some();
        if !absent.asked_before || !settled || weight(record) > LARGEST {
            return;
        }
        let record = Arc::new(record.clone());
        let mut kept = self.lock();
        if kept.deletions == absent.deletions {
            kept.insert(record);
        }
    }

    /// After the commit that deleted them, and before anyone is told of it.
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

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock()
    }
}

impl Kept {
    fn insert(&mut self, record: Arc<Record>) {
        let bytes = weight(&record);
        if self.young.bytes + bytes > MOST / 2 {
            self.old = mem::take(&mut self.young);
        }
        self.young.bytes += bytes;
        if let Some(same) = self.young.records.insert(record.task.id.clone(), record) {
            self.young.bytes -= weight(&same);
        }
    }
}

impl Asked {
    fn again(&mut self, id: &TaskId) -> bool {
        let hash = self.hasher.hash_one(id);
        let place = &mut self.hashes[hash as usize % REMEMBERED];
        if place.contains(&hash) {
            return true;
        }
        place.rotate_right(1);
        place[0] = hash;
        false
    }
}

impl Default for Asked {
    fn default() -> Self {
        Self {
            hasher: RandomState::new(),
            hashes: vec![[0; 4]; REMEMBERED].into(),
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
    FRAME + status + usize::try_from(outcome).unwrap_or(usize::MAX / 2)
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

    fn keep(ended: &Ended, record: &Record) {
        for _ in 0..2 {
            if let Err(absent) = ended.find(&record.task.id) {
                ended.keep(absent, record);
            }
        }
    }

    fn has(ended: &Ended, record: &Record) -> bool {
        ended.find(&record.task.id).is_ok_and(|kept| *kept == *record)
    }

    #[test]
    fn what_is_asked_for_stays_and_the_bound_holds() {
        let ended = Ended::default();
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
                assert!(bytes <= MOST / 2);
            }
        }
        assert!(ended.find(&record(1, 0).task.id).is_err(), "nobody asked for it again");
    }

    #[test]
    fn what_is_asked_for_once_is_not_kept() {
        let ended = Ended::default();
        for n in 0..100 {
            let record = record(n, 10);
            let Err(absent) = ended.find(&record.task.id) else {
                panic!("nobody has kept it")
            };
            ended.keep(absent, &record);
        }
        // Ids may share a place, but hardly a hash.
        assert!(ended.lock().young.records.is_empty());
    }

    #[test]
    fn only_what_changes_no_more_is_kept() {
        let ended = Ended::default();
        let mut live = record(1, 10);
        live.task.ended_at = None;
        let mut unannounced = record(2, 10);
        unannounced.task.announced = false;
        for refused in [live, unannounced, record(3, LARGEST)] {
            keep(&ended, &refused);
            assert!(!has(&ended, &refused));
        }
    }

    /// Who has read a record before its deletion was committed must not bring it back.
    #[test]
    fn what_is_deleted_is_gone_and_stays_gone() {
        let ended = Ended::default();
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
