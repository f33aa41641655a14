//! This server process as its tasks see it: the store, the ports, and what they share while they run.
//!
//! It knows neither tools nor the code of tasks. The [`Engine`](crate::Engine) is built around it.

pub(crate) mod active_attempts;
mod change_feed;
mod children;
mod events;
mod failed_starts;
mod isolated_retry;
mod messages;
mod progress_stream;
mod step_observer;
mod store_retry;
mod store_trouble;
mod suspension;
pub(crate) mod task_log;

pub(crate) use active_attempts::{AttemptOrigin, ClaimGuard};
pub use change_feed::TaskWatch;
pub(crate) use isolated_retry::{Isolation, IsolationGuard, NotStarted};
pub use progress_stream::{ProgressStream, ToolMessage};
pub use step_observer::StepObserver;
pub use store_trouble::StoreTrouble;
pub use suspension::SUSPEND_AFTER;
pub(crate) use suspension::{Activity, ActivityChange, Wait, WaitingEntry};

pub(crate) use children::cancel_children_of_finished_parents;
use events::EventHandler;
use messages::Messages;

use crate::{
    Ports,
    ports::alarm::Alarm,
    queue::{queues::Queues, slots::Slots},
};
use active_attempts::ActiveAttempts;
use change_feed::ChangeFeed;
use failed_starts::FailedStarts;
use isolated_retry::IsolationLock;
use longhaul_core::{
    BoxFuture, CancelMode, NodeId, Store, Task, TaskId, UnixMillis,
    store::{ApplyError, Change, NewNode, QueuePlace, Record, StoreError},
};
use progress_stream::ProgressStreams;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use suspension::WaitingAttempts;
use tokio::sync::Notify;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// How often [`Node::settle`] checks.
const SETTLE_INTERVAL: Duration = Duration::from_millis(20);

/// Why an engine has stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineStop {
    /// It was asked to.
    Requested,
    /// The store gave up its node: its lease was not renewed in time. Other nodes take over its tasks. Only a new engine can work again.
    LeaseLost,
}

pub(crate) struct Node {
    pub(crate) id: NodeId,
    /// As the store knows it.
    pub(crate) registered: NewNode,
    pub(crate) opened_at: UnixMillis,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) ports: Ports,
    pub(crate) change_feed: Arc<ChangeFeed>,
    /// Notified when events of the store may have been lost.
    resync: Arc<Notify>,
    /// Notified when tools were paused or resumed at any node.
    pauses: Arc<Notify>,
    /// Notified when other nodes have died.
    others_died: Notify,
    /// To and from other nodes.
    pub(crate) messages: Arc<Messages>,
    pub(crate) progress_streams: Arc<ProgressStreams>,
    pub(crate) slots: Arc<Slots>,
    pub(crate) active: Arc<ActiveAttempts>,
    pub(crate) queues: Arc<Queues>,
    pub(crate) alarm: Alarm,
    pub(crate) waiting_attempts: Arc<WaitingAttempts>,
    /// Held by the isolated attempt that runs.
    pub(crate) isolation_lock: IsolationLock,
    pub(crate) step_observer: Option<Arc<dyn StepObserver>>,
    pub(crate) failed_starts: FailedStarts,
    /// Cancellations that nobody waits for, so that a server that stops can finish them.
    cancelling: TaskTracker,
    /// Nothing begins any more, and what runs goes on.
    draining: CancellationToken,
    /// Cancelled before a stop: attempts that can be replayed end as suspended.
    releasing: CancellationToken,
    stopping: CancellationToken,
    lease_lost: AtomicBool,
    /// What ends when the node stops.
    running: TaskTracker,
}

/// What differs from one node to the next.
pub(crate) struct NodeOptions {
    pub(crate) id: NodeId,
    pub(crate) new: NewNode,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) ports: Ports,
    pub(crate) max_running: Option<usize>,
    pub(crate) suspend_after: Duration,
    pub(crate) step_observer: Option<Arc<dyn StepObserver>>,
}

impl Node {
    pub(crate) fn new(options: NodeOptions) -> Arc<Self> {
        let NodeOptions {
            id,
            new,
            store,
            ports,
            max_running,
            suspend_after,
            step_observer,
        } = options;
        let events = EventHandler::new(id, Slots::new(max_running));
        let EventHandler {
            change_feed,
            active,
            queues,
            slots,
            resync,
            pauses,
            messages,
            ..
        } = events.clone();
        store.listen(Arc::new(move |all| all.iter().for_each(|event| events.handle(event))));
        Arc::new(Self {
            id,
            registered: new,
            opened_at: ports.clock.now(),
            store,
            ports,
            change_feed,
            resync,
            pauses,
            others_died: Notify::new(),
            progress_streams: Arc::clone(&messages.progress_streams),
            messages,
            slots,
            active,
            queues,
            alarm: Alarm::default(),
            waiting_attempts: WaitingAttempts::new(suspend_after),
            isolation_lock: IsolationLock::default(),
            step_observer,
            failed_starts: FailedStarts::default(),
            cancelling: TaskTracker::new(),
            draining: CancellationToken::new(),
            releasing: CancellationToken::new(),
            stopping: CancellationToken::new(),
            lease_lost: AtomicBool::new(false),
            running: TaskTracker::new(),
        })
    }

    pub(crate) fn now(&self) -> UnixMillis {
        self.ports.clock.now()
    }

    /// Any number.
    pub(crate) fn random(&self) -> u64 {
        let mut bytes = [0; 8];
        self.ports.entropy.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    /// Runs `work` until it ends or the node stops.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.ports.spawner.spawn(Box::pin(self.until_stopped(work)));
    }

    /// `work`, until the node stops.
    pub(crate) fn until_stopped(
        &self,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> impl Future<Output = ()> + Send + 'static {
        let stopping = self.stopping.clone();
        let running = self.running.token();
        async move {
            let _running = running;
            tokio::select! {
                // First, so that nothing begins after the stop.
                biased;
                () = stopping.cancelled() => {}
                () = work => {}
            }
        }
    }

    /// Ends everything that was spawned, at once.
    pub(crate) fn stop(&self) {
        self.stopping.cancel();
    }

    /// Completes when the node stops, with the cause.
    pub(crate) async fn stopped(&self) -> EngineStop {
        self.stopping.cancelled().await;
        match self.lease_lost.load(Ordering::SeqCst) {
            true => EngineStop::LeaseLost,
            false => EngineStop::Requested,
        }
    }

    /// After a stop: whether everything has ended within `limit`.
    pub(crate) async fn stopped_within(&self, limit: Duration) -> bool {
        self.running.close();
        self.ports.within(limit, self.running.wait()).await.is_some()
    }

    /// Ends everything at once: other nodes may have taken over what this one held.
    pub(crate) fn lose_lease(&self) {
        self.lease_lost.store(true, Ordering::SeqCst);
        // Some run in the tasks that wait for them, and not in tasks of the node.
        self.active.lose_all();
        self.stop();
    }

    /// From now on nothing begins, and durable work that only waits is suspended.
    pub(crate) fn begin_drain(&self) {
        self.draining.cancel();
        self.waiting_attempts.suspend_at_once();
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.is_cancelled()
    }

    /// Completes when the drain begins.
    pub(crate) fn drain_begun(&self) -> impl Future<Output = ()> + Send + '_ {
        self.draining.cancelled()
    }

    /// Waits, at most `limit`, until no attempt runs and the end of each is written.
    pub(crate) async fn wait_until_idle(&self, limit: Duration) {
        let idle = async {
            while !self.active.is_idle() {
                self.ports.clock.sleep(SETTLE_INTERVAL).await;
            }
        };
        let _ = self.ports.within(limit, idle).await;
    }

    /// Ends attempts that can be replayed, and waits, at most `limit`, until their ends are written. Nothing is claimed from now on.
    pub(crate) async fn release(&self, limit: Duration) {
        self.releasing.cancel();
        let _ = self.ports.within(limit, self.active.wait_for_replayable()).await;
    }

    /// Whether nothing is to be claimed any more.
    pub(crate) fn is_released(&self) -> bool {
        self.releasing.is_cancelled()
    }

    /// Completes when attempts that can be replayed are to end as suspended.
    pub(crate) async fn released(&self) {
        self.releasing.cancelled().await;
    }

    /// Waits, at most `limit`, until every attempt that was asked to stop has stopped.
    pub(crate) async fn settle(&self, limit: Duration) {
        let settled = async {
            while !self.cancelling.is_empty() || self.active.stopping() > 0 {
                self.ports.clock.sleep(SETTLE_INTERVAL).await;
            }
        };
        let _ = self.ports.within(limit, settled).await;
    }

    /// Acts on a change that this node has committed, before the event of it comes: stops the attempt, offers the task's queue, sets the alarm, cancels children.
    pub(crate) fn changed(self: &Arc<Self>, task: &Task) {
        if let Some(stop) = task.stop
            && task.active_attempt().is_some_and(|attempt| attempt.node == self.id)
        {
            self.active.stop(&task.id, stop.reason);
        }
        if task.is_in_queue() {
            self.queues.offer(&task.tool, QueuePlace::of(task));
        }
        children::parent_or_child_changed(self, task);
        self.alarm.set_for(task);
    }

    /// Asks the attempt of a task to stop if the store says so, and ends it if another node has taken it over.
    pub(crate) async fn read_attempt(&self, id: &TaskId) -> Result<(), StoreError> {
        // Before the read: the store has it at least as new.
        let held = self.active.fence(id);
        let Some(record) = self.store.get_unscoped(id).await? else {
            return Ok(());
        };
        if let Some(stop) = record.task.stop {
            self.active.stop(id, stop.reason);
        }
        let stored = record.task.attempt.as_ref().map(longhaul_core::Attempt::fence);
        if let (Some(held), Some(stored)) = (held, stored)
            && (stored.epoch > held.epoch || stored.epoch == held.epoch && stored.node != held.node)
        {
            self.active.remove(id, held);
        }
        Ok(())
    }

    /// Completes when the store has said that events may have been lost.
    pub(crate) async fn resync_requested(&self) {
        self.resync.notified().await;
    }

    /// Completes when the store has said that tools were paused or resumed.
    pub(crate) async fn pauses_changed(&self) {
        self.pauses.notified().await;
    }

    /// Other nodes have died: their leases have ended.
    pub(crate) fn note_deaths(&self) {
        self.others_died.notify_one();
    }

    /// Completes when other nodes have died.
    pub(crate) async fn others_died(&self) {
        self.others_died.notified().await;
    }

    /// Whether tasks run here.
    pub(crate) fn runs_tasks(&self) -> bool {
        self.registered.role.runs_tasks()
    }

    /// Sends what is for other nodes, until the node stops.
    pub(crate) async fn send_messages(self: Arc<Self>) {
        self.messages.send_all(&*self.store).await;
    }

    /// Writes a change and acts on it, also if the caller is dropped meanwhile: a caller that leaves between the commit and its
    /// acknowledgement must not keep a request to stop from the attempt, or an answer from a suspended task.
    ///
    /// # Errors
    /// The store's; [`StoreError::Closed`] also if the node stops meanwhile.
    pub(crate) fn commit(self: &Arc<Self>, change: Change) -> BoxFuture<'static, Result<Task, ApplyError>> {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let node = Arc::clone(self);
        self.spawn(async move {
            let promotes = matches!(*change.events, [longhaul_core::Event::Promoted]);
            let applied = node.apply_until_known(change).await;
            if let Ok(task) = &applied {
                // A finished task can only be promoted, so any other change that leaves it finished has ended it.
                if promotes {
                    task_log::promoted(task);
                } else {
                    task_log::ended_if_done(task);
                }
                node.changed(task);
            }
            let _ = sender.send(applied);
        });
        Box::pin(async move { receiver.await.unwrap_or(Err(StoreError::Closed.into())) })
    }

    /// Acts on the end of a task that was written with the creation of another one.
    pub(crate) fn was_replaced(self: &Arc<Self>, id: TaskId) {
        let node = Arc::clone(self);
        self.spawn(async move {
            let read = || async { Ok(node.store.get_unscoped(&id).await?) };
            if let Ok(Some(record)) = node.retry_store("reading a task that was replaced", read).await {
                task_log::ended_if_done(&record.task);
                node.changed(&record.task);
            }
        });
    }

    pub(crate) async fn request_cancel(self: &Arc<Self>, id: &TaskId, mode: CancelMode) -> Result<Task, ApplyError> {
        let change = Change::of(id, longhaul_core::Event::CancelRequested(mode), self.now());
        self.commit(change).await
    }

    /// Cancels a plain call in the background, unless its client may come back later than `until`.
    pub(crate) fn cancel_round_soon(self: &Arc<Self>, id: TaskId, until: UnixMillis) {
        let node = Arc::clone(self);
        let pending = self.cancelling.token();
        self.spawn(async move {
            let _pending = pending;
            let cancel = || async {
                let record = node.store.get_unscoped(&id).await?;
                let is_kept = |record: Record| record.task.retry_until.is_some_and(|kept| kept > until);
                if !record.is_some_and(is_kept) {
                    node.request_cancel(&id, CancelMode::AtOnce).await?;
                }
                Ok(())
            };
            let _ = node.retry_store("cancelling a call", cancel).await;
        });
    }

    /// Cancels a task in the background. Retried while the store fails, since nobody else will ask: a full disk must not leave a command
    /// running that nobody wants.
    pub(crate) fn cancel_soon(self: &Arc<Self>, id: TaskId, mode: CancelMode) {
        let node = Arc::clone(self);
        let pending = self.cancelling.token();
        self.spawn(async move {
            let _pending = pending;
            // A refusal means that it has ended.
            let _ = node
                .retry_store("cancelling a task", || node.request_cancel(&id, mode))
                .await;
        });
    }
}
