//! What Prometheus reads of the store that several servers share, and of what waits to be deleted.

use longhaul_core::{
    Millis,
    store::{EventDelivery, StoreHealth},
};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::{Registry, Unit},
};
use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfPool {
    pool: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct NoLabel {}

/// A family has no line before it has a value: a server that is alone has none of these but the backlog.
type Single<M> = Family<NoLabel, M>;

/// What is read when Prometheus asks.
pub(crate) struct StoreMetrics {
    lease_age: Single<Gauge<f64, AtomicU64>>,
    events_sent: Single<Counter>,
    events_heard: Single<Counter>,
    silent: Single<Gauge>,
    backlog: Gauge,
    pool_waiting: Family<OfPool, Gauge>,
    pool_requests: Family<OfPool, Counter>,
    pool_wait: Family<OfPool, Counter<f64, AtomicU64>>,
}

impl StoreMetrics {
    pub(crate) fn register(all: &mut Registry) -> Self {
        let this = Self {
            lease_age: Family::default(),
            events_sent: Family::default(),
            events_heard: Family::default(),
            silent: Family::default(),
            backlog: Gauge::default(),
            pool_waiting: Family::default(),
            pool_requests: Family::default(),
            pool_wait: Family::default(),
        };
        all.register_with_unit(
            "lease_age",
            "Since when this server has not renewed its lease",
            Unit::Seconds,
            this.lease_age.clone(),
        );
        all.register(
            "events_sent",
            "Notifications that this server has sent to others",
            this.events_sent.clone(),
        );
        all.register(
            "events_heard",
            "Notifications of other servers that were heard",
            this.events_heard.clone(),
        );
        all.register(
            "silent_nodes",
            "Servers that live and whose events are not heard here, with this one if it does not hear its own",
            this.silent.clone(),
        );
        all.register(
            "deletion_backlog",
            "Ended tasks whose retention is over and that are not deleted yet, 1000 at most",
            this.backlog.clone(),
        );
        all.register(
            "pool_waiting",
            "Callers that wait for a connection to the database",
            this.pool_waiting.clone(),
        );
        all.register(
            "pool_requests",
            "How often a connection to the database was asked for",
            this.pool_requests.clone(),
        );
        all.register_with_unit(
            "pool_wait",
            "For how long callers have waited for a connection, all together",
            Unit::Seconds,
            this.pool_wait.clone(),
        );
        this
    }

    /// `lease_age` is that of a server that has a lease.
    pub(crate) fn set(&self, health: &StoreHealth, lease_age: Option<Millis>, backlog: usize) {
        self.backlog.set(gauge(backlog));
        let Some(lease_age) = lease_age else { return };
        self.lease_age
            .get_or_create(&NoLabel {})
            .set(Duration::from_millis(lease_age).as_secs_f64());
        let count =
            |counter: &Single<Counter>, to| counter.get_or_create(&NoLabel {}).inner().store(to, Ordering::Relaxed);
        count(&self.events_sent, health.sent);
        count(&self.events_heard, health.heard);
        let is_deaf = health.delivery == EventDelivery::Lost;
        self.silent
            .get_or_create(&NoLabel {})
            .set(gauge(health.silent.len() + usize::from(is_deaf)));
        for pool in &health.pools {
            let label = OfPool { pool: pool.name };
            self.pool_waiting.get_or_create(&label).set(gauge(pool.waiting));
            let requests = self.pool_requests.get_or_create(&label);
            requests.inner().store(pool.asked, Ordering::Relaxed);
            let waited = self.pool_wait.get_or_create(&label);
            waited
                .inner()
                .store(pool.waited.as_secs_f64().to_bits(), Ordering::Relaxed);
        }
    }
}

fn gauge(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
