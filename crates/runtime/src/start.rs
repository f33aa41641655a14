//! Starting an engine: a new node, the tasks of earlier ones, and what runs in the background from then on.

use crate::{
    attempt::{Recovered, recovery, remote_files, scheduler, timers},
    call::{retention, schedules},
    engine::{Engine, EngineOptions, Inner, changed_code},
    nodes::{lease, permits, resync},
    operator,
    ports::engine_clock::EngineClock,
};
use longhaul_core::{Clock, store::StoreError};
use std::{sync::Arc, time::Duration};
use tracing::warn;

/// Between two comparisons with the system's clock.
const LOOK_EVERY: Duration = Duration::from_secs(3);

/// An engine cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Two servers have one host id: then each would take the commands of the other for its own.
    #[error(
        "another server with the host id `{host}` is running: {by}. If the data directory of this server is a copy of that one's, delete the file `host` and the \
         folder `attempts` in the copy: it gets an id of its own. If not, stop the other server first"
    )]
    HostInUse {
        /// The id.
        host: String,
        /// The other server, as far as it is known.
        by: String,
    },
}

impl Engine {
    /// Registers this process as a new node, recovers the tasks of earlier ones, and begins to work.
    ///
    /// # Errors
    /// [`StartError`] if the store fails; nothing runs then.
    pub async fn start(mut options: EngineOptions) -> Result<(Self, Recovered), StartError> {
        let store = Arc::clone(&options.store);
        let limits = store.limits().await?;
        for tool in options.catalog.snapshot().tools.values() {
            store.put_spec(tool.spec().clone()).await?;
            let (concurrency, per_group) = tool.limits();
            store.put_limit(tool.name(), concurrency, per_group).await?;
        }
        let engine_clock = EngineClock::begin(Arc::clone(&options.ports.clock), store.newest_created_at().await?);
        let engine_clock = Arc::new(engine_clock);
        options.ports.clock = engine_clock.clone();
        let lease = lease::open_node(&*store, &options.node, &engine_clock).await;
        let lease = lease.map_err(|error| match error {
            StoreError::HostInUse { by, .. } => StartError::HostInUse {
                host: options.node.host.0.to_string(),
                by,
            },
            error => error.into(),
        })?;
        let inner = Inner::new(options, lease.node, Arc::clone(&engine_clock), limits);
        operator::forget_cordons(&inner).await;
        operator::read_paused(&inner).await?;
        let many_nodes = inner.node.store.capabilities().many_nodes;
        if many_nodes {
            inner.node.spawn(Arc::clone(&inner.node).send_messages());
            inner.node.spawn(remote_files::answer_others(Arc::clone(&inner)));
        }
        let runs_tasks = inner.node.runs_tasks();
        if many_nodes && runs_tasks {
            inner.node.slots.require_permits();
            inner.node.spawn(permits::run(Arc::clone(&inner)));
        }
        let engine = Self(Arc::clone(&inner));
        // First of all: recovery may take longer than the lease lasts.
        if let Some(length) = lease.length {
            *inner.lease_renewed.lock() = Some(inner.clock.monotonic());
            inner.node.spawn(lease::renew_periodically(Arc::clone(&inner), length));
        }
        let recovered = match recovery::recover(&inner).await {
            Ok(recovered) => recovered,
            Err(error) => {
                // Some attempts may have been adopted already.
                engine.end().await;
                return Err(error.into());
            }
        };
        if runs_tasks {
            inner.node.spawn(scheduler::run(Arc::clone(&inner)));
        }
        inner
            .node
            .spawn(resync::run(Arc::clone(&inner), lease.length.is_none()));
        inner.node.spawn(recovery::run(Arc::clone(&inner)));
        inner.node.spawn(timers::run(Arc::clone(&inner.node)));
        inner.node.spawn(retention::run(Arc::clone(&inner)));
        inner.node.spawn(schedules::run(Arc::clone(&inner)));
        inner.node.spawn(follow_clock(Arc::clone(&inner)));
        inner
            .node
            .spawn(changed_code::try_changed_code(Arc::clone(&inner), None));
        let node = Arc::clone(&inner.node);
        inner
            .node
            .spawn(async move { node.waiting_attempts.run(&*node.ports.clock).await });
        Ok((engine, recovered))
    }
}

/// Wakes suspended tasks whenever the system's clock was set: some wait for a date.
async fn follow_clock(inner: Arc<Inner>) {
    let node = &inner.node;
    loop {
        inner.clock.sleep(LOOK_EVERY).await;
        if let Some(millis) = inner.clock.step() {
            let span = longhaul_core::approximate_duration(millis.unsigned_abs());
            let way = if millis < 0 { "back" } else { "forward" };
            warn!("the system's clock was set {way} by {span}; timers go on as they were");
            inner.schedules.wake();
            let wake = || async { Ok(node.store.make_timers_due(node.now()).await?) };
            if node.retry_store("waking suspended tasks", wake).await.is_ok() {
                node.alarm.set(node.now());
            }
        }
    }
}
