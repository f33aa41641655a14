//! A drop-in for rmcp's task manager whose records survive.

mod context;
mod conversion;
mod executor;

pub use context::TaskContext;

use executor::{ExecutorProvider, Function, PendingClosures, StoredArguments, TaskCode, TaskDefinition, TaskExecutor};
use longhaul_core::{
    CancelMode, HostId, Json, Millis, Owner, Principal, Quota, Retry, RetryOn, Scope, SpecId, Store, TaskId,
};
use longhaul_runtime::{
    Call, CancelError, Catalog, Engine, EngineOptions, Executor, Ports, StartError, Tool, ToolSettings,
};
use longhaul_store::{MemoryStore, SqliteOptions, SqliteStore};
use parking_lot::Mutex;
use rmcp::{
    ErrorData,
    model::{DetailedTask, JsonObject, Task},
    task_manager::{TaskFuture, TaskOptions},
};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
    sync::Arc,
};

/// The default of [`TaskManagerBuilder::attempts`].
const ATTEMPTS: u32 = 3;
/// The wait before the second attempt, in milliseconds.
const BACKOFF: Millis = 1000;
/// The retention of tasks without a TTL, in milliseconds: a hundred years.
const FOREVER: Millis = 100 * 365 * 24 * 3600 * 1000;

/// A task manager cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The directory cannot be used.
    #[error(transparent)]
    Directory(#[from] longhaul_store::SqliteOpenError),
    /// Its records cannot be read.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The runtime is shutting down.
    #[error("the runtime is shutting down")]
    Stopped,
}

/// A [`TaskManager`] that is not open yet, and the functions that it can run again after a crash.
#[must_use = "nothing is stored until it is opened"]
pub struct TaskManagerBuilder {
    functions: HashMap<String, Function>,
    attempts: u32,
    accept_restored: bool,
}

impl TaskManagerBuilder {
    /// Registers a function for [`TaskManager::spawn_function`]. The arguments of its tasks are stored: after a crash it runs again with them,
    /// from its start. Register it under the same name in every process.
    pub fn function<F>(mut self, name: impl Into<String>, function: F) -> Self
    where
        F: Fn(TaskContext, JsonObject) -> TaskFuture + Send + Sync + 'static,
    {
        self.functions.insert(name.into(), Box::new(function));
        self
    }

    /// How often a function may be started in all if the process ends while it runs, at least once; by default 3 times.
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts.max(1);
        self
    }

    /// Opens a directory even if its database was restored from a backup. Without this it is refused: tasks that the backup has as running
    /// may have ended since, and would run again.
    pub fn accept_restored_database(mut self, accept: bool) -> Self {
        self.accept_restored = accept;
        self
    }

    /// Stores records in this directory, which is created if needed and belongs to one process at a time. Recovers the tasks of an earlier
    /// process: functions run again, and closures end as interrupted.
    ///
    /// # Errors
    /// [`OpenError`].
    pub async fn open(self, directory: impl AsRef<Path>) -> Result<TaskManager, OpenError> {
        let path = directory.as_ref().to_owned();
        // Waits up to two seconds for an earlier owner.
        let options = SqliteOptions {
            accept_restored: self.accept_restored,
            ..SqliteOptions::default()
        };
        let opened = Ports::system()
            .blocking(move || SqliteStore::open(&path, options))
            .await;
        let store = opened.ok_or(OpenError::Stopped)??;
        let host = store.host_id().clone();
        self.start(Arc::new(store), host).await
    }

    /// Stores records in memory, for tests: they are lost with this process.
    ///
    /// # Errors
    /// [`OpenError`].
    pub async fn in_memory(self) -> Result<TaskManager, OpenError> {
        self.with_store(Arc::new(MemoryStore::default())).await
    }

    /// Stores records in a store of your own, which no other server uses. What survives depends on that store.
    ///
    /// # Errors
    /// [`OpenError`].
    pub async fn with_store(self, store: Arc<dyn Store>) -> Result<TaskManager, OpenError> {
        // No other server uses the store, so it may have one host.
        self.start(store, HostId("task-manager".into())).await
    }

    async fn start(self, store: Arc<dyn Store>, host: HostId) -> Result<TaskManager, OpenError> {
        let ports = Ports::system();
        let code = Arc::new(TaskCode {
            functions: self.functions,
            closures: PendingClosures::new(&*ports.entropy),
        });
        let options = EngineOptions {
            store,
            ports,
            node: host.into(),
            lost_after: longhaul_runtime::HOST_LOST_AFTER,
            catalog: Catalog::default(),
            providers: vec![Arc::new(ExecutorProvider(Arc::clone(&code)))],
            max_running: None,
            quota: Quota::default(),
            suspend_after: longhaul_runtime::SUSPEND_AFTER,
            // The functions keep no journal, so no task is ever blocked and the build does not matter.
            build: longhaul_runtime::BuildId::named("rmcp"),
            step_observer: None,
            may_begin: None,
            cipher: None,
        };
        let (engine, _) = Engine::start(options).await?;
        Ok(TaskManager(Arc::new(Shared {
            engine,
            code,
            attempts: self.attempts,
            poll_intervals: Mutex::default(),
        })))
    }
}

/// As rmcp's [`TaskManager`](rmcp::task_manager::TaskManager), with records that survive the process. The methods are the same, but async, and
/// so are the types. Cheap to clone; it works until [`shutdown`](Self::shutdown).
///
/// ```
/// use longhaul_rmcp::TaskManager;
/// use rmcp::{model::{CallToolResult, ContentBlock}, task_manager::TaskOptions};
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # // Not removed at the end: the task still runs, and a process whose records are removed ends with an error.
/// # let directory = tempfile::tempdir()?.keep();
/// let tasks = TaskManager::builder()
///     .function("greet", |_, arguments| Box::pin(async move {
///         let name = arguments.get("name").and_then(|name| name.as_str()).unwrap_or("you").to_owned();
///         Ok(CallToolResult::success(vec![ContentBlock::text(format!("Hello, {name}!"))]))
///     }))
///     .open(&directory)
///     .await?;
/// let arguments = serde_json::from_str(r#"{"name": "Ada"}"#)?;
/// let task = tasks.spawn_function(TaskOptions::default(), "greet", arguments).await?;
/// let now = tasks.get_task(&task.task_id).await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct TaskManager(Arc<Shared>);

struct Shared {
    engine: Engine,
    code: Arc<TaskCode>,
    attempts: u32,
    /// A cache of the poll intervals in definitions.
    poll_intervals: Mutex<HashMap<SpecId, Option<u64>>>,
}

impl TaskManager {
    /// A builder, to register functions and to choose where records are stored.
    pub fn builder() -> TaskManagerBuilder {
        TaskManagerBuilder {
            functions: HashMap::new(),
            attempts: ATTEMPTS,
            accept_restored: false,
        }
    }

    /// Opens a manager of closures only, with its records in this directory.
    ///
    /// # Errors
    /// [`OpenError`].
    pub async fn open(directory: impl AsRef<Path>) -> Result<Self, OpenError> {
        Self::builder().open(directory).await
    }

    /// Runs a closure as a task. When this completes, the task's record is stored. The closure is not: if the process ends while it runs, the
    /// task is `failed` with "interrupted" from the next start on.
    ///
    /// `make_future` may be called after this returns. For `options.ttl_ms` see the [crate].
    ///
    /// # Errors
    /// If the record could not be stored; then nothing runs.
    pub async fn spawn<F>(&self, options: TaskOptions, make_future: F) -> Result<Task, ErrorData>
    where
        F: FnOnce(TaskContext) -> TaskFuture + Send + 'static,
    {
        let (closure_id, arguments) = self.0.code.closures.insert(Box::new(make_future));
        let created = self.create(None, &options, arguments).await;
        if created.is_err() {
            self.0.code.closures.remove(&closure_id);
        }
        created
    }

    /// Runs a [registered function](TaskManagerBuilder::function) as a task. When this completes, its record and its arguments are stored.
    ///
    /// # Errors
    /// If there is no function of this name, or the record could not be stored; then nothing runs.
    pub async fn spawn_function(
        &self,
        options: TaskOptions,
        name: &str,
        arguments: JsonObject,
    ) -> Result<Task, ErrorData> {
        if !self.0.code.functions.contains_key(name) {
            let why = format!("no function `{name}` is registered: use `TaskManager::builder().function({name:?}, …)`");
            return Err(ErrorData::internal_error(why, None));
        }
        self.create(Some(name), &options, json!(arguments)).await
    }

    /// Handles `tasks/get`.
    ///
    /// # Errors
    /// −32602 for an unknown or deleted task; −32603 if records cannot be read.
    pub async fn get_task(&self, task_id: &str) -> Result<DetailedTask, ErrorData> {
        let record = self.record(task_id).await?;
        let poll_interval = self.poll_interval(&record.task.spec).await?;
        conversion::detailed_task(record, poll_interval, self.0.engine.ports().clock.read())
    }

    /// Handles `tasks/update`: answers the task's questions. Answers to no open question are ignored; the others are stored when this
    /// completes.
    ///
    /// # Errors
    /// As for [`get_task`](Self::get_task).
    pub async fn update_task(
        &self,
        task_id: &str,
        input_responses: impl IntoIterator<Item = (String, Value)>,
    ) -> Result<(), ErrorData> {
        let record = self.record(task_id).await?;
        let key_of = |name: &str| {
            let asked = record.inputs.iter().find(|input| input.name.as_deref() == Some(name));
            asked.map(|input| input.key.clone())
        };
        let answers = input_responses.into_iter();
        let answers = answers.filter_map(|(name, answer)| Some((key_of(&name)?, Json::from(answer))));
        let answers: BTreeMap<_, _> = answers.collect();
        let answered = self.0.engine.answer(&scope(), &record.task.id, answers).await;
        answered.map(drop).map_err(|error| conversion::store_error(&error))
    }

    /// Handles `tasks/cancel`: asks the task's code to stop; the code decides the outcome. The request is stored when this completes.
    ///
    /// # Errors
    /// As for [`get_task`](Self::get_task).
    pub async fn cancel_task(&self, task_id: &str) -> Result<(), ErrorData> {
        let id = parse(task_id)?;
        match self.0.engine.cancel(&scope(), &id, CancelMode::Cooperative).await {
            Ok(_) | Err(CancelError::Done(_)) => Ok(()),
            Err(CancelError::NotFound) => Err(conversion::unknown_task(task_id)),
            Err(CancelError::Store(error)) => Err(conversion::store_error(&error)),
        }
    }

    /// How many tasks have not ended.
    ///
    /// # Errors
    /// −32603 if records cannot be read.
    pub async fn running_task_count(&self) -> Result<usize, ErrorData> {
        let counts = self
            .0
            .engine
            .store()
            .counts()
            .await
            .map_err(|error| conversion::store_error(&error))?;
        let live = counts.queued + counts.running + counts.suspended + counts.blocked;
        Ok(usize::try_from(live).unwrap_or(usize::MAX))
    }

    /// Drops the code of all tasks. Unlike rmcp's, this keeps the records: a manager that opens them later recovers them as after a crash.
    pub fn shutdown(&self) {
        self.0.engine.stop();
    }

    async fn create(&self, function: Option<&str>, options: &TaskOptions, arguments: Value) -> Result<Task, ErrorData> {
        let definition = TaskDefinition {
            function: function.map(str::to_owned),
            poll_interval_ms: options.poll_interval_ms,
        };
        let stored = StoredArguments {
            status_message: options.status_message.clone(),
            arguments,
        };
        let stored =
            serde_json::to_string(&stored).map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
        let tool = self
            .tool(definition, options)
            .map_err(|error| ErrorData::internal_error(error, None))?;
        let stored_spec = self.0.engine.store().put_spec(tool.spec().clone());
        stored_spec.await.map_err(|error| conversion::store_error(&error))?;
        let call = Call {
            tool,
            arguments: Json::trusted(stored),
            owner: Owner {
                principal: Principal::local(),
                session: None,
            },
            origin: longhaul_core::Origin::Modern,
            requestor: Arc::default(),
            idempotency_key: None,
            ttl: None,
            priority: None,
            cancel_if_caller_leaves: false,
        };
        let created = self.0.engine.create(call).await;
        let created = created.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
        let mut task = conversion::task(&created, options.poll_interval_ms, self.0.engine.ports().clock.read());
        task.status_message = task.status_message.or_else(|| options.status_message.clone());
        Ok(task)
    }

    /// The engine's settings for a task. Only the definition is stored under its own id; the rest becomes part of the task's record.
    fn tool(&self, definition: TaskDefinition, options: &TaskOptions) -> Result<Arc<Tool>, String> {
        let name: Arc<str> = definition.function.as_deref().unwrap_or("closure").into();
        let retry = match definition.function {
            Some(_) => Retry {
                attempts: self.0.attempts,
                backoff: BACKOFF,
                on: vec![RetryOn::Crash],
            },
            None => Retry::default(),
        };
        let json = serde_json::to_value(&definition).map_err(|error| error.to_string())?;
        let executor: Arc<dyn Executor> = Arc::new(TaskExecutor {
            definition,
            code: Arc::clone(&self.0.code),
        });
        let settings = ToolSettings {
            deadline: options.ttl_ms,
            retention: options.ttl_ms.unwrap_or(FOREVER),
            retry,
            ..ToolSettings::new(name, executor::KIND, Json::from(json), executor)
        };
        Tool::new(settings).map(Arc::new).map_err(|error| error.to_string())
    }

    async fn record(&self, task_id: &str) -> Result<longhaul_core::store::Record, ErrorData> {
        let record = self.0.engine.get(&scope(), &parse(task_id)?).await;
        record
            .map_err(|error| conversion::store_error(&error))?
            .ok_or_else(|| conversion::unknown_task(task_id))
    }

    /// The cache stays small, because tasks with the same options share a definition.
    async fn poll_interval(&self, spec: &SpecId) -> Result<Option<u64>, ErrorData> {
        let cached = self.0.poll_intervals.lock().get(spec).copied();
        if let Some(cached) = cached {
            return Ok(cached);
        }
        let found = self
            .0
            .engine
            .store()
            .spec(spec)
            .await
            .map_err(|error| conversion::store_error(&error))?;
        let interval = found
            .and_then(|spec| TaskDefinition::of_spec(&spec))
            .and_then(|definition| definition.poll_interval_ms);
        let mut intervals = self.0.poll_intervals.lock();
        intervals.insert(spec.clone(), interval);
        Ok(interval)
    }
}

/// All tasks have one owner: the rmcp server checks who may see which task.
fn scope() -> Scope {
    Scope::of(Principal::local())
}

fn parse(task_id: &str) -> Result<TaskId, ErrorData> {
    task_id.parse().map_err(|_| conversion::unknown_task(task_id))
}
