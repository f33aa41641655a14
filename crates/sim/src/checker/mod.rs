//! Checks the invariants: records what is written, announced and run, and reports violations.

mod known_task;
mod limits;
mod responses;
mod schedules;
mod start_rates;

use crate::{
    deploys::Build,
    disk::{self, entries},
    executor::Process,
    log::Log,
};
use known_task::KnownTask;
use limits::Limits;
pub(crate) use limits::{GROUP_LIMIT, LIMIT};
use longhaul_core::{
    AttemptEnd, BlockReason, Entry, EntryKey, EntryKind, Event, Fence, HostId, Json, NodeId, Priority, State, Task,
    TaskId, UnixMillis, Verdict,
    store::{ApplyError, Change, Claim, Claimed, NewTask, Record, UnwrittenCall},
};
pub use longhaul_harness::rounds::violation::{Invariant, Violation};
use longhaul_runtime::Schedule;
use longhaul_store::MemoryStore;
use schedules::KnownSchedules;
pub(crate) use start_rates::RATED;
use start_rates::StartRates;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// What is asked before a task runs that has to be confirmed.
pub(crate) const CONFIRMATION: &str = r#"{"method":"elicitation/create","params":{"message":"run it?"}}"#;

/// How long a task may be queued after the last fault, in milliseconds.
const MAX_QUEUED: u64 = 120_000;
/// How long a task may take to stop after the last fault, in milliseconds: its node may have died, which others find out within some 20 seconds, and look
/// for once a minute.
const MAX_STOPPING: u64 = 120_000;
/// How much longer it may take if its work is bound to a host on which no node runs: the host is given up after ten minutes.
const HOST_LOST: u64 = 700_000;
/// How long after the end of a task a client may wait for it, in milliseconds: nodes read again within 30 seconds.
const MAX_WAIT: u64 = 60_000;

/// A client that waits for the end of a task.
struct WaitForEnd {
    process: Process,
    task: TaskId,
    /// When the task was first found to be over, in milliseconds.
    over_since: Option<u64>,
}

/// The checker of a simulation.
pub(crate) struct Checker {
    log: Log,
    violation: Option<Violation>,
    tasks: BTreeMap<TaskId, KnownTask>,
    nodes: BTreeMap<Process, NodeId>,
    /// Nodes that are proven dead. They may run without knowing it.
    without_lease: BTreeSet<NodeId>,
    /// Clients that wait for the ends of tasks.
    waits: BTreeMap<u64, WaitForEnd>,
    waits_begun: u64,
    /// Attempts whose hosts were given up.
    reclaimed: BTreeSet<(TaskId, u32)>,
    /// The calls that may be cancelled: their callers have cancelled them, or have left a call that is cancelled then.
    may_be_cancelled: BTreeSet<u64>,
    keyed: BTreeMap<(usize, Arc<str>), TaskId>,
    /// The latest task with each unique value of a tool.
    unique: BTreeMap<(Arc<str>, [u8; 32]), TaskId>,
    pub(crate) limits: Limits,
    schedules: KnownSchedules,
    start_rates: StartRates,
}

impl Checker {
    /// For a world with these schedules.
    pub(crate) fn new(log: Log, schedules: &[Schedule]) -> Self {
        Self {
            log,
            violation: None,
            tasks: BTreeMap::new(),
            nodes: BTreeMap::new(),
            without_lease: BTreeSet::new(),
            waits: BTreeMap::new(),
            waits_begun: 0,
            reclaimed: BTreeSet::new(),
            may_be_cancelled: Default::default(),
            keyed: BTreeMap::new(),
            unique: BTreeMap::new(),
            limits: Limits::default(),
            schedules: KnownSchedules::of(schedules),
            start_rates: StartRates::default(),
        }
    }

    pub(crate) fn log(&self) -> &Log {
        &self.log
    }

    pub(crate) fn log_line(&mut self, line: String) {
        self.log.write(line);
    }

    pub(crate) fn log_turn(&mut self, job: u64) {
        self.log.turn(job);
    }

    pub(crate) fn first_violation(&self) -> Option<&Violation> {
        self.violation.as_ref()
    }

    /// Records a violation. Only the first one counts, since later ones may follow from it.
    pub(crate) fn report(&mut self, invariant: Invariant, what: String) {
        self.log_line(format!("VIOLATION of {invariant}: {what}"));
        self.violation.get_or_insert(Violation { invariant, what });
    }

    /// A short name for a task, for the log.
    pub(crate) fn name(&self, id: &TaskId) -> String {
        match self.tasks.get(id) {
            Some(known) => format!("t{}", known.nth),
            None => format!("t?{}", id.as_str().get(..14).unwrap_or_default()),
        }
    }

    // Events of nodes and of the disk.

    pub(crate) fn node_opened(&mut self, process: Process, node: NodeId) {
        self.nodes.insert(process, node);
    }

    /// The nodes that have lost their leases since the last call.
    pub(crate) fn nodes_without_lease(&mut self, disk: &MemoryStore) -> Vec<NodeId> {
        let lost = self.nodes.values().filter(|node| disk.has_lost_lease(**node));
        let lost: Vec<NodeId> = lost
            .copied()
            .filter(|node| !self.without_lease.contains(node))
            .collect();
        self.without_lease.extend(&lost);
        lost
    }

    /// Whether the node of a process has lost its lease.
    pub(crate) fn has_lost_its_lease(&self, process: Process) -> bool {
        self.node(process)
            .is_some_and(|node| self.without_lease.contains(&node))
    }

    pub(crate) fn node(&self, process: Process) -> Option<NodeId> {
        self.nodes.get(&process).copied()
    }

    /// A task was written.
    pub(crate) fn created(&mut self, disk: &MemoryStore, process: Process, new: &NewTask, parent: Option<&Task>) {
        let nth = self.tasks.len();
        self.tasks.insert(new.id.clone(), KnownTask::new(nth, &new.arguments));
        if let (Some(start), Some(before)) = (&new.parent, parent) {
            self.check_fence(process, before, Some(start.fence), "a child was started");
            self.check_task(disk, &before.id);
        }
        self.check_unique(disk, new);
        self.check_first_claim(new);
        if let Some(start) = &new.schedule {
            self.schedule_started(disk, new, start);
        }
        self.check_group(disk, &new.tool, new.group);
        self.check_task(disk, &new.id);
    }

    fn check_unique(&mut self, disk: &MemoryStore, new: &NewTask) {
        let Some(unique) = new.unique else { return };
        let value = (Arc::clone(&new.tool), unique.value);
        let Some(earlier) = self.unique.insert(value, new.id.clone()) else {
            return;
        };
        if disk::record(disk, &earlier).is_some_and(|record| !record.task.is_done()) {
            let (earlier, later) = (self.name(&earlier), self.name(&new.id));
            self.report(
                Invariant::UNIQUE,
                format!("{later} was created while {earlier} is live"),
            );
        }
    }

    /// A call that was kept in memory was written.
    pub(crate) fn call_written(&mut self, disk: &MemoryStore, call: &UnwrittenCall) {
        let nth = self.tasks.len();
        let id = &call.task.id;
        self.tasks.insert(id.clone(), KnownTask::new(nth, &call.arguments));
        self.check_task(disk, id);
    }

    /// A change was applied or refused.
    pub(crate) fn applied(
        &mut self,
        disk: &MemoryStore,
        process: Process,
        change: &Change,
        before: Option<&Task>,
        result: &Result<Task, ApplyError>,
    ) {
        let Some(before) = before else {
            return;
        };
        let recognized = matches!(result, Ok(task) if change.number.is_some() && task.version == before.version);
        if result.is_ok() && !recognized {
            if let (Ok(task), Some(fence)) = (result, change.fence) {
                self.check_block(disk, task, fence, &change.events);
            }
            let needed = change.events.iter().find(|event| event.needs_fence());
            if let Some(event) = needed {
                self.check_fence(process, before, change.fence, event.name());
            }
            if change.events.contains(&Event::Promoted) && self.without_lease.contains(&before.accepted_by) {
                self.tasks
                    .entry(change.task.clone())
                    .and_modify(|known| known.promoted_late = true);
            }
            let ends_now =
                !before.is_done() && matches!(result, Ok(task) if task.state == State::Done(Verdict::Cancelled));
            if ends_now {
                self.check_cancellation(before);
            }
        }
        self.check_task(disk, &change.task);
        self.check_group(disk, &before.tool, before.group);
        if let Some(lineage) = &before.lineage {
            self.check_task(disk, &lineage.parent);
        }
    }

    /// Whether changed code has written to a task's journal: then the original code may not be able to replay it.
    pub(crate) fn was_changed(&self, disk: &MemoryStore, id: &TaskId) -> bool {
        let Some(known) = self.tasks.get(id) else { return false };
        let changed =
            |entry: &Entry| entry.key.kind != EntryKind::Failure && known.changed_epochs.contains(&entry.epoch);
        !known.changed_epochs.is_empty() && entries(disk, id).iter().any(changed)
    }

    /// Original code must be able to replay a journal that only original code has written.
    fn check_block(&mut self, disk: &MemoryStore, task: &Task, fence: Fence, events: &[Event]) {
        let diverged = events.iter().any(|event| {
            matches!(event, Event::AttemptEnded(AttemptEnd::Blocked(block)) if block.reason == BlockReason::NonDeterminism)
        });
        let changed = (self.tasks.get(&task.id)).is_some_and(|known| known.changed_epochs.contains(&fence.epoch));
        if diverged && !changed && !self.was_changed(disk, &task.id) {
            let name = self.name(&task.id);
            let what = format!(
                "{name} is blocked although the same code wrote its whole journal: {:?}",
                task.blocked
            );
            self.report(Invariant::REPLAYS, what);
        }
    }

    fn check_fence(&mut self, process: Process, before: &Task, fence: Option<Fence>, what: &str) {
        let held = before.active_attempt().map(longhaul_core::Attempt::fence);
        let node = self.node(process);
        if held.is_none() || held != fence || held.map(|fence| fence.node) != node {
            let name = self.name(&before.id);
            self.report(
                Invariant::FENCED,
                format!("{what} of {name} was accepted from {node:?} with {fence:?}, while its attempt is {held:?}"),
            );
        }
    }

    fn check_cancellation(&mut self, before: &Task) {
        let requested = self
            .tasks
            .get(&before.id)
            .is_some_and(|known| self.may_be_cancelled.contains(&known.call));
        // A node that had lost its lease announced the task while its successor was cancelling it as an orphaned call. This cannot happen in a
        // store with one owner.
        let late = self.tasks.get(&before.id).is_some_and(|known| known.promoted_late);
        let is_orphaned = late || (!before.announced && !before.keyed);
        if !requested && !is_orphaned && before.lineage.is_none() {
            let name = self.name(&before.id);
            self.report(
                Invariant::NOT_CANCELLED_BY_LEAVING,
                format!("{name} was cancelled without a request"),
            );
        }
    }

    /// Tasks were claimed, one at a time; `highest` is the highest priority that was ready.
    pub(crate) fn claimed(&mut self, claim: &Claim, highest: Option<Priority>, claimed: &[Claimed]) {
        self.check_rate(claim, claimed);
        if let Some(Claimed { task, .. }) = claimed.first()
            && Some(task.priority) != highest
        {
            let name = self.name(&task.id);
            self.report(
                Invariant::PRIORITIES,
                format!("{name} of {:?} was claimed before one of {highest:?}", task.priority),
            );
        }
    }

    /// Tasks were claimed or adopted.
    pub(crate) fn taken(&mut self, disk: &MemoryStore, ids: impl Iterator<Item = TaskId>) {
        for id in ids {
            self.check_task(disk, &id);
        }
    }

    /// Tasks were deleted, at this time by the clock of the node.
    pub(crate) fn deleted(&mut self, disk: &MemoryStore, ids: &[TaskId], at: UnixMillis) {
        for id in ids {
            if disk::record(disk, id).is_some() {
                continue;
            }
            let Some(known) = self.tasks.get_mut(id).filter(|known| !known.deleted) else {
                continue;
            };
            known.deleted = true;
            let (live, promised) = (!known.is_over(), known.promised_until);
            let name = self.name(id);
            if live {
                self.report(Invariant::LIVE_IS_KEPT, format!("{name} was deleted before its end"));
            } else if promised.is_some_and(|promised| promised > at) {
                self.report(
                    Invariant::LIVE_IS_KEPT,
                    format!("{name} was deleted at {at:?}, and its client was promised {promised:?}"),
                );
            }
        }
    }

    /// A host has removed the folders of a task.
    pub(crate) fn folders_removed(&mut self, disk: &MemoryStore, id: &TaskId) {
        if disk::record(disk, id).is_some_and(|record| record.task.delete_at().is_none()) {
            let what = format!("the folders of {} were removed while it is needed", self.name(id));
            self.report(Invariant::FILES_GO, what);
        }
    }

    /// A deleted task has a folder of which its host does not know.
    pub(crate) fn folder_left(&mut self, id: &TaskId, host: &HostId) {
        let what = format!("{} was deleted, and its folder on {} is not", self.name(id), host.0);
        self.report(Invariant::FILES_GO, what);
    }

    /// Compares a task in the store with what is known about it.
    fn check_task(&mut self, disk: &MemoryStore, id: &TaskId) {
        let Some(known) = self.tasks.get_mut(id) else { return };
        if known.deleted {
            return;
        }
        let found = match disk::record(disk, id) {
            Some(record) => known.update(disk, record),
            None => Err((Invariant::NOTHING_LOST, "is not in the store any more".to_owned())),
        };
        if let Err((invariant, what)) = found {
            let name = self.name(id);
            self.report(invariant, format!("{name} {what}"));
        }
    }

    /// Checks all tasks.
    pub(crate) fn check_all(&mut self, disk: &MemoryStore) {
        for id in self.tasks.keys().cloned().collect::<Vec<_>>() {
            self.check_task(disk, &id);
        }
    }

    /// Finds a task that could make progress and does not, because a wake-up was lost. Called repeatedly after the last fault.
    pub(crate) fn find_stalled(&mut self, disk: &MemoryStore, now: u64) -> Option<String> {
        let Self { tasks, .. } = self;
        let late = tasks
            .iter_mut()
            .find_map(|(id, known)| known.find_stalled(disk, id, now));
        let late = late.map(|(nth, what)| format!("t{nth} {what}"));
        late.or_else(|| self.find_late_wait(disk, now))
    }

    fn find_late_wait(&mut self, disk: &MemoryStore, now: u64) -> Option<String> {
        let mut late = None;
        for WaitForEnd {
            process,
            task,
            over_since,
        } in self.waits.values_mut()
        {
            if disk::record(disk, task).is_some_and(|record| record.outcome.is_none()) {
                continue;
            }
            if now - *over_since.get_or_insert(now) > MAX_WAIT {
                late = Some((*process, task.clone()));
            }
        }
        let (process, task) = late?;
        let name = self.name(&task);
        Some(format!(
            "{name} has ended, and a client still waits for that on n{}",
            process.0
        ))
    }

    /// A client begins to wait for the end of a task on a node.
    pub(crate) fn wait_begins(&mut self, process: Process, task: &TaskId) -> u64 {
        self.waits_begun += 1;
        let wait = WaitForEnd {
            process,
            task: task.clone(),
            over_since: None,
        };
        self.waits.insert(self.waits_begun, wait);
        self.waits_begun
    }

    /// It has seen the end, or its node has died.
    pub(crate) fn wait_is_over(&mut self, wait: u64) {
        self.waits.remove(&wait);
    }

    /// Describes the tasks that have not ended.
    pub(crate) fn live(&self, disk: &MemoryStore) -> String {
        let live = self.tasks.keys().filter_map(|id| disk::record(disk, id));
        let live = live.filter(|record| !record.task.is_done());
        let lines: Vec<String> = live
            .map(|Record { task, .. }| {
                let name = self.name(&task.id);
                let Task {
                    state,
                    attempt,
                    open_inputs,
                    resume_at,
                    woken,
                    stop,
                    ..
                } = task;
                format!("{name} {state:?} {attempt:?} asks {open_inputs:?} until {resume_at:?} woken {woken} {stop:?}")
            })
            .collect();
        lines.join("; ")
    }

    // Events of tools.

    /// An executor is asked to run an attempt from its start.
    pub(crate) fn attempt_runs(&mut self, id: &TaskId, epoch: u32, build: Build) {
        let first = (self.tasks.get_mut(id)).is_none_or(|known| {
            if build == Build::Changed {
                known.changed_epochs.insert(epoch);
            }
            known.run_epochs.insert(epoch)
        });
        if !first {
            let name = self.name(id);
            self.report(Invariant::RUN_ONCE, format!("attempt {epoch} of {name} was run twice"));
        }
    }

    /// A command is started while those of the attempts `running` of its task still run.
    pub(crate) fn command_starts(&mut self, id: &TaskId, running: &[u32]) {
        let is_lost = |epoch: &&u32| self.reclaimed.contains(&(id.clone(), **epoch));
        if let Some(epoch) = running.iter().find(|epoch| !is_lost(epoch)) {
            let what = format!("{} starts a command while that of attempt {epoch} runs", self.name(id));
            self.report(Invariant::ONE_COMMAND, what);
        }
    }

    /// An attempt is to be resumed on a host that does not have its folder.
    pub(crate) fn resumed_elsewhere(&mut self, id: &TaskId, epoch: u32) {
        let what = format!("attempt {epoch} of {} is resumed on another host", self.name(id));
        self.report(Invariant::AT_HOME, what);
    }

    /// An attempt is taken for lost with its host. `on_host`: the node that runs on the host, if there is one.
    pub(crate) fn reclaimed(&mut self, id: TaskId, epoch: u32, on_host: Option<Process>) {
        if let Some(process) = on_host.filter(|process| !self.has_lost_its_lease(*process)) {
            let name = self.name(&id);
            let what = format!(
                "attempt {epoch} of {name} is given up, and n{} runs on its host",
                process.0
            );
            self.report(Invariant::AT_HOME, what);
        }
        self.reclaimed.insert((id, epoch));
    }

    /// A step begins. A stale attempt may begin one, because it cannot record the result.
    pub(crate) fn step_begins(&mut self, disk: &MemoryStore, id: &TaskId, fence: Fence, key: &EntryKey) {
        let Some(record) = disk::record(disk, id) else { return };
        let settled = entries(disk, id)
            .into_iter()
            .any(|entry| entry.key == *key && is_settled(&entry));
        if settled && record.task.attempt_held_by(fence).is_some() {
            let name = self.name(id);
            self.report(
                Invariant::STEP_ONCE,
                format!("{key} of {name} begins again although its result is in the journal"),
            );
        }
    }

    /// The code of a task got the result of an act.
    pub(crate) fn act_result(&mut self, disk: &MemoryStore, id: &TaskId, act: u32, step: Option<&str>, what: &str) {
        if let Some(step) = step {
            self.step_is_journaled(disk, id, step);
        }
        // After changed code, `version` may return another result.
        if self.was_changed(disk, id) {
            return;
        }
        let Some(known) = self.tasks.get_mut(id) else { return };
        let before = known.act_results.entry(act).or_insert_with(|| what.to_owned()).clone();
        if before != what {
            let name = self.name(id);
            let what = format!("the result of act {act} of {name} was {before}, and is {what}");
            self.report(Invariant::REPLAYS, what);
        }
    }

    fn step_is_journaled(&mut self, disk: &MemoryStore, id: &TaskId, step: &str) {
        if disk::record(disk, id).is_none() && self.tasks.get(id).is_some_and(|known| known.deleted) {
            return;
        }
        let settled = entries(disk, id).into_iter();
        let mut settled = settled.filter(|entry| entry.key.kind == EntryKind::Step && *entry.key.name == *step);
        if !settled.any(|entry| is_settled(&entry)) {
            let name = self.name(id);
            self.report(
                Invariant::DURABLE_FIRST,
                format!("the code of {name} got the result of {step}, which is not in its journal"),
            );
        }
    }
}

/// Whether an entry has the final result of a step: its value, or a failure without another attempt.
fn is_settled(entry: &Entry) -> bool {
    let value: serde_json::Value = serde_json::from_str(entry.value.as_str()).unwrap_or_default();
    value.get("ok").is_some() || (value.get("failed").is_some() && value.get("next").is_none())
}

/// The events of a change, for the log.
pub(crate) fn describe(events: &[Event]) -> String {
    let parts: Vec<String> = events
        .iter()
        .map(|event| match event {
            Event::Journaled(entry) => format!("journaled {} as {}: {}", entry.key, entry.seq, short(&entry.value)),
            Event::InputRequested { key, request, .. } => format!("asked {} {}", key.as_str(), short(request)),
            Event::InputAnswered { key, .. } => format!("answered {}", key.as_str()),
            Event::InputWithdrawn { key } => format!("withdrew {}", key.as_str()),
            Event::AttemptEnded(end) => format!("attempt ended: {end:?}"),
            Event::CancelRequested(mode) => format!("cancel {mode:?}"),
            other => other.name().to_owned(),
        })
        .collect();
    parts.join(", ")
}

fn short(json: &Json) -> String {
    json.as_str().chars().take(80).collect()
}
