//! A store layer that counts and traces its writes, and kills its process at the kill point.

use super::{
    kill_point::{KillPoint, WritePhase},
    plan::{Behavior, Plan},
    trace::{Trace, TraceLine, TracedEntry},
    write_name,
};
use longhaul_core::{
    BoxFuture, ChildEntry, EntryKey, Event, Fence, Store, StoreLayer, Task, TaskId,
    store::{ApplyError, Change, Claim, Claimed, CreateError, Created, NewTask, Record, StoreError},
};
use longhaul_runtime::{MAX_ENTRIES, Ports, StepObserver};
use rustix::process::{Signal, getpid, kill_process};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};
use tokio::sync::{Mutex, MutexGuard};

/// How long a process lives after its last acknowledgement if it does nothing more.
const GRACE: Duration = Duration::from_millis(20);
/// How long an answer is delayed at most until the task is suspended: some of its code may still be running.
const MAX_DELAY: Duration = Duration::from_secs(1);

/// Decides when a process of a crash test is killed; shared by its store and its step observer.
pub(super) struct KillSwitch {
    behavior: Behavior,
    /// Whether answers are delayed until the task is suspended.
    suspends: bool,
    trace: Trace,
    writes: AtomicU32,
    /// Whether the process is killed at the next write or step.
    due: AtomicBool,
}

impl KillSwitch {
    pub(super) fn new(plan: &Plan, trace: Trace) -> Arc<Self> {
        Arc::new(Self {
            behavior: plan.behavior,
            suspends: plan.mode.suspends,
            trace,
            writes: AtomicU32::new(0),
            due: AtomicBool::new(false),
        })
    }

    /// Called before each write and each step.
    fn die_if_due(&self) {
        if self.due.load(Ordering::SeqCst) {
            die();
        }
    }

    fn begin(&self, what: &str) -> u32 {
        self.die_if_due();
        let nth = self.writes.fetch_add(1, Ordering::SeqCst) + 1;
        self.trace.put(&TraceLine::Write {
            nth,
            what: what.to_owned(),
        });
        self.die_at(nth, WritePhase::BeforeCommit);
        nth
    }

    fn die_at(&self, write: u32, phase: WritePhase) {
        if self.behavior == Behavior::KillAt(KillPoint { write, phase }) {
            die();
        }
    }

    /// Called before a write is acknowledged.
    fn acknowledge(self: &Arc<Self>, write: u32) {
        self.die_at(write, WritePhase::BeforeAcknowledgement);
        let after = KillPoint {
            write,
            phase: WritePhase::AfterAcknowledgement,
        };
        if self.behavior == Behavior::KillAt(after) {
            self.due.store(true, Ordering::SeqCst);
            die_after(GRACE);
        }
    }
}

impl StepObserver for KillSwitch {
    fn step_begins(&self, task: &TaskId, _fence: Fence, step: &EntryKey) {
        self.die_if_due();
        self.trace.put(&TraceLine::Begins {
            task: task.as_str().to_owned(),
            step: step.to_string(),
        });
    }
}

fn die() -> ! {
    let _ = kill_process(getpid(), Signal::KILL);
    loop {
        std::thread::park();
    }
}

#[expect(clippy::disallowed_methods, reason = "no port may keep a process from being killed")]
fn die_after(wait: Duration) {
    tokio::spawn(async move {
        tokio::time::sleep(wait).await;
        die()
    });
}

/// The layer around the server's store.
pub(super) struct KillingStore {
    inner: Arc<dyn Store>,
    kill_switch: Arc<KillSwitch>,
    /// If each write is made twice, keeps other writes from coming between the two.
    repeating: Mutex<()>,
}

impl KillingStore {
    pub(super) fn over(inner: Arc<dyn Store>, kill_switch: Arc<KillSwitch>) -> Arc<Self> {
        Arc::new(Self {
            inner,
            kill_switch,
            repeating: Mutex::new(()),
        })
    }

    async fn lock_if_repeating(&self) -> Option<MutexGuard<'_, ()>> {
        match self.kill_switch.behavior {
            Behavior::RepeatWrites => Some(self.repeating.lock().await),
            Behavior::RunToEnd | Behavior::KillAt(_) => None,
        }
    }

    /// Delays an answer until the task is suspended, in modes that suspend. Otherwise it would depend on timing which comes first.
    async fn delay_until_suspended(&self, change: &Change) {
        let is_answer = |event: &Event| matches!(event, Event::InputAnswered { .. });
        if !self.kill_switch.suspends || !change.events.iter().any(is_answer) {
            return;
        }
        let ports = Ports::system();
        let suspended = async {
            while let Ok(Some(record)) = self.inner.get_unscoped(&change.task).await
                && record.task.active_attempt().is_some()
            {
                ports.clock.sleep(Duration::from_millis(1)).await;
            }
        };
        let _ = ports.within(MAX_DELAY, suspended).await;
    }

    async fn trace_acknowledged(&self, change: &Change) {
        let entries = change.events.iter().filter_map(|event| match event {
            Event::Journaled(entry) => Some(TracedEntry::from(entry)),
            _ => None,
        });
        let entries: Vec<_> = entries.collect();
        if !entries.is_empty() {
            self.kill_switch.trace.put(&TraceLine::Committed {
                task: change.task.as_str().to_owned(),
                entries,
            });
        }
        if let Ok(Some(Record {
            outcome: Some(outcome), ..
        })) = self.inner.get_unscoped(&change.task).await
        {
            let ended = ChildEntry {
                task: change.task.clone(),
                outcome: Some(outcome),
            };
            self.kill_switch.trace.put(&TraceLine::Ended {
                task: change.task.as_str().to_owned(),
                outcome: ended.to_json().as_str().to_owned(),
            });
        }
    }

    /// Repeats an acknowledged write, which must not change `task`, whether or not it is refused.
    async fn repeat<T>(&self, what: &str, task: &TaskId, write: impl Future<Output = T>) {
        let before = self.state(task).await;
        write.await;
        let after = self.state(task).await;
        if before != after {
            self.kill_switch.trace.put(&TraceLine::Repeated {
                what: what.to_owned(),
                fault: format!("before: {before:?}\n  after: {after:?}"),
            });
        }
    }

    /// Everything about a task that its code and its client can see.
    async fn state(&self, task: &TaskId) -> impl PartialEq + std::fmt::Debug + use<> {
        let record = self.inner.get_unscoped(task).await.ok().flatten();
        let record = record.map(|record| {
            let Task {
                state,
                stop,
                attempt,
                attempts_used,
                inputs_asked,
                ..
            } = record.task;
            let task = (state, stop, attempt, attempts_used, inputs_asked);
            (task, record.outcome, record.inputs)
        });
        (record, self.inner.journal(task, 0, MAX_ENTRIES as usize).await.ok())
    }
}

impl StoreLayer for KillingStore {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    fn create(&self, new: NewTask) -> BoxFuture<'_, Result<Created, CreateError>> {
        Box::pin(async move {
            let _lock = self.lock_if_repeating().await;
            let what = write_name::name_creation(&new);
            let nth = self.kill_switch.begin(&what);
            let created = self.inner.create(new.clone()).await;
            if let Ok(Created::New(_)) = &created {
                // A child's creation also changes its parent.
                let change = new.parent_change();
                if let Some(change) = &change {
                    self.trace_acknowledged(change).await;
                }
                if self.kill_switch.behavior == Behavior::RepeatWrites {
                    let changed = change.map_or_else(|| new.id.clone(), |change| change.task);
                    self.repeat(&what, &changed, self.inner.create(new)).await;
                }
            }
            self.kill_switch.acknowledge(nth);
            created
        })
    }

    fn apply(&self, change: Change) -> BoxFuture<'_, Result<Task, ApplyError>> {
        Box::pin(async move {
            self.delay_until_suspended(&change).await;
            let _lock = self.lock_if_repeating().await;
            let Some(what) = write_name::name_change(&change) else {
                return self.inner.apply(change).await;
            };
            let nth = self.kill_switch.begin(&what);
            let applied = self.inner.apply(change.clone()).await;
            if applied.is_ok() {
                self.trace_acknowledged(&change).await;
                if self.kill_switch.behavior == Behavior::RepeatWrites {
                    let task = change.task.clone();
                    self.repeat(&what, &task, self.inner.apply(change)).await;
                }
            }
            self.kill_switch.acknowledge(nth);
            applied
        })
    }

    fn claim(&self, claim: Claim) -> BoxFuture<'_, Result<Vec<Claimed>, StoreError>> {
        Box::pin(async move {
            let _lock = self.lock_if_repeating().await;
            self.inner.claim(claim).await
        })
    }
}
