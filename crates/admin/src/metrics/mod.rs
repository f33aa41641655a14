//! What Prometheus reads.

mod by_label;
pub(crate) mod metered_store;
pub(crate) mod recent_ends;
mod snapshot;
mod store_metrics;

pub(crate) use snapshot::{MetricsSnapshot, OfferedTool, Present, queue_age};

use crate::words::state_word;
use by_label::EndsByLabel;
use longhaul_core::{AttemptOutcome, State, Task, UnixMillis, Verdict, store::StoreError};
use parking_lot::{Mutex, RwLock};
use prometheus_client::{
    encoding::{EncodeLabelSet, text},
    metrics::{counter::Counter, family::Family, histogram::Histogram},
    registry::{Metric, Registry, Unit},
};
use recent_ends::{Recent, RecentEnds};
use snapshot::SnapshotMetrics;
use std::{
    collections::BTreeSet,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};
use store_metrics::StoreMetrics;

/// In seconds. Tasks take from milliseconds to days.
const TASK_SECONDS: [f64; 14] = [
    0.01, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3_600.0, 14_400.0, 43_200.0, 86_400.0, 604_800.0,
];
const QUEUE_SECONDS: [f64; 10] = [0.01, 0.1, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3_600.0, 14_400.0];
const WRITE_SECONDS: [f64; 11] = [0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 1.0, 5.0];

/// No ids of tasks or principals: their number has no bound.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfTool {
    tool: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfToolAndOutcome {
    tool: String,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfWrite {
    write: &'static str,
}

/// Counts what becomes of tasks since the start of the process. Everything that is true at a moment is read when Prometheus asks.
pub struct Metrics {
    registry: Registry,
    store: StoreMetrics,
    moment: SnapshotMetrics,
    created: Family<OfTool, Counter>,
    ended: Family<OfToolAndOutcome, Counter>,
    by_label: EndsByLabel,
    attempts: Family<OfToolAndOutcome, Counter>,
    over_quota: Counter,
    task_seconds: Family<OfTool, Histogram, fn() -> Histogram>,
    queue_seconds: Family<OfTool, Histogram, fn() -> Histogram>,
    /// By [`Write`].
    writes: [Histogram; 2],
    failed_writes: Counter,
    /// How many of them failed because there is no room.
    full_writes: AtomicU64,
    /// Why a write has failed that the store cannot make as it is, since somebody last looked.
    unusable: Mutex<Option<&'static str>>,
    /// Whether a write was made since the last one that failed for either reason.
    wrote_since: AtomicBool,
    /// Two readers at once would clear what the other one has set.
    encoding: Mutex<()>,
    tools: RwLock<foldhash::HashMap<Arc<str>, Arc<ToolMetrics>>>,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

/// The metrics cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum MetricsError {
    /// What is true at a moment is in the store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// They cannot be written as text.
    #[error(transparent)]
    Text(#[from] fmt::Error),
}

/// What is counted of one tool.
struct ToolMetrics {
    created: Counter,
    succeeded: Counter,
    failed: Counter,
    cancelled: Counter,
    task_seconds: Histogram,
    queue_seconds: Histogram,
    /// For the mean, which a histogram does not tell.
    total_seconds: Counter<f64, AtomicU64>,
    /// By [`AttemptOutcome`].
    attempts: [Counter; AttemptOutcome::ALL.len()],
    recent: Mutex<RecentEnds>,
}

/// A kind of write that is acknowledged after its commit.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Write {
    Create,
    Change,
}

/// What has become of a tool's tasks and calls since the start of the process.
#[derive(Default)]
pub(crate) struct ToolTotals {
    pub(crate) succeeded: u64,
    pub(crate) failed: u64,
    pub(crate) cancelled: u64,
    pub(crate) mean_seconds: Option<f64>,
    pub(crate) recent: Recent,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::of_labels(BTreeSet::new())
    }
}

impl Metrics {
    /// Also counts what has ended by the values of these labels.
    pub fn of_labels(labels: BTreeSet<String>) -> Self {
        let mut registry = Registry::with_prefix("longhaul");
        let all = &mut registry;
        let writes: Family<OfWrite, Histogram, fn() -> Histogram> = Family::new_with_constructor(write_seconds);
        let write = |write| writes.get_or_create(&OfWrite { write }).clone();
        let this = Self {
            store: StoreMetrics::register(all),
            created: add(all, "tasks_created", "Tasks and plain calls that were created"),
            by_label: EndsByLabel::new(labels),
            ended: add(all, "tasks_ended", "Tasks and plain calls that have ended"),
            attempts: add(all, "attempts_ended", "Attempts that have ended, and how"),
            over_quota: add(all, "quota_refusals", "Calls that were refused because of a quota"),
            failed_writes: add(
                all,
                "failed_writes",
                "Writes that the store has refused or that have failed, as on a full disk",
            ),
            moment: SnapshotMetrics::register(all),
            task_seconds: Family::new_with_constructor(task_seconds),
            queue_seconds: Family::new_with_constructor(queue_seconds),
            writes: [write("create"), write("change")],
            full_writes: AtomicU64::default(),
            unusable: Mutex::default(),
            wrote_since: AtomicBool::default(),
            encoding: Mutex::default(),
            tools: RwLock::default(),
            registry: Registry::default(),
        };
        all.register(
            "labelled_tasks_ended",
            "Tasks and plain calls that have ended, by the labels that metrics_labels names",
            this.by_label.ended.clone(),
        );
        all.register_with_unit(
            "task_duration",
            "From the creation of a task to its end",
            Unit::Seconds,
            this.task_seconds.clone(),
        );
        all.register_with_unit(
            "queue_wait",
            "From when a task was ready to when it was claimed",
            Unit::Seconds,
            this.queue_seconds.clone(),
        );
        all.register_with_unit(
            "store_write",
            "Writes that are acknowledged after their commit",
            Unit::Seconds,
            writes,
        );
        Self { registry, ..this }
    }
}

/// Registers a metric.
fn add<M: Metric + Clone + Default>(all: &mut Registry, name: &str, help: &str) -> M {
    let metric = M::default();
    all.register(name, help, metric.clone());
    metric
}

fn task_seconds() -> Histogram {
    Histogram::new(TASK_SECONDS)
}

fn queue_seconds() -> Histogram {
    Histogram::new(QUEUE_SECONDS)
}

fn write_seconds() -> Histogram {
    Histogram::new(WRITE_SECONDS)
}

impl Metrics {
    /// What is counted of a tool. Taken from the families once, because looking it up there costs allocations.
    fn of_tool(&self, tool: &Arc<str>) -> Arc<ToolMetrics> {
        if let Some(known) = self.tools.read().get(tool) {
            return Arc::clone(known);
        }
        let label = of_tool(tool);
        let ended = |outcome| {
            let tool = tool.to_string();
            self.ended.get_or_create(&OfToolAndOutcome { tool, outcome }).clone()
        };
        let new = Arc::new(ToolMetrics {
            created: self.created.get_or_create(&label).clone(),
            succeeded: ended(state_word(State::Done(Verdict::Succeeded))),
            failed: ended(state_word(State::Done(Verdict::RpcError))),
            cancelled: ended(state_word(State::Done(Verdict::Cancelled))),
            task_seconds: self.task_seconds.get_or_create(&label).clone(),
            queue_seconds: self.queue_seconds.get_or_create(&label).clone(),
            total_seconds: Counter::default(),
            recent: Mutex::default(),
            attempts: AttemptOutcome::ALL.map(|outcome| {
                let (tool, outcome) = (tool.to_string(), outcome.as_str());
                self.attempts.get_or_create(&OfToolAndOutcome { tool, outcome }).clone()
            }),
        });
        Arc::clone(self.tools.write().entry(Arc::clone(tool)).or_insert(new))
    }

    /// What is counted of the tool is shown from now on, as 0 if nothing has happened: else Prometheus would not see that the first failure is one more.
    pub(crate) fn offered(&self, tool: &Arc<str>) {
        self.of_tool(tool);
    }

    pub(crate) fn created(&self, task: &Task) {
        let of_tool = self.of_tool(&task.tool);
        of_tool.created.inc();
        if task.state == State::Running {
            // It was claimed as it was created.
            of_tool.queue_seconds.observe(0.0);
        }
    }

    pub(crate) fn claimed(&self, task: &Task, at: UnixMillis) {
        let waited = seconds(at.since(task.ready_at));
        self.of_tool(&task.tool).queue_seconds.observe(waited);
    }

    pub(crate) fn attempt_ended(&self, tool: &Arc<str>, end: AttemptOutcome) {
        self.of_tool(tool).attempts[end as usize].inc();
    }

    /// An attempt of the tool has failed, or finished with an error.
    pub(crate) fn attempt_failed(&self, tool: &Arc<str>) {
        self.of_tool(tool).recent.lock().attempt_failed();
    }

    pub(crate) fn task_ended(&self, task: &Task) {
        let of_tool = self.of_tool(&task.tool);
        match task.state {
            State::Done(Verdict::Succeeded) => of_tool.succeeded.inc(),
            State::Done(Verdict::Cancelled) => of_tool.cancelled.inc(),
            _ => of_tool.failed.inc(),
        };
        self.by_label.task_ended(task);
        if let Some(ended_at) = task.ended_at {
            of_tool.recent.lock().ended(task, ended_at);
            let took = seconds(ended_at.since(task.created_at));
            of_tool.task_seconds.observe(took);
            of_tool.total_seconds.inc_by(took);
        }
    }

    pub(crate) fn over_quota(&self) {
        self.over_quota.inc();
    }

    /// Counts a write: how long it took if it was made, else why not.
    pub(crate) fn wrote(&self, write: Write, took: Duration, failed: Option<&StoreError>) {
        match failed {
            None => {
                self.writes[write as usize].observe(took.as_secs_f64());
                self.wrote_since.store(true, Ordering::Relaxed);
            }
            Some(error) => {
                self.failed_writes.inc();
                match error {
                    StoreError::Full => drop(self.full_writes.fetch_add(1, Ordering::Relaxed)),
                    StoreError::Unusable(why) => *self.unusable.lock() = Some(why),
                    _ => return,
                }
                self.wrote_since.store(false, Ordering::Relaxed);
            }
        }
    }

    /// Why the store could not make a write as it is, if one has failed so since this was last asked.
    pub(crate) fn take_unusable(&self) -> Option<&'static str> {
        self.unusable.lock().take()
    }

    /// Whether a write was made since the last one that failed because the disk is full, or because the store could not make it as it is.
    pub(crate) fn wrote_since(&self) -> bool {
        self.wrote_since.load(Ordering::Relaxed)
    }

    /// How many writes have failed because the disk is full.
    pub(crate) fn full_writes(&self) -> u64 {
        self.full_writes.load(Ordering::Relaxed)
    }

    pub(crate) fn totals(&self, tool: &str, now: UnixMillis) -> ToolTotals {
        let of_tool = self.tools.read().get(tool).cloned();
        let Some(of_tool) = of_tool else {
            return ToolTotals::default();
        };
        let [succeeded, failed, cancelled] =
            [&of_tool.succeeded, &of_tool.failed, &of_tool.cancelled].map(|counter| counter.get());
        let all = succeeded + failed + cancelled;
        ToolTotals {
            succeeded,
            failed,
            cancelled,
            recent: of_tool.recent.lock().read(now),
            mean_seconds: (all > 0).then(|| of_tool.total_seconds.get() / all as f64),
        }
    }

    /// As OpenMetrics text.
    pub(crate) fn encode(&self, observed: &MetricsSnapshot<'_>) -> Result<String, fmt::Error> {
        let _encoding = self.encoding.lock();
        self.moment.set(observed);
        self.store
            .set(&observed.health, observed.lease_age, observed.present.deletion_backlog);
        let mut text = String::new();
        text::encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

fn of_tool(tool: &str) -> OfTool {
    OfTool { tool: tool.to_owned() }
}

fn seconds(millis: u64) -> f64 {
    Duration::from_millis(millis).as_secs_f64()
}
