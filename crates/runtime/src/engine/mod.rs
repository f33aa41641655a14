//! The engine: tools and the tasks that run them, around one [`Node`].

pub(crate) mod build_id;
pub(crate) mod changed_code;
mod offered_tools;
pub(crate) mod secret_arguments;

use crate::{
    BuildId, Ports,
    catalog::{BLOCKED_TIMEOUT, Catalog, INPUT_TIMEOUT, Intake, Tool, is_durable, retry_and_definition},
    executor::{Executor, elsewhere::ExecutorElsewhere, provider::Provider},
    node::{EngineStop, Node, NodeOptions, ProgressStream, StepObserver, TaskWatch},
    ports::{argument_cipher::ArgumentCipher, engine_clock::EngineClock},
    queue::{
        paused_tools::{PausedTools, drain_key, upstream_key},
        schedules::Schedules,
        slots::{Slot, SlotUse},
    },
};
use longhaul_core::{
    HostId, Millis, NodeId, Now, OnNonDeterminism, Principal, Quota, Retry, Scope, SpecId, StartRate, State, Store,
    Task, TaskId, ToolSpec, push_timestamp,
    store::{ApplyError, NewNode, Page, Record, SearchOrder, StoreError, TaskFilter, TaskSearch, ToolLimit},
};
use parking_lot::{Mutex, MutexGuard};
use std::{collections::HashMap, sync::Arc, time::Duration};
use tracing::warn;

/// The name of the upstream that a tool was of, if it was of one.
type FormerUpstream = Option<Arc<str>>;

/// How many tasks a search for the first queued one of a tool looks at in one step.
const LOOKED_AT: usize = 1_000;

/// How long [`Engine::end`] waits for work that has not noticed the stop.
const END_TIMEOUT: Duration = Duration::from_secs(1);

/// The parts and settings of an engine.
pub struct EngineOptions {
    /// Stores the tasks.
    pub store: Arc<dyn Store>,
    /// Time, randomness, concurrency.
    pub ports: Ports,
    /// The node that this process becomes. Work bound to its host can only be adopted there.
    pub node: NewNode,
    /// How long a host must have been without a node before it is given up, in milliseconds: then others end the attempts that are bound to it. Usually
    /// [`HOST_LOST_AFTER`](crate::HOST_LOST_AFTER).
    pub lost_after: Millis,
    /// The tools that can be called.
    pub catalog: Catalog,
    /// Where executors of tools that were changed or removed come from, and where logs are.
    pub providers: Vec<Arc<dyn Provider>>,
    /// Attempts at once on this node; `None` for no limit.
    pub max_running: Option<usize>,
    /// How much callers may have live and stored.
    pub quota: Quota,
    /// How long the code of a durable task stays in memory while all of it waits, before the task is suspended: usually
    /// [`SUSPEND_AFTER`](crate::SUSPEND_AFTER), less in tests. At least a millisecond. If too many attempts wait, the oldest are suspended
    /// earlier.
    pub suspend_after: Duration,
    /// The build of the program: another build retries blocked tasks.
    pub build: BuildId,
    /// Observes steps, in tests.
    pub step_observer: Option<Arc<dyn StepObserver>>,
    /// Whether calls of a principal may still begin; without it, all may. Asked when it is a call's turn, so that one that was queued is cancelled instead if nobody is its
    /// principal any more. What has begun is not asked about, nor are the children that it starts.
    pub may_begin: Option<Arc<MayBegin>>,
    /// Encrypts the [secret arguments](crate::ToolSettings::secrets) of tools; without one they are not stored, and calls with them fail.
    pub cipher: Option<Arc<dyn ArgumentCipher>>,
}

/// Whether calls of a principal may still begin. It must not block.
pub type MayBegin = dyn Fn(&Principal) -> bool + Send + Sync;

/// Runs tasks. Cheap to clone; runs until [`Engine::stop`].
#[derive(Clone)]
pub struct Engine(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) node: Arc<Node>,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) providers: Vec<Arc<dyn Provider>>,
    pub(crate) quota: Quota,
    pub(crate) build: BuildId,
    pub(crate) may_begin: Option<Arc<MayBegin>>,
    pub(crate) cipher: Option<Arc<dyn ArgumentCipher>>,
    /// That of the ports.
    pub(crate) clock: Arc<EngineClock>,
    pub(crate) paused: PausedTools,
    pub(crate) schedules: Schedules,
    pub(crate) lost_after: Millis,
    /// When the lease was asked for that the node has, by the monotonic clock; `None` if it has none that ends.
    pub(crate) lease_renewed: Mutex<Option<Duration>>,
    /// Whether a node lives that begins work, and until when, by the monotonic clock, that is not asked again.
    pub(crate) known_worker: Mutex<Option<(bool, Duration)>>,
    /// The commands of attempts that were given up and that are being ended, and how often they were found running.
    pub(crate) ending_outside: Mutex<HashMap<(TaskId, u32), u32>>,
    /// The last concurrency of tools that are no longer offered.
    last_limits: Mutex<HashMap<Arc<str>, usize>>,
    /// Of which upstream tools were that are not offered now, as far as that was asked.
    former_upstreams: Mutex<HashMap<Arc<str>, FormerUpstream>>,
}

impl Engine {
    /// Stops at once. Work outside this process continues; at the next start it is adopted, and other attempts count as crashed.
    pub fn stop(&self) {
        self.0.node.stop();
    }

    /// Completes when this engine stops, with the cause. A process whose engine has lost its lease should end, so that it is started anew.
    pub fn stopped(&self) -> impl Future<Output = EngineStop> + Send + use<> {
        let node = Arc::clone(&self.0.node);
        async move { node.stopped().await }
    }

    /// Stops at once, and lets other servers of the store take over without waiting for the end of this one's lease.
    ///
    /// Work that blocks its thread cannot be stopped at once. If some of it runs on for over a second, the lease is not given up: it ends by itself.
    pub async fn end(&self) {
        self.stop();
        let node = &self.0.node;
        if !node.stopped_within(END_TIMEOUT).await {
            return warn!("some work of this server has not stopped, so its lease was not given up; it ends by itself");
        }
        if let Err(error) = node.store.end_lease(node.id).await {
            warn!(%error, "the lease of this server was not given up; it ends by itself");
        }
    }

    /// Whether it can store [secret arguments](crate::ToolSettings::secrets).
    pub fn has_cipher(&self) -> bool {
        self.0.cipher.is_some()
    }

    /// What is offered.
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.0.catalog
    }

    /// The ports. Their clock is the engine's own, which does not jump when the system's clock is set.
    pub fn ports(&self) -> &Ports {
        &self.0.node.ports
    }

    /// The store, for what is not the engine's: signing keys, ended sessions.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.0.node.store
    }

    /// Waits, at most `limit`, until every attempt that was asked to stop has stopped, so that a command whose caller has gone is told
    /// before the server exits.
    pub async fn settle(&self, limit: Duration) {
        self.0.node.settle(limit).await;
    }

    /// For a graceful stop: suspends all attempts that can be replayed, and waits, at most `limit`, until their suspension is written. They resume
    /// at the next start. Nothing is claimed from now on.
    pub async fn release(&self, limit: Duration) {
        self.0.node.release(limit).await;
    }

    /// Begins nothing from now on, here. Durable work that only waits is suspended. What is called from now on is queued, for other nodes or the next start: see
    /// [`drains_alone`](Self::drains_alone).
    pub fn begin_drain(&self) {
        self.0.node.begin_drain();
    }

    /// [Begins a drain](Self::begin_drain), tells other nodes of it, and waits until nothing runs any more, at most `limit`.
    pub async fn drain(&self, limit: Duration) {
        self.begin_drain();
        let node = &self.0.node;
        if let Err(error) = self.set_paused(&drain_key(node.id), true).await {
            warn!(%error, "other servers were not told that this one drains");
        }
        node.wait_until_idle(limit).await;
    }

    /// Whether it [drains](Self::drain).
    pub fn is_draining(&self) -> bool {
        self.0.node.is_draining()
    }

    /// Completes when a [drain](Self::drain) begins.
    pub async fn drain_begun(&self) {
        self.0.node.drain_begun().await;
    }

    /// Whether it [drains](Self::drain) and no other node begins work either, so that what has not begun waits for the next start. A call whose caller waits for
    /// the result should be refused then.
    ///
    /// # Errors
    /// The store's.
    pub async fn drains_alone(&self) -> Result<bool, StoreError> {
        Ok(self.is_draining() && !self.has_worker().await?)
    }

    /// Runs `work` until it ends or the engine stops.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.0.node.spawn(work);
    }

    /// How much may be kept.
    pub fn quota(&self) -> &Quota {
        &self.0.quota
    }

    /// Attempts this node works on now.
    pub fn running(&self) -> usize {
        self.0.node.active.len()
    }

    /// How many slots of this node are taken.
    pub fn slots(&self) -> SlotUse {
        self.0.node.slots.in_use()
    }

    /// A task, as `scope` may see it; the same `None` for unknown and foreign ids.
    ///
    /// # Errors
    /// The store's.
    pub async fn get(&self, scope: &Scope, id: &TaskId) -> Result<Option<Record>, StoreError> {
        let record = self.0.node.store.get(scope, id).await?;
        Ok(record.map(Record::for_clients))
    }

    /// A page of `scope`'s tasks as clients see them, newest first, beginning after `before`.
    ///
    /// # Errors
    /// The store's.
    pub async fn list(&self, scope: &Scope, before: Option<&TaskId>, limit: usize) -> Result<Page, StoreError> {
        let mut page = self.0.node.store.list(scope, before, limit).await?;
        let operators = page.tasks.iter_mut().filter(|task| task.is_confirmed_by_operators());
        operators.for_each(Task::hide_confirmation);
        Ok(page)
    }

    /// Watches a task for changes. Get it *after* this call, then wait for the watch, and no change is missed.
    pub fn watch(&self, id: &TaskId) -> TaskWatch {
        self.0.node.change_feed.watch(id)
    }

    /// Subscribes to the progress and log messages of a task while it runs on this node, or was called here.
    pub fn subscribe(&self, id: &TaskId) -> ProgressStream {
        self.0.node.progress_streams.subscribe(id)
    }
}

/// What runs a task: the catalog's tool if it is still the same, else the definition that was stored with the task.
pub(crate) struct Runner {
    pub(crate) executor: Arc<dyn Executor>,
    pub(crate) retry: Retry,
    pub(crate) concurrency: Option<usize>,
    pub(crate) input_timeout: Millis,
    /// Asks for missing arguments, if the task was announced before that.
    pub(crate) intake: Option<Arc<dyn Intake>>,
    /// The definition that runs, which may be newer than the task's.
    pub(crate) spec: SpecId,
    pub(crate) on_non_determinism: OnNonDeterminism,
    pub(crate) blocked_timeout: Millis,
}

/// No tool or provider of this server can run a task.
pub(crate) struct Unavailable {
    /// Why, for people.
    pub(crate) why: String,
    /// Whether the task's tool was durable: then the task is blocked until a deploy offers the tool again.
    pub(crate) durable: bool,
}

impl Inner {
    /// All parts around the store of `options`, for the `node` that this process is. `limits` are those of tools that may be offered no longer.
    pub(crate) fn new(
        options: EngineOptions,
        node: NodeId,
        clock: Arc<EngineClock>,
        limits: Vec<ToolLimit>,
    ) -> Arc<Self> {
        let EngineOptions {
            store,
            ports,
            node: new,
            lost_after,
            catalog,
            providers,
            max_running,
            quota,
            suspend_after,
            build,
            step_observer,
            may_begin,
            cipher,
        } = options;
        let limits = limits.into_iter().map(|limit| (limit.tool, limit.concurrency));
        Arc::new(Self {
            node: Node::new(NodeOptions {
                id: node,
                new,
                store,
                ports,
                max_running,
                suspend_after,
                step_observer,
            }),
            catalog: Arc::new(catalog),
            providers,
            quota,
            build,
            may_begin,
            cipher,
            clock,
            paused: PausedTools::new(node),
            schedules: Schedules::default(),
            lost_after,
            lease_renewed: Mutex::default(),
            known_worker: Mutex::default(),
            ending_outside: Mutex::default(),
            last_limits: Mutex::new(limits.collect()),
            former_upstreams: Mutex::default(),
        })
    }

    /// Whether nobody is this principal any more.
    pub(crate) fn is_nobodys(&self, principal: &Principal) -> bool {
        self.may_begin.as_ref().is_some_and(|may_begin| !may_begin(principal))
    }

    /// A slot for a queued task of `tool`, if one is free, the tool is not paused, and tasks of it run here at all.
    pub(crate) fn free_slot(&self, tool: &Arc<str>) -> Option<Slot> {
        match self.leaves_to_others(tool) {
            true => None,
            false => self.slot_to_begin(tool, self.concurrency(tool)),
        }
    }

    /// The same with the limit of the tool, which is offered here.
    pub(crate) fn slot_to_begin(&self, tool: &Arc<str>, concurrency: Option<usize>) -> Option<Slot> {
        match self.is_paused(tool) || !self.begins_work() {
            true => None,
            false => self.node.slots.try_take(tool, concurrency),
        }
    }

    /// Whether this node begins work: it runs tasks, and neither is cordoned nor drains.
    pub(crate) fn begins_work(&self) -> bool {
        self.node.runs_tasks() && !self.paused.is_cordoned() && !self.node.is_draining()
    }

    /// Whether tasks of `tool` wait for another node: this one does not offer it, and others may.
    pub(crate) fn leaves_to_others(&self, tool: &str) -> bool {
        self.node.store.capabilities().many_nodes && self.catalog.tool(tool).is_none()
    }

    /// Whether an operator has paused the tool, or the upstream that it is of.
    pub(crate) fn is_paused(&self, tool: &str) -> bool {
        let is_of_paused_upstream = || match self.catalog.tool(tool) {
            Some(tool) => self.is_upstream_paused(tool.settings().executor.upstream()),
            None => self.is_upstream_paused(self.former_upstreams.lock().get(tool).and_then(Option::as_deref)),
        };
        self.paused.is_any() && (self.paused.contains(tool) || is_of_paused_upstream())
    }

    /// A tool of this upstream, or of none, is not offered.
    pub(crate) fn note_former_upstream(&self, tool: &Arc<str>, upstream: FormerUpstream) {
        self.former_upstreams.lock().insert(Arc::clone(tool), upstream);
    }

    fn is_upstream_paused(&self, upstream: Option<&str>) -> bool {
        upstream.is_some_and(|upstream| self.paused.contains(&upstream_key(upstream)))
    }

    /// The same of a tool whose queued tasks may begin otherwise.
    pub(crate) async fn is_found_paused(&self, tool: &Arc<str>) -> Result<bool, StoreError> {
        if self.paused.is_any_upstream() {
            self.learn_upstream(tool).await?;
        }
        Ok(self.is_paused(tool))
    }

    /// Finds out of which upstream a tool is that is not offered, or not yet after a start: that which the definition of its first live task names.
    pub(crate) async fn learn_upstream(&self, tool: &Arc<str>) -> Result<(), StoreError> {
        if self.catalog.tool(tool).is_some() || self.former_upstreams.lock().contains_key(tool) {
            return Ok(());
        }
        // Without a live task nothing is known, also not of one that comes later.
        if let Some(first) = self.first_live(tool).await? {
            let revived = self.revive(self.node.store.spec(&first.spec).await?);
            let upstream = revived
                .ok()
                .and_then(|(executor, _)| executor.upstream().map(Arc::from));
            self.note_former_upstream(tool, upstream);
        }
        Ok(())
    }

    /// The upstream of a tool, as far as it is known.
    pub(crate) fn upstream_of(&self, tool: &str) -> Option<Arc<str>> {
        match self.catalog.tool(tool) {
            Some(tool) => tool.settings().executor.upstream().map(Arc::from),
            None => self.former_upstreams.lock().get(tool).cloned().flatten(),
        }
    }

    /// The tools that were of `upstream` when they were offered, as far as that is known.
    pub(crate) fn former_tools(&self, upstream: &str) -> Vec<Arc<str>> {
        let former = self.former_upstreams.lock();
        let of_it = former.iter().filter(|(_, of)| of.as_deref() == Some(upstream));
        of_it.map(|(tool, _)| Arc::clone(tool)).collect()
    }

    async fn first_live(&self, tool: &Arc<str>) -> Result<Option<Task>, StoreError> {
        let filter = TaskFilter {
            tool: Some(Arc::clone(tool)),
            states: State::LIVE.to_vec(),
            ..TaskFilter::default()
        };
        let mut search = TaskSearch {
            filter,
            order: SearchOrder::OldestFirst,
            after: None,
            limit: 1,
            most_examined: LOOKED_AT,
        };
        loop {
            let found = self.node.store.search(search.clone()).await?;
            match (found.tasks.into_iter().next(), found.next) {
                (None, Some(next)) => search.after = Some(next),
                (first, _) => return Ok(first),
            }
        }
    }

    /// How many tasks of `tool` may run at once. One that is offered no longer keeps the limit it had last.
    pub(crate) fn concurrency(&self, tool: &Arc<str>) -> Option<usize> {
        self.concurrency_of(tool, self.catalog.tool(tool).as_deref())
    }

    /// The same for a tool that is offered as `offered`.
    pub(crate) fn concurrency_of(&self, tool: &str, offered: Option<&Tool>) -> Option<usize> {
        match offered {
            Some(offered) => offered.settings().concurrency,
            None => self.last_limits().get(tool).copied(),
        }
    }

    /// How often attempts of `tool` may begin. One that is offered no longer has no rate.
    pub(crate) fn start_rate(&self, tool: &str) -> Option<StartRate> {
        self.catalog.tool(tool)?.settings().start_rate
    }

    pub(crate) fn last_limits(&self) -> MutexGuard<'_, HashMap<Arc<str>, usize>> {
        self.last_limits.lock()
    }

    /// The host that attempts of `tool` are bound to, if they are. A tool that is no longer configured is taken to be bound.
    pub(crate) fn binding(&self, tool: &str) -> Option<HostId> {
        self.binding_of(self.catalog.tool(tool).as_deref())
    }

    /// The same for a tool that is offered as `offered`.
    pub(crate) fn binding_of(&self, offered: Option<&Tool>) -> Option<HostId> {
        let bound = offered.is_none_or(|tool| tool.settings().executor.host_bound());
        bound.then(|| self.node.registered.host.clone())
    }

    /// When a task that waits for its time is tried again.
    pub(crate) fn next_try(&self, task: &Task, now: Now) -> String {
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

    /// The tool of `task`, if its definition is still the one that was stored with the task. A durable tool is taken in any case: the journal
    /// shows whether its code still fits.
    fn unchanged_tool(&self, task: &Task) -> Option<Arc<Tool>> {
        self.catalog.tool(&task.tool).filter(|tool| runs(tool, task))
    }

    pub(crate) fn provider(&self, kind: &str) -> Option<&Arc<dyn Provider>> {
        self.providers.iter().find(|provider| provider.kind() == kind)
    }

    pub(crate) async fn kind(&self, task: &Task) -> Result<Option<Arc<str>>, StoreError> {
        match self.unchanged_tool(task) {
            Some(tool) => Ok(Some(Arc::clone(&tool.spec().kind))),
            None => Ok(self.node.store.spec(&task.spec).await?.map(|spec| spec.kind)),
        }
    }

    /// What runs `task`, or why nothing here can.
    ///
    /// # Errors
    /// Only if the store is closed.
    pub(crate) async fn runner(&self, task: &Task) -> Result<Result<Runner, Unavailable>, ApplyError> {
        let offered = self.catalog.tool(&task.tool);
        let concurrency = self.concurrency_of(&task.tool, offered.as_deref());
        if let Some(tool) = offered.filter(|tool| runs(tool, task)) {
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
        // Boxed, since it is rare and every attempt's future would hold it.
        Box::pin(self.runner_of_earlier_tool(task, concurrency)).await
    }

    /// What runs a task whose tool was changed or removed since.
    async fn runner_of_earlier_tool(
        &self,
        task: &Task,
        concurrency: Option<usize>,
    ) -> Result<Result<Runner, Unavailable>, ApplyError> {
        let read = || async { Ok(self.node.store.spec(&task.spec).await?) };
        let spec = self.node.retry_store("reading a tool's definition", read).await?;
        let durable = task.journaled > 0 || spec.as_ref().is_some_and(is_durable);
        let retry_elsewhere = spec
            .as_ref()
            .filter(|_| self.leaves_to_others(&task.tool))
            .and_then(|spec| retry_and_definition(spec).ok());
        let revived = self.revive(spec).or_else(|why| {
            let (retry, _) = retry_elsewhere.ok_or(why)?;
            Ok((ExecutorElsewhere::new(durable) as Arc<dyn Executor>, retry))
        });
        let runner = revived.map(|(executor, retry)| Runner {
            executor,
            retry,
            concurrency,
            input_timeout: INPUT_TIMEOUT,
            intake: None,
            spec: task.spec.clone(),
            on_non_determinism: OnNonDeterminism::default(),
            blocked_timeout: BLOCKED_TIMEOUT,
        });
        Ok(runner.map_err(|why| Unavailable { why, durable }))
    }

    fn revive(&self, spec: Option<ToolSpec>) -> Result<(Arc<dyn Executor>, Retry), String> {
        let spec = spec.ok_or("its definition is not in the store")?;
        let provider = self
            .provider(&spec.kind)
            .ok_or("this server has no code for it any more; start a version that has the tool, or cancel the task")?;
        let (retry, definition) = retry_and_definition(&spec)?;
        Ok((provider.revive(&definition)?, retry))
    }
}

/// Whether `tool` runs `task`: if its definition is the task's, or it is durable.
fn runs(tool: &Tool, task: &Task) -> bool {
    tool.spec().id == task.spec || tool.settings().executor.replays()
}
