//! The engine: all parts of the runtime around one store.

pub(crate) mod blocked;
pub(crate) mod catalog;
pub(crate) mod context;
pub(crate) mod executor;
pub(crate) mod intake;
pub(crate) mod isolated_retry;
pub(crate) mod journal;
pub(crate) mod lineage;
pub(crate) mod provider;
pub(crate) mod question;
pub(crate) mod reply;
pub(crate) mod request;
pub(crate) mod store_retry;

use crate::{
    BuildId, Ports,
    active::Active,
    alarm::Alarm,
    change_feed::{ChangeFeed, Watch},
    progress_stream::{ProgressStream, ProgressStreams},
    queues::Queues,
    slots::{Slot, Slots},
    step_observer::StepObserver,
    suspension::WaitingAttempts,
    task_log,
};
use blocked::BLOCKED_TIMEOUT;
use catalog::{Catalog, Intake, Tool, is_durable, thaw};
use executor::Executor;
use isolated_retry::IsolationLock;
use longhaul_core::{
    BoxFuture, HostId, Millis, NodeId, Now, OnNonDeterminism, Quota, Retry, Scope, SpecId, State, Store, Task, TaskId,
    ToolSpec, UnixMillis, push_timestamp,
    store::{ApplyError, Change, Page, Record, StoreError, ToolLimit},
};
use parking_lot::{Mutex, MutexGuard};
use provider::{AttemptExit, LogChunk, LogRange, PastAttempt, Provider};
use std::{collections::HashMap, sync::Arc, time::Duration};
use tokio::sync::watch;

/// Between two looks at what is still stopping.
const SETTLE_EVERY: Duration = Duration::from_millis(20);

/// So many queued tasks before one are counted.
const MOST_COUNTED: usize = 100;

/// How long a question waits whose tool does not say: 7 days.
pub const INPUT_TIMEOUT: Millis = 7 * 24 * 60 * 60 * 1000;

/// What an engine is made of.
pub struct EngineOptions {
    /// Keeps the tasks.
    pub store: Arc<dyn Store>,
    /// Time, randomness, concurrency.
    pub ports: Ports,
    /// Names this machine and data directory, the same at every start: work bound to it can only be adopted here.
    pub host: HostId,
    /// The tools that can be called.
    pub catalog: Catalog,
    /// Where executors of tools that were changed or removed come from, and where logs are.
    pub providers: Vec<Arc<dyn Provider>>,
    /// Attempts at once on this node; `None` for no limit.
    pub max_running: Option<usize>,
    /// How much callers may have live and stored.
    pub quota: Quota,
    /// How long the code of durable work is kept in memory while all of it waits: [`SUSPEND_AFTER`](crate::SUSPEND_AFTER), but in tests that want to
    /// see it let go, and run again, without the wait. At least a millisecond. What of it waits longest is let go sooner where too much waits.
    pub suspend_after: Duration,
    /// The build of the program: a blocked task is tried again by another one.
    pub build: BuildId,
    /// Watches steps, in tests.
    pub step_observer: Option<Arc<dyn StepObserver>>,
}

/// Runs tasks. Cheap to clone; runs until [`Engine::stop`].
#[derive(Clone)]
pub struct Engine(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) ports: Ports,
    pub(crate) host: HostId,
    pub(crate) node: NodeId,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) providers: Vec<Arc<dyn Provider>>,
    pub(crate) quota: Quota,
    pub(crate) change_feed: Arc<ChangeFeed>,
    pub(crate) progress_streams: Arc<ProgressStreams>,
    pub(crate) slots: Arc<Slots>,
    pub(crate) active: Arc<Active>,
    pub(crate) queues: Arc<Queues>,
    pub(crate) alarm: Alarm,
    /// Cancels under way that nobody waits for.
    pub(crate) cancelling: Cancelling,
    /// Code that waits.
    pub(crate) waiting_attempts: Arc<WaitingAttempts>,
    /// Whose process has died under it, again and again.
    pub(crate) isolation_lock: IsolationLock,
    pub(crate) build: BuildId,
    /// How many tasks at once of those tools that are offered no longer.
    last_limits: Mutex<HashMap<Arc<str>, usize>>,
    pub(crate) step_observer: Option<Arc<dyn StepObserver>>,
    /// Set before a stop: work that can be run again is let go.
    releasing: watch::Sender<bool>,
    stop: watch::Sender<bool>,
}

/// Counts cancels that nobody waits for, so that a server which stops can see them through.
#[derive(Clone, Default)]
pub(crate) struct Cancelling(Arc<()>);

impl Cancelling {
    /// Counts until what it returns is dropped.
    pub(crate) fn begin(&self) -> Self {
        self.clone()
    }

    fn is_idle(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }
}

impl Engine {
    /// Stops working at once. What lives outside the process lives on; what does not is adopted, or found lost, at the next start.
    pub fn stop(&self) {
        self.0.stop.send_replace(true);
    }

    /// What is offered.
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.0.catalog
    }

    /// Offers a tool, in the place of one of the same name. Its tasks may outlive it, so its definition is written first.
    ///
    /// # Errors
    /// The store's; the tool is not offered then.
    pub async fn put_tool(&self, tool: Tool) -> Result<(), StoreError> {
        self.0.store.put_spec(tool.spec().clone()).await?;
        let name = Arc::clone(tool.name());
        self.0.store.put_limit(&name, tool.settings().concurrency).await?;
        self.0.catalog.put_tool(tool);
        self.0.spawn(blocked::try_changed_code(Arc::clone(&self.0), Some(name)));
        Ok(())
    }

    /// Offers a tool no longer; says whether there was one. Its tasks go on.
    pub fn remove_tool(&self, name: &str) -> bool {
        if let Some(tool) = self.0.catalog.tool(name) {
            let settings = tool.settings();
            // Before it is gone, so that no slot is given in between without a limit.
            match settings.concurrency {
                Some(most) => self.0.last_limits().insert(Arc::clone(&settings.name), most),
                None => self.0.last_limits().remove(&settings.name),
            };
        }
        self.0.catalog.remove_tool(name)
    }

    /// The ports. The clock is the engine's own: it goes on steadily, whatever becomes of the world's.
    pub fn ports(&self) -> &Ports {
        &self.0.ports
    }

    /// The store, for what the engine has no opinion on: signing keys, ended sessions.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.0.store
    }

    /// Waits, at most `limit`, until what was asked to stop has stopped: a command whose caller has gone should hear of it before
    /// the server goes.
    pub async fn settle(&self, limit: Duration) {
        let settled = async {
            while !self.0.cancelling.is_idle() || self.0.active.stopping() > 0 {
                self.0.ports.clock.sleep(SETTLE_EVERY).await;
            }
        };
        let _ = self.0.ports.within(limit, settled).await;
    }

    /// Lets go of all work that can be run again, and waits, at most `limit`, until that is written: after a stop that was announced it
    /// goes on at the next start as if it had waited. Nothing is claimed any more.
    pub async fn release(&self, limit: Duration) {
        self.0.releasing.send_replace(true);
        let _ = self.0.ports.within(limit, self.0.active.none_replays()).await;
    }

    /// Runs `work` until it ends or the engine stops.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.0.spawn(work);
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

    /// What a queued task waits for, for people; `None` for one that is not queued. Nothing of it is stored, and it costs little however
    /// long the queue is.
    ///
    /// # Errors
    /// The store's.
    pub async fn describe_wait(&self, task: &Task) -> Result<Option<Arc<str>>, StoreError> {
        if task.state != State::Queued {
            return Ok(None);
        }
        let now = self.ports().clock.read();
        if task.ready_at > now.at {
            return Ok(Some(self.0.next_try(task, now).into()));
        }
        let before = self.store().queued_before(task, MOST_COUNTED + 1).await?;
        Ok(Some(match before {
            0 => "queued, next in line".into(),
            1 => "queued behind 1 other".into(),
            2..=MOST_COUNTED => format!("queued behind {before} others").into(),
            _ => format!("queued behind over {MOST_COUNTED} others").into(),
        }))
    }

    /// Watches a task for changes. Get it *after* this call, then wait for the watch, and no change is missed.
    pub fn watch(&self, id: &TaskId) -> Watch {
        self.0.change_feed.watch(id)
    }

    /// Subscribes to the progress and log messages of a task while it runs on this node.
    pub fn subscribe(&self, id: &TaskId) -> ProgressStream {
        self.0.progress_streams.subscribe(id)
    }

    /// Whether any kind of tool may keep logs.
    pub fn keeps_logs(&self) -> bool {
        self.0.providers.iter().any(|provider| provider.keeps_logs())
    }

    /// What is known of the attempts of a task that the caller has already been found to own: of those after `after`, at most `limit`.
    ///
    /// # Errors
    /// A text for the server's own log.
    pub async fn attempts(&self, task: &Task, after: u32, limit: usize) -> Result<Vec<PastAttempt>, String> {
        let Some(epoch) = task.attempt.as_ref().map(|attempt| attempt.epoch) else {
            return Ok(Vec::new());
        };
        let kind = self.0.kind(task).await.map_err(|error| error.to_string())?;
        match kind.and_then(|kind| self.0.provider(&kind)) {
            Some(provider) => provider
                .attempts(&task.id, epoch, after, limit)
                .await
                .map_err(|error| error.to_string()),
            None => Ok(Vec::new()),
        }
    }

    /// How the latest attempt of a task ended, if its work is a command's and it has ended. A task that was cancelled at once may be over before
    /// that.
    ///
    /// # Errors
    /// A text for the server's own log.
    pub async fn last_exit(&self, task: &Task) -> Result<Option<AttemptExit>, String> {
        let Some(before) = task.attempt.as_ref().map(|attempt| attempt.epoch.saturating_sub(1)) else {
            return Ok(None);
        };
        let last = self.attempts(task, before, 1).await?.pop();
        Ok(last.and_then(|attempt| attempt.exit))
    }

    /// A part of the log of a task that the caller has already been found to own; `None` if it has none.
    ///
    /// # Errors
    /// A text for the server's own log.
    pub async fn read_log(&self, task: &Task, range: LogRange) -> Result<Option<LogChunk>, String> {
        let Some(epoch) = task.attempt.as_ref().map(|attempt| attempt.epoch) else {
            return Ok(None);
        };
        let kind = self.0.kind(task).await.map_err(|error| error.to_string())?;
        let provider = kind.and_then(|kind| self.0.provider(&kind));
        match provider {
            Some(provider) => provider
                .read_log(&task.id, epoch, range)
                .await
                .map_err(|error| error.to_string()),
            None => Ok(None),
        }
    }
}

/// What runs a task: the catalog's tool if it is still the same, else what was frozen with the task.
pub(crate) struct Runner {
    pub(crate) executor: Arc<dyn Executor>,
    pub(crate) retry: Retry,
    pub(crate) concurrency: Option<usize>,
    pub(crate) input_timeout: Millis,
    /// What asks first, of a task that was announced before.
    pub(crate) intake: Option<Arc<dyn Intake>>,
    /// The definition that runs, which may be a newer one than the task's.
    pub(crate) spec: SpecId,
    pub(crate) on_non_determinism: OnNonDeterminism,
    pub(crate) blocked_timeout: Millis,
}

/// Nothing here can run a task.
pub(crate) struct Unavailable {
    /// Why, for people.
    pub(crate) why: String,
    /// Whether the task's tool was durable: another deploy may offer it again, and the task waits for that.
    pub(crate) durable: bool,
}

impl Inner {
    /// All parts around the store of `options`, for the `node` that this process is. `limits` are those of tools that may be offered no longer.
    pub(crate) fn new(options: EngineOptions, node: NodeId, limits: Vec<ToolLimit>) -> Arc<Self> {
        let EngineOptions {
            store,
            ports,
            host,
            catalog,
            providers,
            max_running,
            quota,
            suspend_after,
            build,
            step_observer,
        } = options;
        let change_feed = Arc::new(ChangeFeed::default());
        let listener = Arc::clone(&change_feed);
        store.listen(Arc::new(move |hints| listener.publish(hints)));
        let limits = limits.into_iter().map(|limit| (limit.tool, limit.concurrency));
        Arc::new(Self {
            store,
            ports,
            host,
            node,
            catalog: Arc::new(catalog),
            providers,
            quota,
            change_feed,
            progress_streams: Arc::default(),
            slots: Slots::new(max_running),
            active: Arc::default(),
            queues: Arc::default(),
            alarm: Alarm::default(),
            cancelling: Cancelling::default(),
            waiting_attempts: WaitingAttempts::new(suspend_after),
            isolation_lock: IsolationLock::default(),
            build,
            last_limits: Mutex::new(limits.collect()),
            step_observer,
            releasing: watch::Sender::new(false),
            stop: watch::Sender::new(false),
        })
    }

    /// Whether nothing is to be claimed any more.
    pub(crate) fn is_released(&self) -> bool {
        *self.releasing.borrow()
    }

    /// Completes when work that can be run again is to be let go.
    pub(crate) async fn is_releasing(&self) {
        let mut releasing = self.releasing.subscribe();
        if releasing.wait_for(|releasing| *releasing).await.is_err() {
            std::future::pending().await
        }
    }

    /// Any number.
    pub(crate) fn draw(&self) -> u64 {
        let mut bytes = [0; 8];
        self.ports.entropy.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    pub(crate) fn now(&self) -> UnixMillis {
        self.ports.clock.now()
    }

    /// Runs `work` until it ends or the engine stops.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let mut stop = self.stop.subscribe();
        self.ports.spawner.spawn(Box::pin(async move {
            tokio::select! {
                // First, so that nothing begins after the stop.
                biased;
                _ = stop.wait_for(|stop| *stop) => {}
                () = work => {}
            }
        }));
    }

    /// What a committed change asks of this node: stop an attempt, look at a queue, wake earlier.
    pub(crate) fn changed(self: &Arc<Self>, task: &Task) {
        if let Some(stop) = task.stop
            && task.active_attempt().is_some_and(|attempt| attempt.node == self.node)
        {
            self.active.stop(&task.id, stop.reason);
        }
        if task.state == State::Queued {
            self.queues.offer(&task.tool, task.ready_at);
        }
        lineage::changed(self, task);
        self.alarm.set_for(task);
    }

    /// Writes a change, and does what it asks of this node. The engine carries it through: a caller that leaves between the commit and its
    /// acknowledgement must not keep a request to stop from the attempt, or an answer from work that was let go.
    ///
    /// # Errors
    /// The store's; [`StoreError::Closed`] also if the engine stops meanwhile.
    pub(crate) fn commit(self: &Arc<Self>, change: Change) -> BoxFuture<'static, Result<Task, ApplyError>> {
        let (tell, told) = tokio::sync::oneshot::channel();
        let inner = Arc::clone(self);
        self.spawn(async move {
            let promotes = matches!(*change.events, [longhaul_core::Event::Promoted]);
            let applied = inner.store.apply(change).await;
            if let Ok(task) = &applied {
                // Nothing is legal for a task that is over but to be promoted, so this is its end.
                if promotes {
                    task_log::promoted(task);
                } else {
                    task_log::ended_if_done(task);
                }
                inner.changed(task);
            }
            let _ = tell.send(applied);
        });
        Box::pin(async move { told.await.unwrap_or(Err(StoreError::Closed.into())) })
    }

    /// A slot for `tool`, if one is free.
    pub(crate) fn free_slot(&self, tool: &Arc<str>) -> Option<Slot> {
        self.slots.try_take(tool, self.concurrency(tool))
    }

    /// How many tasks of `tool` may run here at once. One that is offered no longer keeps the limit it had last.
    fn concurrency(&self, tool: &Arc<str>) -> Option<usize> {
        match self.catalog.tool(tool) {
            Some(offered) => offered.settings().concurrency,
            None => self.last_limits().get(tool).copied(),
        }
    }

    fn last_limits(&self) -> MutexGuard<'_, HashMap<Arc<str>, usize>> {
        self.last_limits.lock()
    }

    /// The host that attempts of `tool` are bound to, if they are. A tool that is no longer configured is taken to be bound.
    pub(crate) fn binding(&self, tool: &str) -> Option<HostId> {
        let bound = self
            .catalog
            .tool(tool)
            .is_none_or(|tool| tool.settings().executor.host_bound());
        bound.then(|| self.host.clone())
    }

    /// When a task that waits for its time is tried again.
    fn next_try(&self, task: &Task, now: Now) -> String {
        let mut at = String::new();
        push_timestamp(&mut at, now.in_the_world(task.ready_at));
        let attempt = task.attempts_used + 1;
        let most = self.unchanged_tool(task).map(|tool| tool.settings().retry.attempts);
        match (task.attempts_used, most) {
            (0, _) => format!("next try at {at}"),
            (_, Some(most)) => format!("attempt {attempt} of {most}, next try at {at}"),
            (_, None) => format!("attempt {attempt}, next try at {at}"),
        }
    }

    /// The tool of `task`, if its definition is still the one that was frozen with the task. Code that replays cannot be frozen: it is
    /// the one there is, and its journal tells whether it still fits.
    fn unchanged_tool(&self, task: &Task) -> Option<Arc<Tool>> {
        let same = |tool: &Arc<Tool>| tool.spec().id == task.spec || tool.settings().executor.replays();
        self.catalog.tool(&task.tool).filter(same)
    }

    fn provider(&self, kind: &str) -> Option<&Arc<dyn Provider>> {
        self.providers.iter().find(|provider| provider.kind() == kind)
    }

    async fn kind(&self, task: &Task) -> Result<Option<Arc<str>>, StoreError> {
        match self.unchanged_tool(task) {
            Some(tool) => Ok(Some(Arc::clone(&tool.spec().kind))),
            None => Ok(self.store.spec(&task.spec).await?.map(|spec| spec.kind)),
        }
    }

    /// What runs `task`, or why nothing here can.
    ///
    /// # Errors
    /// Only if the store is closed.
    pub(crate) async fn runner(&self, task: &Task) -> Result<Result<Runner, Unavailable>, ApplyError> {
        let concurrency = self.concurrency(&task.tool);
        if let Some(tool) = self.unchanged_tool(task) {
            let settings = tool.settings();
            return Ok(Ok(Runner {
                executor: Arc::clone(&settings.executor),
                retry: settings.retry.clone(),
                concurrency,
                input_timeout: settings.input_timeout,
                intake: settings.intake.clone(),
                spec: tool.spec().id.clone(),
                on_non_determinism: settings.on_non_determinism,
                blocked_timeout: settings.blocked_timeout,
            }));
        }
        let read = || async { Ok(self.store.spec(&task.spec).await?) };
        let spec = self.retry_store("reading a tool's definition", read).await?;
        let durable = task.journaled > 0 || spec.as_ref().is_some_and(is_durable);
        let revived = self.revive(spec).map(|(executor, retry)| Runner {
            executor,
            retry,
            concurrency,
            input_timeout: INPUT_TIMEOUT,
            intake: None,
            spec: task.spec.clone(),
            on_non_determinism: OnNonDeterminism::default(),
            blocked_timeout: BLOCKED_TIMEOUT,
        });
        Ok(revived.map_err(|why| Unavailable { why, durable }))
    }

    fn revive(&self, spec: Option<ToolSpec>) -> Result<(Arc<dyn Executor>, Retry), String> {
        let spec = spec.ok_or("its definition is not in the store")?;
        let provider = self
            .provider(&spec.kind)
            .ok_or_else(|| format!("nothing here runs tools of kind {}", spec.kind))?;
        let (retry, definition) = thaw(&spec)?;
        Ok((provider.revive(&definition)?, retry))
    }
}
