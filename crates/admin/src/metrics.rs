//! What Prometheus reads.

use crate::{
    recent_ends::{Recent, RecentEnds},
    store_metrics::StoreMetrics,
    upstream_source::{UpstreamReport, UpstreamState},
    words::state_word,
};
use longhaul_core::{
    AttemptOutcome, Millis, State, Task, UnixMillis, Usage, Verdict,
    store::{CommitCounts, LiveTasks, NodeRole, NodeStatus, StoreError, StoreHealth},
};
use longhaul_runtime::SlotUse;
use longhaul_server::{Limit, ProtocolServer};
use parking_lot::{Mutex, RwLock};
use prometheus_client::{
    encoding::{EncodeLabelSet, text},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::{Registry, Unit},
};
use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

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
struct OfToolAndState {
    tool: String,
    state: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfToolAndOutcome {
    tool: String,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfNode {
    role: &'static str,
    state: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfUpstream {
    upstream: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfLimit {
    limit: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfWrite {
    write: &'static str,
}

/// Counts what becomes of tasks since the start of the process. Everything that is true at a moment is read when Prometheus asks.
pub struct Metrics {
    registry: Registry,
    store: StoreMetrics,
    created: Family<OfTool, Counter>,
    ended: Family<OfToolAndOutcome, Counter>,
    attempts: Family<OfToolAndOutcome, Counter>,
    over_quota: Counter,
    task_seconds: Family<OfTool, Histogram, fn() -> Histogram>,
    queue_seconds: Family<OfTool, Histogram, fn() -> Histogram>,
    live: Family<OfToolAndState, Gauge>,
    asking: Family<OfTool, Gauge>,
    queue_age: Family<OfTool, Gauge<f64, AtomicU64>>,
    stored_bytes: Gauge,
    running_attempts: Gauge,
    nodes: Family<OfNode, Gauge>,
    taken_slots: Gauge,
    max_running: Gauge,
    concurrency: Family<OfTool, Gauge>,
    paused: Family<OfTool, Gauge>,
    upstream_up: Family<OfUpstream, Gauge>,
    upstream_waiting: Family<OfUpstream, Gauge>,
    open_connections: Gauge,
    open_streams: Gauge,
    limit_refusals: Family<OfLimit, Counter>,
    store_commits: Counter,
    committed_changes: Counter,
    /// By [`Write`].
    writes: [Histogram; 2],
    failed_writes: Counter,
    lost_audit_lines: Counter,
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

/// What is read when Prometheus asks.
pub(crate) struct MetricsSnapshot<'a> {
    pub(crate) present: &'a Present,
    pub(crate) commits: CommitCounts,
    pub(crate) health: StoreHealth,
    /// For how long the server has not renewed its lease, if it has one.
    pub(crate) lease_age: Option<Millis>,
    pub(crate) protocol: Option<&'a ProtocolServer>,
    pub(crate) lost_audit_lines: u64,
    pub(crate) upstreams: &'a [UpstreamReport],
    pub(crate) slots: SlotUse,
    pub(crate) tools: Vec<OfferedTool>,
}

/// What may begin of a tool.
pub(crate) struct OfferedTool {
    pub(crate) name: Arc<str>,
    pub(crate) concurrency: Option<usize>,
    pub(crate) is_paused: bool,
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

/// What the server is at a moment.
pub(crate) struct Present {
    pub(crate) live: Vec<LiveTasks>,
    pub(crate) usage: Usage,
    pub(crate) running_attempts: usize,
    pub(crate) nodes: Vec<NodeStatus>,
    /// Ended tasks that are not deleted yet, as far as they were counted.
    pub(crate) deletion_backlog: usize,
    pub(crate) now: UnixMillis,
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
        let mut registry = Registry::with_prefix("longhaul");
        let mut this = Self {
            store: StoreMetrics::register(&mut registry),
            registry,
            created: Family::default(),
            ended: Family::default(),
            attempts: Family::default(),
            over_quota: Counter::default(),
            task_seconds: Family::new_with_constructor(task_seconds),
            queue_seconds: Family::new_with_constructor(queue_seconds),
            live: Family::default(),
            asking: Family::default(),
            queue_age: Family::default(),
            stored_bytes: Gauge::default(),
            running_attempts: Gauge::default(),
            nodes: Family::default(),
            taken_slots: Gauge::default(),
            max_running: Gauge::default(),
            concurrency: Family::default(),
            paused: Family::default(),
            upstream_up: Family::default(),
            upstream_waiting: Family::default(),
            open_connections: Gauge::default(),
            open_streams: Gauge::default(),
            limit_refusals: Family::default(),
            store_commits: Counter::default(),
            committed_changes: Counter::default(),
            writes: [write_seconds(), write_seconds()],
            failed_writes: Counter::default(),
            lost_audit_lines: Counter::default(),
            full_writes: AtomicU64::default(),
            unusable: Mutex::default(),
            wrote_since: AtomicBool::default(),
            encoding: Mutex::default(),
            tools: RwLock::default(),
        };
        this.register();
        this
    }
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
    fn register(&mut self) {
        let all = &mut self.registry;
        all.register(
            "tasks_created",
            "Tasks and plain calls that were created",
            self.created.clone(),
        );
        all.register(
            "tasks_ended",
            "Tasks and plain calls that have ended",
            self.ended.clone(),
        );
        all.register(
            "attempts_ended",
            "Attempts that have ended, and how",
            self.attempts.clone(),
        );
        all.register(
            "quota_refusals",
            "Calls that were refused because of a quota",
            self.over_quota.clone(),
        );
        all.register(
            "failed_writes",
            "Writes that the store has refused or that have failed, as on a full disk",
            self.failed_writes.clone(),
        );
        all.register("tasks", "Live tasks and plain calls", self.live.clone());
        all.register("tasks_asking", "Live tasks with an open question", self.asking.clone());
        all.register(
            "running_attempts",
            "Attempts that this process works on",
            self.running_attempts.clone(),
        );
        all.register(
            "nodes",
            "Servers of the store by role, alive and dead with attempts",
            self.nodes.clone(),
        );
        all.register("taken_slots", "Slots that attempts have", self.taken_slots.clone());
        all.register(
            "max_running",
            "How many slots there are; 0 for no limit",
            self.max_running.clone(),
        );
        all.register(
            "tool_concurrency",
            "How many tasks of a tool may run at once, if that is limited",
            self.concurrency.clone(),
        );
        all.register(
            "tool_paused",
            "Whether an operator has paused a tool, or its upstream: 1 or 0",
            self.paused.clone(),
        );
        all.register(
            "upstream_waiting_calls",
            "Calls that are not sent yet, because as many as may do run at the upstream",
            self.upstream_waiting.clone(),
        );
        all.register(
            "upstream_up",
            "Whether an upstream of the gateway answers: 1 or 0",
            self.upstream_up.clone(),
        );
        all.register(
            "open_connections",
            "HTTP connections of clients",
            self.open_connections.clone(),
        );
        all.register(
            "open_streams",
            "Long-lived streams of clients: GET streams, subscriptions, and waits for results",
            self.open_streams.clone(),
        );
        all.register(
            "limit_refusals",
            "Requests, connections and streams that were refused by a limit",
            self.limit_refusals.clone(),
        );
        all.register(
            "lost_audit_lines",
            "Lines of the audit log that could not be written",
            self.lost_audit_lines.clone(),
        );
        all.register(
            "store_commits",
            "Transactions that the store has committed",
            self.store_commits.clone(),
        );
        all.register(
            "store_committed_changes",
            "Changes in those transactions; divided by them, the size of a batch",
            self.committed_changes.clone(),
        );
        let (seconds, bytes) = (Unit::Seconds, Unit::Bytes);
        all.register_with_unit(
            "task_duration",
            "From the creation of a task to its end",
            seconds.clone(),
            self.task_seconds.clone(),
        );
        all.register_with_unit(
            "queue_wait",
            "From when a task was ready to when it was claimed",
            seconds.clone(),
            self.queue_seconds.clone(),
        );
        let writes: Family<OfWrite, Histogram, fn() -> Histogram> = Family::new_with_constructor(write_seconds);
        let write = |write| writes.get_or_create(&OfWrite { write }).clone();
        self.writes = [write("create"), write("change")];
        all.register_with_unit(
            "store_write",
            "Writes that are acknowledged after their commit",
            seconds.clone(),
            writes,
        );
        all.register_with_unit(
            "queue_age",
            "For how long the first queued task of a tool has been ready",
            seconds,
            self.queue_age.clone(),
        );
        all.register_with_unit(
            "stored",
            "Payloads of tasks in the store",
            bytes,
            self.stored_bytes.clone(),
        );
    }

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
        let present = observed.present;
        self.live.clear();
        self.asking.clear();
        self.queue_age.clear();
        for group in &present.live {
            let (tool, state) = (group.tool.to_string(), state_word(group.state));
            let count = i64::try_from(group.count).unwrap_or(i64::MAX);
            self.live.get_or_create(&OfToolAndState { tool, state }).set(count);
            let asking = i64::try_from(group.asking).unwrap_or(i64::MAX);
            self.asking.get_or_create(&of_tool(&group.tool)).inc_by(asking);
            if let Some(age) = queue_age(group, present.now) {
                self.queue_age.get_or_create(&of_tool(&group.tool)).set(seconds(age));
            }
        }
        self.stored_bytes
            .set(i64::try_from(present.usage.bytes).unwrap_or(i64::MAX));
        self.running_attempts
            .set(i64::try_from(present.running_attempts).unwrap_or(i64::MAX));
        self.nodes.clear();
        for role in [NodeRole::Both, NodeRole::Front, NodeRole::Worker] {
            for (state, lives) in [("alive", true), ("dead", false)] {
                let is_such = |node: &&NodeStatus| node.role == role && node.lease.is_live() == lives;
                let count = present.nodes.iter().filter(is_such).count();
                let label = OfNode {
                    role: role.word(),
                    state,
                };
                self.nodes
                    .get_or_create(&label)
                    .set(i64::try_from(count).unwrap_or(i64::MAX));
            }
        }
        let gauge = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        self.taken_slots.set(gauge(observed.slots.taken));
        self.max_running.set(gauge(observed.slots.limit.unwrap_or(0)));
        self.concurrency.clear();
        self.paused.clear();
        for tool in &observed.tools {
            let label = of_tool(&tool.name);
            self.paused.get_or_create(&label).set(i64::from(tool.is_paused));
            if let Some(limit) = tool.concurrency {
                self.concurrency.get_or_create(&label).set(gauge(limit));
            }
        }
        self.upstream_up.clear();
        self.upstream_waiting.clear();
        for UpstreamReport {
            name, state, waiting, ..
        } in observed.upstreams
        {
            let of_it = OfUpstream { upstream: name.clone() };
            let is_up = i64::from(*state == UpstreamState::Up);
            self.upstream_up.get_or_create(&of_it).set(is_up);
            self.upstream_waiting.get_or_create(&of_it).set(gauge(*waiting));
        }
        if let Some(protocol) = observed.protocol {
            let (connections, streams) = protocol.open();
            self.open_connections.set(gauge(connections));
            self.open_streams.set(gauge(streams));
            for limit in Limit::ALL {
                let of_limit = OfLimit { limit: limit.as_str() };
                set(
                    &self.limit_refusals.get_or_create(&of_limit),
                    protocol.refusals().of(limit),
                );
            }
        }
        self.store
            .set(&observed.health, observed.lease_age, present.deletion_backlog);
        set(&self.lost_audit_lines, observed.lost_audit_lines);
        set(&self.store_commits, observed.commits.commits);
        set(&self.committed_changes, observed.commits.changes);
        let mut text = String::new();
        text::encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

/// Sets a counter to what was counted elsewhere.
fn set(counter: &Counter, to: u64) {
    counter.inner().store(to, Ordering::Relaxed);
}

/// For how long the first of a tool's queued tasks has been ready, in milliseconds.
pub(crate) fn queue_age(group: &LiveTasks, now: UnixMillis) -> Option<u64> {
    (group.state == State::Queued).then(|| now.since(group.ready_at))
}

fn of_tool(tool: &str) -> OfTool {
    OfTool { tool: tool.to_owned() }
}

fn seconds(millis: u64) -> f64 {
    Duration::from_millis(millis).as_secs_f64()
}
