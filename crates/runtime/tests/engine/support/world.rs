use super::{FaultyStore, ManualClock, Run, Runs, Script, guarded, settle};
use longhaul_core::{
    BoxFuture, Entropy, HostId, Json, Millis, Origin, Outcome, Owner, Principal, Quota, Retry, RetryOn, Scope, State,
    Store, Task, TaskId,
    store::{NewNode, NodeRole, Record},
};
use longhaul_runtime::{
    Call, Catalog, Engine, EngineOptions, Executor, Ports, Provider, Recovered, Spawner, StartError, Tool, ToolSettings,
};
use longhaul_store::{MemoryStore, SqliteOptions, SqliteStore};
use serde_json::json;
use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// What outlives an engine: the clock and the store.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) store: Arc<dyn Store>,
    minted: Arc<AtomicU64>,
    pub(crate) providers: Vec<Arc<dyn Provider>>,
    pub(crate) max_running: Option<usize>,
    pub(crate) quota: Quota,
    /// The build of the servers that are started from now on.
    pub(crate) build: String,
    pub(crate) host: HostId,
    pub(crate) role: NodeRole,
    pub(crate) lost_after: Millis,
    pub(crate) may_begin: Option<Arc<longhaul_runtime::MayBegin>>,
    pub(crate) cipher: Option<Arc<dyn longhaul_runtime::ArgumentCipher>>,
}

impl World {
    pub(crate) fn in_memory() -> Self {
        Self::over(Arc::new(MemoryStore::new()))
    }

    pub(crate) fn over(store: Arc<dyn Store>) -> Self {
        Self {
            clock: Arc::new(ManualClock::new()),
            store,
            // Not 0, with which every drawn time would be at once.
            minted: Arc::new(AtomicU64::new(1)),
            providers: Vec::new(),
            max_running: None,
            quota: Quota::default(),
            build: "test".to_owned(),
            host: HostId("here".into()),
            role: NodeRole::Both,
            lost_after: longhaul_runtime::HOST_LOST_AFTER,
            may_begin: None,
            cipher: None,
        }
    }

    /// A world whose store can be tripped.
    pub(crate) fn faulty() -> (Self, Arc<FaultyStore>) {
        let store = FaultyStore::over(Arc::new(MemoryStore::new()));
        (Self::over(store.clone()), store)
    }

    pub(crate) fn with_slots(mut self, max_running: usize) -> Self {
        self.max_running = Some(max_running);
        self
    }

    pub(crate) async fn start(&self, tools: impl IntoIterator<Item = ToolSettings>) -> Engine {
        self.start_and_recover(tools).await.0
    }

    pub(crate) async fn start_and_recover(&self, tools: impl IntoIterator<Item = ToolSettings>) -> (Engine, Recovered) {
        guarded("the engine to start", self.try_start(tools)).await.unwrap()
    }

    pub(crate) async fn try_start(
        &self,
        tools: impl IntoIterator<Item = ToolSettings>,
    ) -> Result<(Engine, Recovered), StartError> {
        let tools = tools.into_iter().map(|settings| Tool::new(settings).unwrap());
        let options = EngineOptions {
            store: self.store.clone(),
            ports: Ports {
                clock: self.clock.clone(),
                entropy: Arc::new(Counting(self.minted.clone())),
                spawner: Arc::new(OnRuntime(tokio::runtime::Handle::current())),
            },
            node: NewNode {
                role: self.role,
                ..self.host.clone().into()
            },
            lost_after: self.lost_after,
            catalog: Catalog::new(tools).unwrap(),
            providers: self.providers.clone(),
            max_running: self.max_running,
            quota: self.quota,
            suspend_after: longhaul_runtime::SUSPEND_AFTER,
            build: longhaul_runtime::BuildId::named(self.build.as_str()),
            step_observer: None,
            may_begin: self.may_begin.clone(),
            cipher: self.cipher.clone(),
        };
        Engine::start(options).await
    }

    /// A server of the tool `a`, whose attempts the test plays.
    pub(crate) async fn scripted(&self) -> (Engine, Runs) {
        self.playing(|_| {}).await
    }

    /// As [`scripted`](Self::scripted), with work that lives outside the process.
    pub(crate) async fn bound(&self) -> (Engine, Runs) {
        let (engine, runs, _) = self.recovered(true).await;
        (engine, runs)
    }

    /// As [`scripted`](Self::scripted), with a task that runs.
    pub(crate) async fn running(&self) -> (Engine, Runs, Task, Run) {
        let (engine, mut runs) = self.scripted().await;
        let task = engine.create(engine.call("a")).await.unwrap();
        let run = runs.next().await;
        (engine, runs, task, run)
    }

    /// As [`scripted`](Self::scripted), of a tool whose settings are changed first.
    pub(crate) async fn playing(&self, change: impl FnOnce(&mut ToolSettings)) -> (Engine, Runs) {
        let (engine, runs, _) = self.recovering(false, change).await;
        (engine, runs)
    }

    /// A server of the tool `a`, and what it found at its start.
    pub(crate) async fn recovered(&self, host_bound: bool) -> (Engine, Runs, Recovered) {
        self.recovering(host_bound, |_| {}).await
    }

    pub(crate) async fn recovering(
        &self,
        host_bound: bool,
        change: impl FnOnce(&mut ToolSettings),
    ) -> (Engine, Runs, Recovered) {
        let (script, runs) = Script::bound(host_bound);
        let mut settings = tool("a", script);
        change(&mut settings);
        let (engine, recovered) = self.start_and_recover([settings]).await;
        (engine, runs, recovered)
    }

    /// Lets so much time pass that all leases which are renewed stay held.
    pub(crate) async fn pass(&self, millis: i64) {
        for _ in 0..millis / 1_000 {
            self.clock.advance(1_000);
            settle().await;
        }
    }

    /// The task as the store has it.
    pub(crate) async fn task(&self, id: &TaskId) -> Task {
        self.record(id).await.task
    }

    pub(crate) async fn record(&self, id: &TaskId) -> Record {
        self.store.get_unscoped(id).await.unwrap().expect("the task exists")
    }

    /// Waits until the task is as wanted.
    pub(crate) async fn until(&self, engine: &Engine, id: &TaskId, wanted: impl Fn(&Task) -> bool) -> Task {
        guarded("a task to change", async {
            let mut watch = engine.watch(id);
            loop {
                let task = self.task(id).await;
                if wanted(&task) {
                    return task;
                }
                watch.changed().await;
            }
        })
        .await
    }

    /// Waits until the task is in this state.
    pub(crate) async fn reaches(&self, engine: &Engine, id: &TaskId, state: State) -> Task {
        self.until(engine, id, |task| task.state == state).await
    }

    /// Waits until the task asks something.
    pub(crate) async fn asks(&self, engine: &Engine, id: &TaskId) -> Task {
        self.until(engine, id, |task| !task.open_inputs.is_empty()).await
    }

    /// Waits until no attempt of the task is there any more.
    pub(crate) async fn rests(&self, engine: &Engine, id: &TaskId) -> Task {
        self.until(engine, id, |task| task.active_attempt().is_none()).await
    }

    /// Waits for the end of the task.
    pub(crate) async fn outcome(&self, engine: &Engine, id: &TaskId) -> Outcome {
        self.until(engine, id, Task::is_done).await;
        self.record(id)
            .await
            .outcome
            .expect("a task that is over has an outcome")
    }

    pub(crate) async fn state(&self, id: &TaskId) -> State {
        self.task(id).await.state
    }
}

/// One life of a server over a directory: its threads and futures are gone when it ends, whatever they were at, and only what
/// is on disk is left.
pub(crate) struct Process;

/// How many processes this test has started.
static STARTED: AtomicU64 = AtomicU64::new(0);

impl Process {
    pub(crate) fn run<T>(directory: &Path, clock: &Arc<ManualClock>, life: impl AsyncFnOnce(World) -> T) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let store = SqliteStore::open(directory, SqliteOptions::default()).unwrap();
            let mut world = World::over(Arc::new(store));
            world.clock = clock.clone();
            // Ids that an earlier process has minted are not minted again.
            let earlier = STARTED.fetch_add(1, Ordering::SeqCst);
            world.minted.fetch_add(100 * earlier, Ordering::SeqCst);
            life(world).await
        })
    }
}

/// The directory of a server, and its clock.
pub(crate) fn home() -> (tempfile::TempDir, Arc<ManualClock>) {
    (tempfile::tempdir().unwrap(), Arc::new(ManualClock::new()))
}

/// Everything that is local.
pub(crate) fn scope() -> Scope {
    Scope::of(Principal::local())
}

/// A tool without limits of any kind.
pub(crate) fn tool(name: &str, executor: Arc<dyn Executor>) -> ToolSettings {
    ToolSettings {
        retention: 3_600_000,
        ..ToolSettings::new(name, "script", Json::from(json!({"name": name})), executor)
    }
}

pub(crate) fn retry(attempts: u32, backoff: Millis, on: impl Into<Vec<RetryOn>>) -> Retry {
    Retry {
        attempts,
        backoff,
        on: on.into(),
    }
}

/// A call of the engine's tool of this name.
pub(crate) trait CallOf {
    fn call(&self, tool: &str) -> Call;
}

impl CallOf for Engine {
    fn call(&self, tool: &str) -> Call {
        Call {
            tool: self.catalog().tool(tool).unwrap(),
            arguments: Json::trusted("{}"),
            owner: Owner {
                principal: Principal::local(),
                session: None,
            },
            origin: Origin::Modern,
            requestor: Arc::default(),
            idempotency_key: None,
            ttl: None,
            priority: None,
            cancel_if_caller_leaves: true,
        }
    }
}

/// Counts, so that ids sort as they were minted, also within a millisecond.
struct Counting(Arc<AtomicU64>);

impl Entropy for Counting {
    fn fill(&self, bytes: &mut [u8]) {
        let mut count = self.0.fetch_add(1, Ordering::SeqCst);
        for byte in bytes.iter_mut().rev() {
            *byte = u8::try_from(count % 32).unwrap();
            count /= 32;
        }
    }
}

struct OnRuntime(tokio::runtime::Handle);

impl Spawner for OnRuntime {
    #[expect(clippy::disallowed_methods, reason = "this is the port")]
    fn spawn(&self, work: BoxFuture<'static, ()>) {
        self.0.spawn(work);
    }

    #[expect(clippy::disallowed_methods, reason = "this is the port")]
    fn spawn_blocking(&self, work: Box<dyn FnOnce() + Send>) {
        self.0.spawn_blocking(work);
    }
}
