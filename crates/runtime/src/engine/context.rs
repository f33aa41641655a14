//! What running work may ask of Longhaul.

use crate::{
    End, JournalError, Requestor, ToolMessage,
    engine::{
        Inner,
        isolated_retry::{Isolation, IsolationGuard},
        journal::{Divergence, Journal, Pending},
    },
    pending_report::PendingReport,
    slots::Slot,
    suspension::{Activity, Wait, WaitingEntry},
};
use longhaul_core::{
    AttemptState, Event, Fence, Json, Lineage, LogLevel, Millis, Origin, Owner, Principal, Progress, StopReason, Task,
    TaskId, UnixMillis,
    store::{ApplyError, Change},
};
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use tokio::sync::{Notify, watch};

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
    pub(crate) inner: Arc<Inner>,
    pub(crate) task: TaskId,
    pub(crate) tool: Arc<str>,
    pub(crate) concurrency: Option<usize>,
    pub(crate) owner: Owner,
    pub(crate) origin: Origin,
    pub(crate) lineage: Option<Lineage>,
    deadline: Option<Millis>,
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
        self.lineage.as_ref().map_or(0, |lineage| lineage.depth)
    }
}

/// The attempt's hold on its slot.
enum Hold {
    Slot(#[expect(dead_code, reason = "held for its drop")] Slot),
    /// All of the code waits.
    Waiting(#[expect(dead_code, reason = "held for its drop")] Option<WaitingEntry>),
    /// The attempt has ended; whoever still has its context gets no slot any more.
    Over,
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
        inner: &Arc<Inner>,
        task: &Task,
        requestor: Arc<Requestor>,
        terms: Terms,
        stop: watch::Receiver<Option<StopReason>>,
        slot: Slot,
    ) -> Self {
        let starting = (task.active_attempt()).is_some_and(|attempt| attempt.state == AttemptState::Starting);
        let shared = Shared {
            inner: Arc::clone(inner),
            task: task.id.clone(),
            tool: Arc::clone(&task.tool),
            concurrency: terms.concurrency,
            owner: task.owner.clone(),
            origin: task.origin,
            lineage: task.lineage.clone(),
            deadline: task.deadline,
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
        &self.shared.task
    }

    /// Whom it belongs to.
    pub fn principal(&self) -> &Principal {
        &self.shared.owner.principal
    }

    /// What the sender of the call said about itself.
    pub fn requestor(&self) -> &Arc<Requestor> {
        &self.shared.requestor
    }

    /// How long after its creation the task is to be over, if that is bounded.
    pub fn deadline(&self) -> Option<Millis> {
        self.shared.deadline
    }

    /// Whether its owner may know the task, as far as the store can say: then its log and its like can be read.
    pub async fn is_announced(&self) -> bool {
        let record = self.shared.inner.store.peek(&self.shared.task).await;
        record.is_ok_and(|record| record.is_some_and(|record| record.task.announced))
    }

    /// Now, in the engine's time: for what ends after a length of time.
    pub fn now(&self) -> UnixMillis {
        self.shared.inner.now()
    }

    /// What the world's clock says, for what is meant as a date.
    pub fn wall(&self) -> UnixMillis {
        self.shared.inner.ports.clock.wall()
    }

    /// The ports, for work that needs time or concurrency of its own.
    pub fn ports(&self) -> &crate::Ports {
        &self.shared.inner.ports
    }

    /// Says that the work has begun. Best effort, like all reports. For work that lives in this process; of any other the start is
    /// [recorded](Self::record_start).
    pub fn started(&self) {
        self.tell(PendingReport::started);
    }

    /// Commits that the attempt starts work outside of this process; to be called when everything is ready and nothing is started yet. From
    /// here on a later process does not take missing records of the attempt for one that was never started. Once it is committed, a
    /// second call does nothing.
    ///
    /// # Errors
    /// The end of the attempt: nothing may be started.
    pub async fn record_start(&self) -> Result<(), End> {
        if self.pending_report().is_begun_told() {
            return Ok(());
        }
        let inner = &self.shared.inner;
        let started = inner.retry_store("recording the start of an attempt", || self.apply(vec![Event::Started]));
        let written = tokio::select! {
            biased;
            written = started => written,
            // A store without room may keep it waiting. If it was written after all, that does no harm: nothing is started.
            reason = self.stopped() => return Err(End::Stopped(reason)),
        };
        match written {
            Ok(task) => {
                self.has_begun();
                inner.changed(&task);
                task.stop.map_or(Ok(()), |stop| Err(End::Stopped(stop.reason)))
            }
            Err(error) => Err(End::NeverStarted(error.to_string())),
        }
    }

    /// A line for people, of which 1 KiB is kept: the latest one is shown as the task's status message, at most twice a second. While code is run again through its
    /// journal, it is kept back: only the latest is shown once there is nothing more that was before.
    pub fn status(&self, line: impl Into<Arc<str>>) {
        let line = line.into();
        self.tell(|report| report.status(line));
    }

    /// How far the work has come. A client that waits hears every figure; of a task the latest is kept, at most twice a second. NaN
    /// and infinities are no figures, and are not told. Nor is what code says that is run again, while it comes to what was before.
    pub fn progress(&self, current: f64, total: Option<f64>) {
        self.report(current, total, None);
    }

    /// As [`progress`](Self::progress), with a line for people, which becomes the status message too.
    pub fn report(&self, current: f64, total: Option<f64>, message: Option<&str>) {
        let message: Option<Arc<str>> = message.map(Arc::from);
        let said = ToolMessage::progress(current, total, message.clone());
        self.tell(|report| {
            if let Some(ToolMessage::Progress { current, total, .. }) = said {
                report.progress(Progress { current, total });
            }
            if let Some(line) = message {
                report.status(line);
            }
        });
        if let Some(said) = said
            && self.shared.inner.progress_streams.has_subscribers()
            && !self.is_behind()
        {
            self.say(said);
        }
    }

    /// A log message for a client that waits and wants those. Nothing of it is kept. Code that is run again is not heard while it comes to
    /// what was before.
    pub fn log(&self, level: LogLevel, logger: Option<&str>, data: Json) {
        if self.shared.inner.progress_streams.has_subscribers() && !self.is_behind() {
            self.say(ToolMessage::Log {
                level,
                logger: logger.map(Arc::from),
                data,
            });
        }
    }

    /// Says that what there was to do on a page is done; `id` is the `elicitationId` of the question that sent a person there. Only clients of
    /// 2025-11-25 are told, and nothing of it is kept.
    pub fn elicitation_complete(&self, id: &Arc<str>) {
        self.say(ToolMessage::ElicitationComplete { id: Arc::clone(id) });
    }

    /// Says that there is nothing to say for a while, so that a legacy stream may be closed until then.
    pub fn quiet(&self) {
        self.say(ToolMessage::Quiet);
    }

    fn say(&self, said: ToolMessage) {
        self.shared.inner.progress_streams.publish(&self.shared.task, said);
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

    /// All of the code waits: its slot is free. If it can be run again, it is let go when it has waited long enough.
    pub(crate) fn begin_waiting(&self) {
        let ticket = self.shared.journal.as_ref().map(|_| {
            let inner = &self.shared.inner;
            // On the last attempts it is suspended at once, so that further crashes of its process cost it nothing.
            let must_suspend = self.shared.isolation.is_some();
            (inner.waiting_attempts).enter(inner.now(), must_suspend, &self.shared.suspend)
        });
        self.set_hold(Hold::Waiting(ticket));
    }

    /// The code has done what it can for now. If one of several waits is over, and nothing came of it but that, all of it waits again.
    pub(crate) fn rest(&self) {
        if self.shared.activity.all_wait() && !self.is_waiting() {
            self.begin_waiting();
        }
    }

    /// Some of the code goes on, though nobody has waited for a slot: what was waited for is given up.
    pub(crate) fn end_waiting(&self) {
        if self.is_waiting() {
            self.set_hold(Hold::Slot(self.shared.inner.slots.take_anyway(&self.shared.tool)));
        }
    }

    /// Takes a slot for work that goes on.
    pub(crate) fn hold(&self, slot: Slot) {
        self.set_hold(Hold::Slot(slot));
    }

    pub(crate) fn is_waiting(&self) -> bool {
        matches!(*self.hold_lock(), Hold::Waiting(_))
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

    /// Gives the slot back for good, whoever still holds this context, and takes no draft any more.
    pub(crate) fn close(&self) {
        let drafts = self.drafts().take();
        drop(drafts);
        self.set_isolation_guard(None);
        self.set_hold(Hold::Over);
    }

    /// Gives the slot back for as long as nothing is begun.
    pub(crate) fn give_slot_back(&self) {
        self.set_hold(Hold::Waiting(None));
    }

    /// Whether this attempt, of a process that has died, had not begun because it waited for its turn.
    pub(crate) fn was_waiting_for_isolation(&self) -> bool {
        self.shared.isolation.is_some() && !self.pending_report().have_begun()
    }

    /// Notes that it is written that the work has begun.
    pub(crate) fn has_begun(&self) {
        self.pending_report().begun_is_told();
    }

    /// Whether the attempt is watched.
    pub(crate) fn is_isolated(&self) -> bool {
        self.isolation_guard().is_some()
    }

    /// Begins or ends the watch.
    pub(crate) fn set_isolation_guard(&self, guard: Option<IsolationGuard>) {
        let old = std::mem::replace(&mut *self.isolation_guard(), guard);
        // Outside of the lock: this wakes the next one.
        drop(old);
    }

    fn isolation_guard(&self) -> MutexGuard<'_, Option<IsolationGuard>> {
        self.shared.isolation_guard.lock()
    }

    /// The lock is let go before the old hold is, since giving a slot back wakes others.
    fn set_hold(&self, new: Hold) {
        let mut hold = self.hold_lock();
        if matches!(*hold, Hold::Over) {
            return;
        }
        let old = std::mem::replace(&mut *hold, new);
        drop(hold);
        drop(old);
    }

    fn hold_lock(&self) -> MutexGuard<'_, Hold> {
        self.shared.hold.lock()
    }

    /// Completes when the code can be let go, with what its attempt ends in then.
    pub(crate) async fn suspend(&self) -> (Option<UnixMillis>, u32) {
        loop {
            self.shared.suspend.notified().await;
            match self.suspension().await {
                Ok(Some(suspension)) => return suspension,
                // Something has come, and the code goes on, or it still waits, and enters again.
                Ok(None) | Err(_) => {
                    if self.shared.activity.all_wait() {
                        self.begin_waiting();
                    }
                }
            }
        }
    }

    /// When the earliest timer of all that is waited for fires, and what the task had been woken by when all of it was still to come;
    /// `None` if something has come, or the code has gone on.
    async fn suspension(&self) -> Result<Option<(Option<UnixMillis>, u32)>, JournalError> {
        let Some(waits) = self.shared.activity.waits() else {
            return Ok(None);
        };
        let Some(record) = self.shared.inner.store.peek(&self.shared.task).await? else {
            return Ok(None);
        };
        let clock = &*self.ports().clock;
        let until = waits.values().filter_map(|wait| wait.until(clock)).min();
        if until.is_some_and(|until| until <= self.now()) {
            return Ok(None);
        }
        for wait in waits.values() {
            let has_come = match wait {
                Wait::Input(key, _) => !record.task.open_inputs.contains(key),
                // After the record: an end that is not seen here is not counted there either.
                Wait::Child(entry) => self.child_outcome(*entry).await?.is_some(),
                Wait::Timer(_) | Wait::Date(_) => false,
            };
            if has_come {
                return Ok(None);
            }
        }
        // The code may have gone on during the reads, for a reason of its own: what it does now is not to be cut off.
        let still_waits = self.shared.activity.all_wait_for(&waits);
        Ok(still_waits.then_some((until, record.task.woken)))
    }

    /// Whether this branch, or one it has forked into, has yet to come to what is in the journal.
    fn is_behind(&self) -> bool {
        let journal = self.shared.journal.as_ref();
        journal.is_some_and(|journal| journal.is_behind(&self.path))
    }

    fn is_replayed(&self) -> bool {
        let journal = self.shared.journal.as_ref();
        journal.is_some_and(|journal| journal.is_replayed())
    }

    /// The code has come to something that was before. What it had said on the way is told now, if that was the last.
    pub(crate) fn note_replayed(&self) {
        if !self.is_replayed() {
            self.shared.report_changed.notify_one();
        }
    }

    fn tell(&self, write: impl FnOnce(&mut PendingReport)) {
        write(&mut self.pending_report());
        self.shared.report_changed.notify_one();
    }

    fn pending_report(&self) -> MutexGuard<'_, PendingReport> {
        self.shared.pending_report.lock()
    }

    /// Completes when there are reports that were not taken.
    pub(crate) async fn has_report(&self) {
        loop {
            let replayed = self.is_replayed();
            if !self.pending_report().is_empty(replayed) {
                return;
            }
            self.shared.report_changed.notified().await;
        }
    }

    pub(crate) fn take_report(&self) -> PendingReport {
        let replayed = self.is_replayed();
        self.pending_report().take(replayed)
    }

    /// Keeps reports that could not be written for the next try; what was said since counts more.
    pub(crate) fn put_back(&self, older: PendingReport) {
        self.pending_report().fill_from(older);
    }

    /// Writes events under this attempt's fence.
    pub(crate) async fn apply(&self, events: Vec<Event>) -> Result<Task, ApplyError> {
        let change = Change {
            task: self.shared.task.clone(),
            fence: Some(self.shared.fence),
            events,
            at: self.now(),
        };
        self.shared.inner.store.apply(change).await
    }
}
