//! Checks what clients are told.

use super::{Checker, Invariant};
use crate::disk;
use longhaul_core::{InputKey, Json, Outcome, Task, TaskId, store::Record};
use longhaul_store::MemoryStore;
use std::sync::Arc;

impl Checker {
    /// A client was given the id of a task.
    pub(crate) fn announced(&mut self, disk: &MemoryStore, task: &Task) {
        let announced = disk::record(disk, &task.id).is_some_and(|record| record.task.announced);
        let deleted = self.tasks.get(&task.id).is_some_and(|known| known.deleted);
        if !announced && !deleted {
            let name = self.name(&task.id);
            self.report(
                Invariant::DURABLE_FIRST,
                format!("{name} was announced to its client, and is not in the store as an announced task"),
            );
        }
        if let Some(known) = self.tasks.get_mut(&task.id) {
            known.promise_until(task.announced_until);
        }
    }

    /// A call with an idempotency key was given a task.
    pub(crate) fn keyed(&mut self, client: usize, key: &Arc<str>, id: &TaskId) {
        let owner_and_key = (client, Arc::clone(key));
        if let Some(first) = self.keyed.insert(owner_and_key, id.clone())
            && first != *id
            && self.tasks.get(&first).is_some_and(|known| !known.deleted)
        {
            let (first, second) = (self.name(&first), self.name(id));
            self.report(
                Invariant::NOTHING_LOST,
                format!("the same call under one idempotency key became {first} and {second}"),
            );
        }
    }

    /// A call was refused because its idempotency key belongs to a different call, which never happens here.
    pub(crate) fn key_refused(&mut self, call: u64) {
        self.report(
            Invariant::NOTHING_LOST,
            format!("call {call} was refused as a different call under its key"),
        );
    }

    /// A call was refused because its client has a live task with its unique value and other arguments, which never happens here.
    pub(crate) fn refused_beside_itself(&mut self, call: u64) {
        self.report(
            Invariant::UNIQUE,
            format!("call {call} did not join the live task of the same call"),
        );
    }

    /// The caller of this call has left it, and the call is cancelled then.
    pub(crate) fn may_be_cancelled(&mut self, call: u64) {
        self.may_be_cancelled.insert(call);
    }

    /// A client asks for a task of its own to be cancelled.
    pub(crate) fn cancel_requested(&mut self, id: &TaskId) {
        if let Some(known) = self.tasks.get(id) {
            self.may_be_cancelled.insert(known.call);
        }
    }

    /// A cancel was acknowledged.
    pub(crate) fn cancel_acknowledged(&mut self, disk: &MemoryStore, id: &TaskId) {
        let record = disk::record(disk, id);
        if record.is_some_and(|record| !record.task.is_done() && record.task.stop.is_none()) {
            let name = self.name(id);
            self.report(
                Invariant::DURABLE_FIRST,
                format!("a cancel of {name} was acknowledged, and is not in the store"),
            );
        }
    }

    /// An answer was acknowledged; it may have come too late.
    pub(crate) fn answer_acknowledged(&mut self, disk: &MemoryStore, id: &TaskId, key: &InputKey, request: &Json) {
        let record = disk::record(disk, id);
        let open = record.is_some_and(|record| {
            let mut inputs = record.inputs.iter();
            inputs.any(|input| input.key == *key && input.request == *request)
        });
        if open {
            let name = self.name(id);
            self.report(
                Invariant::DURABLE_FIRST,
                format!(
                    "an answer to {} of {name} was acknowledged, and is not in the store",
                    key.as_str()
                ),
            );
        }
    }

    /// A client was told that a task of its own is deleted.
    pub(crate) fn deletion_acknowledged(&mut self, disk: &MemoryStore, id: &TaskId) {
        if disk::record(disk, id).is_some() {
            let what = format!("{} is still there after its deletion was acknowledged", self.name(id));
            self.report(Invariant::FILES_GO, what);
        }
    }

    /// A client has read a task of its own.
    pub(crate) fn read_by_client(&mut self, disk: &MemoryStore, id: &TaskId, record: Option<&Record>) {
        let Some(known) = self.tasks.get_mut(id) else { return };
        let wrong = match record {
            Some(record) => known.read_by_client(record),
            None if !known.deleted && disk::record(disk, id).is_some_and(|record| record.task.announced) => Some((
                Invariant::NOTHING_LOST,
                "is in the store, and its owner got the answer that it is unknown".to_owned(),
            )),
            None => None,
        };
        if let Some((invariant, what)) = wrong {
            let name = self.name(id);
            self.report(invariant, format!("{name} {what}"));
        }
    }

    /// A client got the outcome of a call of its own.
    pub(crate) fn ended(&mut self, disk: &MemoryStore, id: &TaskId, outcome: &Outcome) {
        let kept = disk::record(disk, id).map(|record| record.outcome);
        let known = self.tasks.get(id).and_then(|known| known.outcome.as_ref());
        if kept.is_some_and(|kept| kept.as_ref() != Some(outcome)) || known.is_some_and(|known| known != outcome) {
            let name = self.name(id);
            self.report(
                Invariant::NOTHING_LOST,
                format!("the client of {name} got another outcome than the store has"),
            );
        }
    }

    /// A client has learned something about another's task.
    pub(crate) fn leaked(&mut self, what: &str) {
        self.report(Invariant::ISOLATED, what.to_owned());
    }
}
