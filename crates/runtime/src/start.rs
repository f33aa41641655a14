//! Starting an engine: a new node, the tasks of earlier ones, and what runs in the background from then on.

use crate::{
    blocked, dispatch,
    engine::{Engine, EngineOptions, Inner},
    engine_clock::EngineClock,
    node::Node,
    recovery::{self, Recovered},
    retention, timers,
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
            store
                .put_limit(&tool.settings().name, tool.settings().concurrency)
                .await?;
        }
        let engine_clock = EngineClock::begin(Arc::clone(&options.ports.clock), store.newest().await?);
        let engine_clock = Arc::new(engine_clock);
        options.ports.clock = engine_clock.clone();
        let node = store.open_node(&options.host, engine_clock.now()).await?;
        let inner = Inner::new(options, node, limits);
        let engine = Self(Arc::clone(&inner));
        let recovered = recovery::recover(&inner).await.inspect_err(|_| {
            // Some attempts may have been adopted already.
            engine.stop();
        })?;
        inner.node.spawn(dispatch::run(Arc::clone(&inner)));
        inner.node.spawn(timers::run(Arc::clone(&inner.node)));
        inner.node.spawn(retention::run(Arc::clone(&inner)));
        inner.node.spawn(follow_clock(Arc::clone(&inner.node), engine_clock));
        inner.node.spawn(blocked::try_changed_code(Arc::clone(&inner), None));
        let node = Arc::clone(&inner.node);
        inner
            .node
            .spawn(async move { node.waiting_attempts.run(&*node.ports.clock).await });
        Ok((engine, recovered))
    }
}

/// Wakes suspended tasks whenever the system's clock was set: some wait for a date.
async fn follow_clock(node: Arc<Node>, engine_clock: Arc<EngineClock>) {
    loop {
        engine_clock.sleep(LOOK_EVERY).await;
        if let Some(millis) = engine_clock.step() {
            let span = longhaul_core::format_duration(millis.unsigned_abs());
            let way = if millis < 0 { "back" } else { "forward" };
            warn!("the system's clock was set {way} by {span}; timers go on as they were");
            let hasten = || async { Ok(node.store.hasten(node.now()).await?) };
            if node.retry_store("waking suspended tasks", hasten).await.is_ok() {
                node.alarm.set(node.now());
            }
        }
    }
}
