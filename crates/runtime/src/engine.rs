//! The engine: all parts of the runtime around one store.

use crate::{
    Catalog, Ports, Provider, Recovered,
    active::Active,
    attempt::Runner,
    catalog::thaw,
    dispatch::{self, Queues},
    hub::{Hub, Watch},
    provider::{LogChunk, LogRange},
    recovery, retention,
    slots::Slots,
    timers::{self, Alarm},
};
use longhaul_core::{
    HostId, NodeId, Scope, State, Store, Task, TaskId,
    store::{Page, Record, StoreError},
};
use std::sync::Arc;
use tokio::sync::watch;

/// What an engine is made of.
pub struct EngineOptions {
    /// Keeps the tasks.
    pub store: Arc<dyn Store>,
    /// Time, randomness, concurrency.
    pub ports: Ports,
    /// Names this machine and data directory, the same at every start: work bound to it can only be taken up here.
    pub host: HostId,
    /// The tools that can be called.
    pub catalog: Catalog,
    /// Where executors of tools that were changed or removed come from, and where logs are.
    pub providers: Vec<Arc<dyn Provider>>,
    /// Attempts at once on this node; `None` for no limit.
    pub max_running: Option<usize>,
}

/// An engine cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Runs tasks. Cheap to clone; runs until [`Engine::stop`].
#[derive(Clone)]
pub struct Engine(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) ports: Ports,
    pub(crate) host: HostId,
    pub(crate) node: NodeId,
    pub(crate) catalog: Catalog,
    pub(crate) providers: Vec<Arc<dyn Provider>>,
    pub(crate) hub: Arc<Hub>,
    pub(crate) slots: Arc<Slots>,
    pub(crate) active: Active,
    pub(crate) queues: Queues,
    pub(crate) alarm: Alarm,
    stop: watch::Sender<bool>,
}

impl Engine {
    /// Registers this process as a new node, takes up what earlier ones left, and begins to work.
    ///
    /// # Errors
    /// [`StartError`] if the store fails; nothing runs then.
    pub async fn start(options: EngineOptions) -> Result<(Self, Recovered), StartError> {
        let EngineOptions {
            store,
            ports,
            host,
            catalog,
            providers,
            max_running,
        } = options;
        for tool in catalog.iter() {
            store.put_spec(tool.spec().clone()).await?;
        }
        let node = store.open_node(&host, ports.clock.now()).await?;
        let hub = Arc::new(Hub::default());
        let listener = Arc::clone(&hub);
        store.listen(Arc::new(move |hints| listener.publish(hints)));
        let inner = Arc::new(Inner {
            store,
            ports,
            host,
            node,
            catalog,
            providers,
            hub,
            slots: Slots::new(max_running),
            active: Active::default(),
            queues: Queues::default(),
            alarm: Alarm::default(),
            stop: watch::Sender::new(false),
        });
        let recovered = recovery::recover(&inner).await?;
        inner.spawn(dispatch::run(Arc::clone(&inner)));
        inner.spawn(timers::run(Arc::clone(&inner)));
        inner.spawn(retention::run(Arc::clone(&inner)));
        Ok((Self(inner), recovered))
    }

    /// Stops working at once. What lives outside the process lives on; what does not is taken up, or found lost, at the next start.
    pub fn stop(&self) {
        self.0.stop.send_replace(true);
    }

    /// The tools that can be called.
    pub fn catalog(&self) -> &Catalog {
        &self.0.catalog
    }

    /// The ports.
    pub fn ports(&self) -> &Ports {
        &self.0.ports
    }

    /// The store, for what the engine has no opinion on: signing keys, ended sessions.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.0.store
    }

    /// Attempts this node works on now.
    pub fn running(&self) -> usize {
        self.0.active.len()
    }

    /// A task, as `scope` may see it; the same `None` for unknown and foreign ids.
    ///
    /// # Errors
    /// The store's.
    pub async fn get(&self, scope: &Scope, id: &TaskId) -> Result<Option<Record>, StoreError> {
        self.0.store.get(scope, id).await
    }

    /// A page of `scope`'s tasks, newest first, beginning after `before`.
    ///
    /// # Errors
    /// The store's.
    pub async fn list(&self, scope: &Scope, before: Option<&TaskId>, limit: usize) -> Result<Page, StoreError> {
        self.0.store.list(scope, before, limit).await
    }

    /// Watches a task for changes. Get it *after* this call, then wait for the watch, and no change is missed.
    pub fn watch(&self, id: &TaskId) -> Watch {
        self.0.hub.watch(id)
    }

    /// A part of the log of a task that the caller has already been found to own; `None` if it has none.
    ///
    /// # Errors
    /// A text for the server's own log.
    pub async fn read_log(&self, task: &Task, range: LogRange) -> Result<Option<LogChunk>, String> {
        let Some(epoch) = task.attempt.as_ref().map(|attempt| attempt.epoch) else {
            return Ok(None);
        };
        let spec = self.0.store.spec(&task.spec).await.map_err(|error| error.to_string())?;
        let kind = spec.map(|spec| spec.kind);
        let provider = self
            .0
            .providers
            .iter()
            .find(|provider| Some(provider.kind()) == kind.as_deref());
        match provider {
            Some(provider) => provider
                .read_log(&task.id, epoch, range)
                .await
                .map_err(|error| error.to_string()),
            None => Ok(None),
        }
    }
}

impl Inner {
    /// Runs `work` until it ends or the engine stops.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let mut stop = self.stop.subscribe();
        self.ports.spawner.spawn(Box::pin(async move {
            tokio::select! {
                () = work => {}
                _ = stop.wait_for(|stop| *stop) => {}
            }
        }));
    }

    /// What a committed change asks of this node: stop an attempt, look at a queue, wake earlier.
    pub(crate) fn changed(&self, task: &Task) {
        if let Some(stop) = task.stop
            && task.active_attempt().is_some()
        {
            self.active.stop(&task.id, stop.reason);
        }
        if task.state == State::Queued {
            self.queues.offer(&task.tool);
        }
        self.alarm.set_for(task);
    }

    /// How many tasks of `tool` may run here at once, and whether they are bound to this host. A tool that is no longer
    /// configured has no limit of its own; its work is taken to be bound.
    pub(crate) fn placement(&self, tool: &str) -> (Option<usize>, Option<HostId>) {
        match self.catalog.get(tool) {
            Some(tool) => {
                let settings = tool.settings();
                (
                    settings.concurrency,
                    settings.executor.host_bound().then(|| self.host.clone()),
                )
            }
            None => (None, Some(self.host.clone())),
        }
    }

    /// What runs `task`: its tool if the definition is still the same, else the definition that was frozen with it.
    pub(crate) async fn runner(&self, task: &Task) -> Result<Runner, String> {
        let concurrency = self
            .catalog
            .get(&task.tool)
            .and_then(|tool| tool.settings().concurrency);
        if let Some(tool) = self.catalog.get(&task.tool).filter(|tool| tool.spec().id == task.spec) {
            let settings = tool.settings();
            return Ok(Runner {
                executor: Arc::clone(&settings.executor),
                retry: settings.retry.clone(),
                concurrency,
            });
        }
        let spec = self.store.spec(&task.spec).await.map_err(|error| error.to_string())?;
        let spec = spec.ok_or("its definition is not in the store")?;
        let provider = self.providers.iter().find(|provider| provider.kind() == &*spec.kind);
        let provider = provider.ok_or_else(|| format!("nothing here runs tools of kind {}", spec.kind))?;
        let (retry, definition) = thaw(&spec)?;
        Ok(Runner {
            executor: provider.revive(&definition)?,
            retry,
            concurrency,
        })
    }
}
