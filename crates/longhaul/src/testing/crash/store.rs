//! A store that counts its writes, says what it has acknowledged, and kills its process at a point of one of them.

use super::{
    plan::{Act, Plan},
    point::{At, Point},
    trace::{Kept, Line, Trace},
    write,
};
use longhaul_core::{
    BoxFuture, ChildEntry, EntryKey, Event, Fence, Store, StoreLayer, Task, TaskId,
    store::{ApplyError, Change, Claim, Claimed, CreateError, Created, NewTask, Record, StoreError},
};
use longhaul_runtime::{MAX_ENTRIES, Ports, Witness};
use rustix::process::{Signal, getpid, kill_process};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};
use tokio::sync::{Mutex, MutexGuard};

/// How long work that was acknowledged may take to do the next thing before its process is killed anyway: it may have nothing to do.
const NEXT: Duration = Duration::from_millis(20);
/// How long an answer is held back for code that is to be let go before it: some of it may have more to do.
const HELD: Duration = Duration::from_secs(1);

/// How a process of a crash test goes: to be shared by its store and its witness.
pub(super) struct Course {
    act: Act,
    /// Whether answers come when the code has been let go.
    lets_go: bool,
    trace: Trace,
    writes: AtomicU32,
    /// Whether the next thing that the work does is its last.
    last: AtomicBool,
}

impl Course {
    pub(super) fn new(plan: &Plan, trace: Trace) -> Arc<Self> {
        Arc::new(Self {
            act: plan.act,
            lets_go: plan.manner.lets_go,
            trace,
            writes: AtomicU32::new(0),
            last: AtomicBool::new(false),
        })
    }

    /// Something is about to happen.
    fn go_on(&self) {
        if self.last.load(Ordering::SeqCst) {
            die();
        }
    }

    fn begin(&self, what: &str) -> u32 {
        self.go_on();
        let nth = self.writes.fetch_add(1, Ordering::SeqCst) + 1;
        self.trace.put(&Line::Write {
            nth,
            what: what.to_owned(),
        });
        self.pass(nth, At::BeforeCommit);
        nth
    }

    fn pass(&self, write: u32, at: At) {
        if self.act == Act::Until(Point { write, at }) {
            die();
        }
    }

    /// A write is about to be acknowledged.
    fn acknowledge(self: &Arc<Self>, write: u32) {
        self.pass(write, At::BeforeAcknowledgement);
        let after = Point {
            write,
            at: At::AfterAcknowledgement,
        };
        if self.act == Act::Until(after) {
            self.last.store(true, Ordering::SeqCst);
            die_after(NEXT);
        }
    }
}

impl Witness for Course {
    fn step_begins(&self, task: &TaskId, _fence: Fence, step: &EntryKey) {
        self.go_on();
        self.trace.put(&Line::Begins {
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

/// The store around the one that keeps the tasks.
pub(super) struct Watched {
    inner: Arc<dyn Store>,
    course: Arc<Course>,
    /// Where writes are made twice, nothing else may be written between the two.
    turn: Mutex<()>,
}

impl Watched {
    pub(super) fn over(inner: Arc<dyn Store>, course: Arc<Course>) -> Arc<Self> {
        Arc::new(Self {
            inner,
            course,
            turn: Mutex::new(()),
        })
    }

    async fn turn(&self) -> Option<MutexGuard<'_, ()>> {
        match self.course.act {
            Act::Twice => Some(self.turn.lock().await),
            Act::Through | Act::Until(_) => None,
        }
    }

    /// Where code is let go as soon as it waits, an answer comes after that: else whichever is quicker would.
    async fn hold_back(&self, change: &Change) {
        let is_answer = |event: &Event| matches!(event, Event::InputAnswered { .. });
        if !self.course.lets_go || !change.events.iter().any(is_answer) {
            return;
        }
        let ports = Ports::system();
        let let_go = async {
            while let Ok(Some(record)) = self.inner.peek(&change.task).await
                && record.task.active_attempt().is_some()
            {
                ports.clock.sleep(Duration::from_millis(1)).await;
            }
        };
        let _ = ports.within(HELD, let_go).await;
    }

    async fn acknowledged(&self, change: &Change) {
        let entries = change.events.iter().filter_map(|event| match event {
            Event::Journaled(entry) => Some(Kept::from(entry)),
            _ => None,
        });
        let entries: Vec<_> = entries.collect();
        if !entries.is_empty() {
            self.course.trace.put(&Line::Committed {
                task: change.task.as_str().to_owned(),
                entries,
            });
        }
        if let Ok(Some(Record {
            outcome: Some(outcome), ..
        })) = self.inner.peek(&change.task).await
        {
            let ended = ChildEntry {
                task: change.task.clone(),
                outcome: Some(outcome),
            };
            self.course.trace.put(&Line::Ended {
                task: change.task.as_str().to_owned(),
                outcome: ended.to_json().as_str().to_owned(),
            });
        }
    }

    /// Makes a write again that was acknowledged: it is to change nothing of `task`, whether or not it is refused.
    async fn repeat<T>(&self, what: &str, task: &TaskId, write: impl Future<Output = T>) {
        let before = self.state(task).await;
        write.await;
        let after = self.state(task).await;
        if before != after {
            self.course.trace.put(&Line::Repeated {
                what: what.to_owned(),
                fault: format!("before: {before:?}\n  after: {after:?}"),
            });
        }
    }

    /// All of a task that means something to its work and its client.
    async fn state(&self, task: &TaskId) -> impl PartialEq + std::fmt::Debug + use<> {
        let record = self.inner.peek(task).await.ok().flatten();
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

impl StoreLayer for Watched {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    fn create(&self, new: NewTask) -> BoxFuture<'_, Result<Created, CreateError>> {
        Box::pin(async move {
            let _turn = self.turn().await;
            let what = write::creation(&new);
            let nth = self.course.begin(&what);
            let created = self.inner.create(new.clone()).await;
            if let Ok(Created::New(_)) = &created {
                // What it changes of the parent, or of nobody.
                let change = new.parent.as_ref().map(|parent| parent.change(new.at));
                if let Some(change) = &change {
                    self.acknowledged(change).await;
                }
                if self.course.act == Act::Twice {
                    let changed = change.map_or_else(|| new.id.clone(), |change| change.task);
                    self.repeat(&what, &changed, self.inner.create(new)).await;
                }
            }
            self.course.acknowledge(nth);
            created
        })
    }

    fn apply(&self, change: Change) -> BoxFuture<'_, Result<Task, ApplyError>> {
        Box::pin(async move {
            self.hold_back(&change).await;
            let _turn = self.turn().await;
            let Some(what) = write::change(&change) else {
                return self.inner.apply(change).await;
            };
            let nth = self.course.begin(&what);
            let applied = self.inner.apply(change.clone()).await;
            if applied.is_ok() {
                self.acknowledged(&change).await;
                if self.course.act == Act::Twice {
                    let task = change.task.clone();
                    self.repeat(&what, &task, self.inner.apply(change)).await;
                }
            }
            self.course.acknowledge(nth);
            applied
        })
    }

    fn claim(&self, claim: Claim) -> BoxFuture<'_, Result<Vec<Claimed>, StoreError>> {
        Box::pin(async move {
            let _turn = self.turn().await;
            self.inner.claim(claim).await
        })
    }
}
