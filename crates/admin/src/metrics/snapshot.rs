//! What is read when Prometheus asks: what is true at a moment, and what was counted elsewhere.

use super::{OfTool, add, of_tool, seconds};
use crate::{
    upstream_source::{UpstreamReport, UpstreamState},
    words::state_word,
};
use longhaul_core::{
    Millis, State, UnixMillis, Usage,
    store::{CommitCounts, LiveTasks, NodeRole, NodeStatus, ScheduleRecord, StoreHealth},
};
use longhaul_runtime::SlotUse;
use longhaul_server::{Limit, ProtocolServer};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::{Registry, Unit},
};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfToolAndState {
    tool: String,
    state: &'static str,
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
struct OfSchedule {
    schedule: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfLimit {
    limit: &'static str,
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
    pub(crate) schedules: Vec<ScheduleRecord>,
}

/// What may begin of a tool.
pub(crate) struct OfferedTool {
    pub(crate) name: Arc<str>,
    pub(crate) concurrency: Option<usize>,
    pub(crate) is_paused: bool,
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

/// The metrics that are set when Prometheus asks.
pub(super) struct SnapshotMetrics {
    live: Family<OfToolAndState, Gauge>,
    asking: Family<OfTool, Gauge>,
    running_attempts: Gauge,
    nodes: Family<OfNode, Gauge>,
    taken_slots: Gauge,
    max_running: Gauge,
    concurrency: Family<OfTool, Gauge>,
    paused: Family<OfTool, Gauge>,
    schedule_starts: Family<OfSchedule, Counter>,
    schedule_skips: Family<OfSchedule, Counter>,
    schedule_misses: Family<OfSchedule, Counter>,
    schedule_paused: Family<OfSchedule, Gauge>,
    upstream_waiting: Family<OfUpstream, Gauge>,
    upstream_up: Family<OfUpstream, Gauge>,
    open_connections: Gauge,
    open_streams: Gauge,
    limit_refusals: Family<OfLimit, Counter>,
    lost_audit_lines: Counter,
    store_commits: Counter,
    committed_changes: Counter,
    queue_age: Family<OfTool, Gauge<f64, AtomicU64>>,
    stored_bytes: Gauge,
}

impl SnapshotMetrics {
    pub(super) fn register(all: &mut Registry) -> Self {
        let this = Self {
            live: add(all, "tasks", "Live tasks and plain calls"),
            asking: add(all, "tasks_asking", "Live tasks with an open question"),
            running_attempts: add(all, "running_attempts", "Attempts that this process works on"),
            nodes: add(
                all,
                "nodes",
                "Servers of the store by role, alive and dead with attempts",
            ),
            taken_slots: add(all, "taken_slots", "Slots that attempts have"),
            max_running: add(all, "max_running", "How many slots there are; 0 for no limit"),
            concurrency: add(
                all,
                "tool_concurrency",
                "How many tasks of a tool may run at once, if that is limited",
            ),
            paused: add(
                all,
                "tool_paused",
                "Whether an operator has paused a tool, or its upstream: 1 or 0",
            ),
            schedule_starts: add(all, "schedule_starts", "Tasks that a schedule has started"),
            schedule_skips: add(
                all,
                "schedule_skips",
                "Times of a schedule without a start: its last task was live, or it was paused",
            ),
            schedule_misses: add(
                all,
                "schedule_misses",
                "Times of a schedule that passed while no server could start it",
            ),
            schedule_paused: add(all, "schedule_paused", "Whether a schedule is paused: 1 or 0"),
            upstream_waiting: add(
                all,
                "upstream_waiting_calls",
                "Calls that are not sent yet, because as many as may do run at the upstream",
            ),
            upstream_up: add(all, "upstream_up", "Whether an upstream of the gateway answers: 1 or 0"),
            open_connections: add(all, "open_connections", "HTTP connections of clients"),
            open_streams: add(
                all,
                "open_streams",
                "Long-lived streams of clients: GET streams, subscriptions, and waits for results",
            ),
            limit_refusals: add(
                all,
                "limit_refusals",
                "Requests, connections and streams that were refused by a limit",
            ),
            lost_audit_lines: add(
                all,
                "lost_audit_lines",
                "Lines of the audit log that could not be written",
            ),
            store_commits: add(all, "store_commits", "Transactions that the store has committed"),
            committed_changes: add(
                all,
                "store_committed_changes",
                "Changes in those transactions; divided by them, the size of a batch",
            ),
            queue_age: Family::default(),
            stored_bytes: Gauge::default(),
        };
        all.register_with_unit(
            "queue_age",
            "For how long the first queued task of a tool has been ready",
            Unit::Seconds,
            this.queue_age.clone(),
        );
        all.register_with_unit(
            "stored",
            "Payloads of tasks in the store",
            Unit::Bytes,
            this.stored_bytes.clone(),
        );
        this
    }

    /// Two callers at once would clear what the other one has set.
    pub(super) fn set(&self, observed: &MetricsSnapshot<'_>) {
        self.set_tasks(observed.present);
        self.set_nodes(&observed.present.nodes);
        self.set_tools(&observed.tools);
        self.set_upstreams(observed.upstreams);
        self.set_schedules(&observed.schedules);
        if let Some(protocol) = observed.protocol {
            self.set_clients(protocol);
        }
        self.taken_slots.set(gauge(observed.slots.taken));
        self.max_running.set(gauge(observed.slots.limit.unwrap_or(0)));
        set(&self.lost_audit_lines, observed.lost_audit_lines);
        set(&self.store_commits, observed.commits.commits);
        set(&self.committed_changes, observed.commits.changes);
    }

    fn set_tasks(&self, present: &Present) {
        self.live.clear();
        self.asking.clear();
        self.queue_age.clear();
        for group in &present.live {
            let (tool, state) = (group.tool.to_string(), state_word(group.state));
            let count = gauge(group.count);
            self.live.get_or_create(&OfToolAndState { tool, state }).set(count);
            let asking = gauge(group.asking);
            self.asking.get_or_create(&of_tool(&group.tool)).inc_by(asking);
            if let Some(age) = queue_age(group, present.now) {
                self.queue_age.get_or_create(&of_tool(&group.tool)).set(seconds(age));
            }
        }
        self.stored_bytes.set(gauge(present.usage.bytes));
        self.running_attempts.set(gauge(present.running_attempts));
    }

    fn set_nodes(&self, nodes: &[NodeStatus]) {
        self.nodes.clear();
        for role in [NodeRole::Both, NodeRole::Front, NodeRole::Worker] {
            for (state, lives) in [("alive", true), ("dead", false)] {
                let is_such = |node: &&NodeStatus| node.role == role && node.lease.is_live() == lives;
                let count = nodes.iter().filter(is_such).count();
                let label = OfNode {
                    role: role.word(),
                    state,
                };
                self.nodes.get_or_create(&label).set(gauge(count));
            }
        }
    }

    fn set_tools(&self, tools: &[OfferedTool]) {
        self.concurrency.clear();
        self.paused.clear();
        for tool in tools {
            let label = of_tool(&tool.name);
            self.paused.get_or_create(&label).set(i64::from(tool.is_paused));
            if let Some(limit) = tool.concurrency {
                self.concurrency.get_or_create(&label).set(gauge(limit));
            }
        }
    }

    fn set_upstreams(&self, upstreams: &[UpstreamReport]) {
        self.upstream_up.clear();
        self.upstream_waiting.clear();
        for UpstreamReport {
            name, state, waiting, ..
        } in upstreams
        {
            let of_it = OfUpstream { upstream: name.clone() };
            let is_up = i64::from(*state == UpstreamState::Up);
            self.upstream_up.get_or_create(&of_it).set(is_up);
            self.upstream_waiting.get_or_create(&of_it).set(gauge(*waiting));
        }
    }

    fn set_schedules(&self, schedules: &[ScheduleRecord]) {
        let counters = [&self.schedule_starts, &self.schedule_skips, &self.schedule_misses];
        counters.iter().for_each(|counter| counter.clear());
        self.schedule_paused.clear();
        for ScheduleRecord {
            name, counts, paused, ..
        } in schedules
        {
            let of_it = OfSchedule {
                schedule: name.to_string(),
            };
            for (counter, count) in counters.iter().zip([counts.started, counts.skipped, counts.missed]) {
                set(&counter.get_or_create(&of_it), count);
            }
            self.schedule_paused.get_or_create(&of_it).set(i64::from(*paused));
        }
    }

    fn set_clients(&self, protocol: &ProtocolServer) {
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
}

/// Sets a counter to what was counted elsewhere.
fn set(counter: &Counter, to: u64) {
    counter.inner().store(to, Ordering::Relaxed);
}

/// For how long the first of a tool's queued tasks has been ready, in milliseconds.
pub(crate) fn queue_age(group: &LiveTasks, now: UnixMillis) -> Option<u64> {
    (group.state == State::Queued).then(|| now.since(group.ready_at))
}

fn gauge<N: TryInto<i64>>(count: N) -> i64 {
    count.try_into().unwrap_or(i64::MAX)
}
