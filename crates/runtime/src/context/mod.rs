//! What running work may ask of Longhaul.

mod ask;
mod child;
mod failure;
mod fork;
mod isolation;
mod operation;
mod poll;
mod recorded;
mod report;
mod slot;
mod start_child;
mod step;
mod timer;
mod writer;

pub(crate) use child::{ChildDetails, read_child};
pub use child::{ChildEnd, ChildError};
pub(crate) use fork::is_join;
pub use fork::{Fork, Race};
pub(crate) use poll::read_poll;
pub use poll::{Pace, Polled};
pub(crate) use start_child::{Refusal, StartChild};
pub(crate) use step::read_step;
pub use step::{StepError, StepFailure, StepPolicy, step_is_settled};
pub(crate) use writer::write_drafts;

use crate::{
    Ports,
    isolated_retry::{Isolation, IsolationGuard},
    journal::{Divergence, Journal},
    node::Node,
    pending_report::PendingReport,
    requestor::Requestor,
    slots::Slot,
    suspension::Activity,
};
use longhaul_core::{
    AttemptState, Event, Fence, Millis, Principal, StopReason, Task, TaskHeader, TaskId, UnixMillis,
    store::{ApplyError, Change},
};
use parking_lot::{Mutex, MutexGuard};
use slot::Hold;
use std::sync::Arc;
use tokio::sync::{Notify, watch};
use writer::Pending;

/// A running attempt's door to its task: reports out, stop requests and answers in, and the journal. Cheap to clone.
///
/// Each is the door of one branch of the code; [`fork`](Self::fork) makes more.
#[derive(Clone)]
pub struct TaskContext {
    pub(crate) shared: Arc<Shared>,
    /// Which branch of the code this is: empty for its trunk.
    pub(crate) path: Arc<str>,
}

pub(crate) struct Shared {
    pub(crate) node: Arc<Node>,
    pub(crate) children: Arc<dyn StartChild>,
    pub(crate) header: Arc<TaskHeader>,
    pub(crate) concurrency: Option<usize>,
    pub(crate) requestor: Arc<Requestor>,
    pub(crate) fence: Fence,
    /// How long a question waits that does not say so itself.
    pub(crate) input_timeout: Millis,
    /// What the code has come to, if its executor keeps that.
    pub(crate) journal: Option<Arc<Journal>>,
    /// What the branches of the code are doing.
    pub(crate) activity: Activity,
    /// See [`Executor::asks_again`](crate::Executor::asks_again).
    pub(crate) asks_again: bool,
    /// Set if the attempt may be at fault for the death of its process.
    pub(crate) isolation: Option<Isolation>,
    /// Held while it is watched for that.
    isolation_guard: Mutex<Option<IsolationGuard>>,
    /// How many questions earlier attempts have asked that this one may ask again.
    pub(crate) asked_before: u32,
    /// How many questions the task has ever asked. Held while something is written whose number must be the next one.
    pub(crate) asked: tokio::sync::Mutex<u32>,
    /// What is to be written; `None` once the attempt is over.
    drafts: Mutex<Option<Vec<Pending>>>,
    pub(crate) drafted: Notify,
    /// Held by a branch that waits for the slot to come back.
    pub(crate) returning: tokio::sync::Mutex<()>,
    /// Told when the code has waited long enough to be let go.
    pub(crate) suspend: Arc<Notify>,
    stop: watch::Receiver<Option<StopReason>>,
    pending_report: Mutex<PendingReport>,
    report_changed: Notify,
    hold: Mutex<Hold>,
}

impl Shared {
    /// How many tasks are above this one.
    pub(crate) fn depth(&self) -> u32 {
        self.header.lineage.as_ref().map_or(0, |lineage| lineage.depth)
    }
}

/// What an attempt runs under.
pub(crate) struct Terms {
    pub(crate) fence: Fence,
    pub(crate) concurrency: Option<usize>,
    pub(crate) input_timeout: Millis,
    pub(crate) asks_again: bool,
    pub(crate) journal: Option<Arc<Journal>>,
    pub(crate) isolation: Option<Isolation>,
}

impl TaskContext {
    pub(crate) fn new(
        node: &Arc<Node>,
        children: Arc<dyn StartChild>,
        task: &Task,
        requestor: Arc<Requestor>,
        terms: Terms,
        stop: watch::Receiver<Option<StopReason>>,
        slot: Slot,
    ) -> Self {
        let starting = (task.active_attempt()).is_some_and(|attempt| attempt.state == AttemptState::Starting);
        let shared = Shared {
            node: Arc::clone(node),
            children,
            header: Arc::clone(&task.header),
            concurrency: terms.concurrency,
            requestor,
            fence: terms.fence,
            input_timeout: terms.input_timeout,
            journal: terms.journal,
            activity: Activity::new(),
            asks_again: terms.asks_again,
            isolation: terms.isolation,
            isolation_guard: Mutex::default(),
            asked_before: if terms.asks_again { task.inputs_asked } else { 0 },
            asked: tokio::sync::Mutex::new(task.inputs_asked),
            drafts: Mutex::new(Some(Vec::new())),
            drafted: Notify::new(),
            returning: tokio::sync::Mutex::new(()),
            suspend: Arc::default(),
            stop,
            pending_report: Mutex::new(PendingReport::of_attempt(starting)),
            report_changed: Notify::new(),
            hold: Mutex::new(Hold::Slot(slot)),
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

    /// Whom it belongs to.
    pub fn principal(&self) -> &Principal {
        &self.shared.header.owner.principal
    }

    /// What the sender of the call said about itself.
    pub fn requestor(&self) -> &Arc<Requestor> {
        &self.shared.requestor
    }

    /// How long after its creation the task is to be over, if that is bounded.
    pub fn deadline(&self) -> Option<Millis> {
        self.shared.header.deadline
    }

    /// Whether its owner may know the task, as far as the store can say: then its log and its like can be read.
    pub async fn is_announced(&self) -> bool {
        let record = self.shared.node.store.peek(&self.shared.header.id).await;
        record.is_ok_and(|record| record.is_some_and(|record| record.task.announced))
    }

    /// Now, in the engine's time: for what ends after a length of time.
    pub fn now(&self) -> UnixMillis {
        self.shared.node.now()
    }

    /// What the world's clock says, for what is meant as a date.
    pub fn wall(&self) -> UnixMillis {
        self.shared.node.ports.clock.wall()
    }

    /// The ports, for work that needs time or concurrency of its own.
    pub fn ports(&self) -> &Ports {
        &self.shared.node.ports
    }

    /// Why the work is asked to stop, if it is.
    pub fn stop_requested(&self) -> Option<StopReason> {
        *self.shared.stop.borrow()
    }

    /// Completes when the work is asked to stop.
    pub async fn stopped(&self) -> StopReason {
        let mut stop = self.shared.stop.clone();
        match stop.wait_for(Option::is_some).await.map(|reason| *reason) {
            Ok(Some(reason)) => reason,
            // The attempt is over and nobody can ask any more.
            _ => std::future::pending().await,
        }
    }

    /// The drafts handed in since this last completed; at least one.
    pub(crate) async fn next_drafts(&self) -> Vec<Pending> {
        loop {
            let drafts = self.drafts().as_mut().map(std::mem::take).unwrap_or_default();
            if !drafts.is_empty() {
                return drafts;
            }
            self.shared.drafted.notified().await;
        }
    }

    pub(crate) fn drafts(&self) -> MutexGuard<'_, Option<Vec<Pending>>> {
        self.shared.drafts.lock()
    }

    /// Whether what the work comes to is kept in a journal.
    pub fn keeps_journal(&self) -> bool {
        self.shared.journal.is_some()
    }

    /// Which branch of the code this is: empty for its trunk, `1.0` for the first branch of the trunk's second fork.
    pub fn branch(&self) -> &str {
        &self.path
    }

    /// Whether a branch has lost a race, and what it had asked and begun is given up already.
    pub(crate) fn is_abandoned(&self, path: &str) -> bool {
        let journal = self.shared.journal.as_ref();
        journal.is_some_and(|journal| journal.is_abandoned(path))
    }

    /// Whether the attempt has ended as far as its code is concerned: what it drops from now on is not its wish. Code that has diverged wishes
    /// nothing that counts.
    pub(crate) fn is_over(&self) -> bool {
        self.has_diverged() || matches!(*self.hold_lock(), Hold::Over)
    }

    /// Whether the code does not follow its journal.
    pub(crate) fn has_diverged(&self) -> bool {
        let journal = self.shared.journal.as_ref();
        journal.is_some_and(|journal| journal.has_diverged().is_err())
    }

    /// Completes when the code does not follow its journal. Code that is to stop need not.
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

    /// Writes events under this attempt's fence.
    pub(crate) async fn apply(&self, events: Vec<Event>) -> Result<Task, ApplyError> {
        let change = Change {
            task: self.shared.header.id.clone(),
            fence: Some(self.shared.fence),
            events,
            at: self.now(),
        };
        self.shared.node.store.apply(change).await
    }
}
