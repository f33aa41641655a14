//! What the code of a running task calls: one file for each operation.

mod ask;
mod begin;
pub(crate) mod checkpoint;
mod child;
mod context_engine;
mod durable;
mod failure;
pub(crate) mod handler_context;
mod isolation;
mod pending_report;
mod report;
mod slot;
mod writer;

pub(crate) use child::{ChildDetails, read_child};
pub use child::{ChildEnd, ChildError};
pub(crate) use context_engine::{ChildRefusal, ContextEngine};
pub(crate) use durable::{fork::is_join, poll::read_poll, step::read_step};
pub use durable::{
    fork::{Fork, Race},
    poll::{PollPolicy, Polled},
    step::{StepError, StepFailure, StepPolicy, step_is_settled},
};
pub(crate) use writer::write_drafts;

use crate::{
    Ports,
    journal::{Divergence, Journal},
    node::{Activity, Isolation, IsolationGuard, Node},
    question::Requestor,
    queue::slots::Slot,
};
use longhaul_core::{
    AttemptState, Event, Fence, Millis, Owner, Principal, SessionKey, StopReason, Task, TaskHeader, TaskId, UnixMillis,
    store::Change,
};
use parking_lot::{Mutex, MutexGuard};
use pending_report::PendingReport;
use slot::SlotState;
use std::sync::Arc;
use tokio::sync::{Notify, watch};
use writer::QueuedDraft;

/// What a running attempt uses to report, to ask, to read requests to stop, and to write its journal. Cheap to clone.
///
/// A context belongs to one branch of the code; [`fork`](Self::fork) makes contexts for more.
#[derive(Clone)]
pub struct TaskContext {
    pub(crate) shared: Arc<Shared>,
    /// The branch of the code: empty for the main branch.
    pub(crate) path: Arc<str>,
}

pub(crate) struct Shared {
    pub(crate) node: Arc<Node>,
    pub(crate) engine: Arc<dyn ContextEngine>,
    is_first: bool,
    pub(crate) header: Arc<TaskHeader>,
    pub(crate) concurrency: Option<usize>,
    pub(crate) requestor: Arc<Requestor>,
    pub(crate) fence: Fence,
    /// The timeout of questions without one of their own.
    pub(crate) input_timeout: Millis,
    /// Only durable tasks have one.
    pub(crate) journal: Option<Arc<Journal>>,
    /// Which branches of the code wait.
    pub(crate) activity: Activity,
    /// See [`Executor::asks_again`](crate::Executor::asks_again).
    pub(crate) asks_again: bool,
    /// Set if an earlier attempt of the task may have crashed its process.
    pub(crate) isolation: Option<Isolation>,
    /// Held while the attempt runs in isolation.
    isolation_guard: Mutex<Option<IsolationGuard>>,
    /// The number of questions that earlier attempts have asked and this one may ask again.
    pub(crate) asked_before: u32,
    /// Locked while a question, an entry, a start or an end is written, since each must get the next number.
    pub(crate) written: tokio::sync::Mutex<WrittenSoFar>,
    /// What the writer has yet to write; `None` once the attempt has ended.
    drafts: Mutex<Option<Vec<QueuedDraft>>>,
    pub(crate) drafted: Notify,
    /// Locked by the branch that waits for a slot.
    pub(crate) returning: tokio::sync::Mutex<()>,
    /// Notified when the code has waited long enough to be suspended.
    pub(crate) suspend: Arc<Notify>,
    stop: watch::Receiver<Option<StopReason>>,
    pending_report: Mutex<PendingReport>,
    report_changed: Notify,
    slot: Mutex<SlotState>,
}

/// What has been written about the task under the fencing tokens of its attempts.
pub(crate) struct WrittenSoFar {
    /// The number of questions the task has ever asked.
    pub(crate) asked: u32,
    /// The number of the attempt's latest [numbered change](Change::number).
    changes: u32,
}

impl WrittenSoFar {
    fn by(task: &Task) -> Self {
        Self {
            asked: task.inputs_asked,
            changes: task.active_attempt().map_or(0, |attempt| attempt.changes),
        }
    }
}

impl Shared {
    /// How many tasks are above this one.
    pub(crate) fn depth(&self) -> u32 {
        self.header.lineage.as_ref().map_or(0, |lineage| lineage.depth)
    }
}

/// What a context takes from the tool and its executor.
pub(crate) struct ContextOptions {
    pub(crate) fence: Fence,
    pub(crate) concurrency: Option<usize>,
    pub(crate) input_timeout: Millis,
    pub(crate) asks_again: bool,
    pub(crate) journal: Option<Arc<Journal>>,
    pub(crate) isolation: Option<Isolation>,
    /// Whether no attempt has begun before.
    pub(crate) is_first: bool,
}

impl TaskContext {
    pub(crate) fn new(
        node: &Arc<Node>,
        engine: Arc<dyn ContextEngine>,
        task: &Task,
        requestor: Arc<Requestor>,
        options: ContextOptions,
        stop: watch::Receiver<Option<StopReason>>,
        slot: Slot,
    ) -> Self {
        let starting = (task.active_attempt()).is_some_and(|attempt| attempt.state == AttemptState::Starting);
        let shared = Shared {
            node: Arc::clone(node),
            engine,
            is_first: options.is_first,
            header: Arc::clone(&task.header),
            concurrency: options.concurrency,
            requestor,
            fence: options.fence,
            input_timeout: options.input_timeout,
            journal: options.journal,
            activity: Activity::new(),
            asks_again: options.asks_again,
            isolation: options.isolation,
            isolation_guard: Mutex::default(),
            asked_before: if options.asks_again { task.inputs_asked } else { 0 },
            written: tokio::sync::Mutex::new(WrittenSoFar::by(task)),
            drafts: Mutex::new(Some(Vec::new())),
            drafted: Notify::new(),
            returning: tokio::sync::Mutex::new(()),
            suspend: Arc::default(),
            stop,
            pending_report: Mutex::new(PendingReport::of_attempt(starting)),
            report_changed: Notify::new(),
            slot: Mutex::new(SlotState::Held(slot)),
        };
        Self {
            shared: Arc::new(shared),
            path: Arc::from(""),
        }
    }

    /// The task.
    pub fn task(&self) -> &TaskId {
        &self.shared.header.id
    }

    /// Who owns the task.
    pub fn principal(&self) -> &Principal {
        &self.shared.header.owner.principal
    }

    /// The legacy session that has made the call, if one has.
    pub fn session(&self) -> Option<&SessionKey> {
        self.shared.header.owner.session.as_ref()
    }

    pub(crate) fn owner(&self) -> &Owner {
        &self.shared.header.owner
    }

    /// What is known about the sender of the call.
    pub fn requestor(&self) -> &Arc<Requestor> {
        &self.shared.requestor
    }

    /// The task's deadline, in milliseconds from its creation.
    pub fn deadline(&self) -> Option<Millis> {
        self.shared.header.deadline
    }

    /// Whether the task's id was given to its client, which can then read its log and its output. `false` if the store fails.
    pub async fn is_announced(&self) -> bool {
        let record = self.shared.node.store.get_unscoped(&self.shared.header.id).await;
        record.is_ok_and(|record| record.is_some_and(|record| record.task.announced))
    }

    /// Makes a plain call a task, since its result names something that its caller can read only of a task. Returns whether it is one: a call that was cancelled becomes none.
    pub async fn announce(&self) -> bool {
        if self.is_announced().await {
            return true;
        }
        let change = Change::of(self.task(), Event::Promoted, self.now());
        match self.shared.node.commit(change).await {
            Ok(task) => task.announced,
            Err(_) => self.is_announced().await,
        }
    }

    /// Now, by the engine's clock: for durations.
    pub fn now(&self) -> UnixMillis {
        self.shared.node.now()
    }

    /// Now, by the system's clock: for dates.
    pub fn wall(&self) -> UnixMillis {
        self.shared.node.ports.clock.wall()
    }

    /// The ports, for work that needs time or concurrency of its own.
    pub fn ports(&self) -> &Ports {
        &self.shared.node.ports
    }

    /// Why the work was asked to stop, if it was.
    pub fn stop_requested(&self) -> Option<StopReason> {
        *self.shared.stop.borrow()
    }

    /// Completes when the work is asked to stop.
    pub async fn stopped(&self) -> StopReason {
        let mut stop = self.shared.stop.clone();
        match stop.wait_for(Option::is_some).await.map(|reason| *reason) {
            Ok(Some(reason)) => reason,
            // The attempt has ended, so nothing can stop it any more.
            _ => std::future::pending().await,
        }
    }

    /// Completes when another node has taken over the attempt.
    pub(crate) async fn lost(&self) {
        let mut stop = self.shared.stop.clone();
        // The sender goes before the attempt ends only then.
        while stop.changed().await.is_ok() {}
    }

    /// The drafts queued since this last completed; at least one.
    pub(crate) async fn next_drafts(&self) -> Vec<QueuedDraft> {
        loop {
            let drafts = self.drafts().as_mut().map(std::mem::take).unwrap_or_default();
            if !drafts.is_empty() {
                return drafts;
            }
            self.shared.drafted.notified().await;
        }
    }

    pub(crate) fn drafts(&self) -> MutexGuard<'_, Option<Vec<QueuedDraft>>> {
        self.shared.drafts.lock()
    }

    /// Whether the task is durable, and so has a journal.
    pub fn keeps_journal(&self) -> bool {
        self.shared.journal.is_some()
    }

    /// The branch of the code: empty for the main branch, `1.0` for the first branch of its second fork.
    pub fn branch(&self) -> &str {
        &self.path
    }

    /// Whether a branch has lost a race, and its questions and children are withdrawn and cancelled already.
    pub(crate) fn is_abandoned(&self, path: &str) -> bool {
        let journal = self.shared.journal.as_ref();
        journal.is_some_and(|journal| journal.is_abandoned(path))
    }

    /// Whether questions and children that the code drops stay as they are: its attempt has ended, or it has diverged.
    pub(crate) fn is_over(&self) -> bool {
        self.has_diverged() || matches!(*self.slot_state(), SlotState::Released)
    }

    /// Whether the code has diverged from its journal.
    pub(crate) fn has_diverged(&self) -> bool {
        let journal = self.shared.journal.as_ref();
        journal.is_some_and(|journal| journal.has_diverged().is_err())
    }

    /// Completes when the code diverges from its journal. Code that was asked to stop may leave entries unreached, so it does not count.
    pub(crate) async fn diverged(&self) -> Divergence {
        match &self.shared.journal {
            Some(journal) => {
                let divergence = journal.diverged().await;
                match self.stop_requested() {
                    Some(_) => std::future::pending().await,
                    None => divergence,
                }
            }
            None => std::future::pending().await,
        }
    }

    /// A change under this attempt's fencing token. Whether it was made is not recognized later.
    pub(crate) fn change(&self, events: Vec<Event>) -> Change {
        Change {
            task: self.shared.header.id.clone(),
            fence: Some(self.shared.fence),
            events,
            at: self.now(),
            number: None,
            can_wait: false,
        }
    }

    /// A change that can be applied again and again until it is known to be made, and is made once.
    pub(crate) fn change_once(&self, written: &mut WrittenSoFar, events: Vec<Event>) -> Change {
        written.changes += 1;
        Change {
            number: Some(written.changes),
            ..self.change(events)
        }
    }
}
