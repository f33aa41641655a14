//! Grade 2: rmcp's task manager, its records kept.

mod context;
mod executor;
mod shown;

pub use context::TaskContext;

use executor::{Closures, Definition, Function, Given, Kept, Reviving, Work};
use longhaul_core::{
    CancelMode, HostId, Json, Millis, Owner, Principal, Quota, Retry, RetryOn, Scope, SpecId, Store, TaskId,
};
use longhaul_runtime::{
    Call, CancelError, Catalog, Engine, EngineOptions, Ports, Requestor, StartError, Tool, ToolSettings,
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

/// How often a registered function is begun in all, unless said otherwise, if the process ends under it.
const ATTEMPTS: u32 = 3;
/// Before the second attempt, in milliseconds.
const BACKOFF: Millis = 1000;
/// How long what is kept for ever is kept, in milliseconds: a hundred years.
const FOR_EVER: Millis = 100 * 365 * 24 * 3600 * 1000;

/// A task manager cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The directory cannot be used.
    #[error(transparent)]
    Directory(#[from] longhaul_store::OpenError),
    /// What is kept in it cannot be read.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The runtime is shutting down.
    #[error("the runtime is shutting down")]
    Stopped,
}

/// A [task manager](TaskManager) before it is opened: what it can run again after a crash.
#[must_use = "nothing is kept until it is opened"]
pub struct Builder {
    functions: HashMap<String, Function>,
    attempts: u32,
    accept_restored: bool,
}

impl Builder {
    /// Registers a function for [`TaskManager::spawn_function`]. Its tasks keep their arguments: after a crash it is run again with them,
    /// from its start. Register it under the same name at every start.
    pub fn function<F>(mut self, name: impl Into<String>, function: F) -> Self
    where
        F: Fn(TaskContext, JsonObject) -> TaskFuture + Send + Sync + 'static,
    {
        self.functions.insert(name.into(), Box::new(function));
        self
    }

    /// How often a function may be begun in all if the process ends under it, at least once; by default 3 times.
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts.max(1);
        self
    }

    /// Opens a directory also if its database was restored from a backup. Without this it is refused: what it calls running may have ended since
    /// it was copied, and would run again.
    pub fn accept_restored_database(mut self, accept: bool) -> Self {
        self.accept_restored = accept;
        self
    }

    /// Keeps records in this directory, which is made if it is not there and belongs to one process at a time. Takes up what an earlier
    /// process left: functions run again, closures have ended as interrupted.
    ///
    /// # Errors
    /// [`OpenError`].
    pub async fn open(self, directory: impl AsRef<Path>) -> Result<TaskManager, OpenError> {
        let path = directory.as_ref().to_owned();
        // Waits for an earlier owner, perhaps for two seconds.
        let options = SqliteOptions {
            accept_restored: self.accept_restored,
            ..SqliteOptions::default()
        };
        let opened = Ports::system()
            .blocking(move || SqliteStore::open(&path, options))
            .await;
        self.with_store(Arc::new(opened.ok_or(OpenError::Stopped)??)).await
    }

    /// Keeps records in memory, for tests: they end with this process.
    ///
    /// # Errors
    /// [`OpenError`].
    pub async fn in_memory(self) -> Result<TaskManager, OpenError> {
        self.with_store(Arc::new(MemoryStore::default())).await
    }

    /// Keeps records in a store of yours, which no other server uses. How well they are kept is the store's promise.
    ///
    /// # Errors
    /// [`OpenError`].
    pub async fn with_store(self, store: Arc<dyn Store>) -> Result<TaskManager, OpenError> {
        let ports = Ports::system();
        let work = Arc::new(Work {
            functions: self.functions,
            closures: Closures::new(&*ports.entropy),
        });
        let options = EngineOptions {
            store,
            ports,
            // The records are in the store, and whoever owns that may take them up.
            host: HostId("data-dir".into()),
            catalog: Catalog::default(),
            providers: vec![Arc::new(Reviving(Arc::clone(&work)))],
            max_running: None,
            quota: Quota::default(),
            suspend_after: longhaul_runtime::SUSPEND_AFTER,
            // None of its functions keeps a journal, so none is ever blocked.
            build: longhaul_runtime::BuildId::named("rmcp"),
            step_observer: None,
        };
        let (engine, _) = Engine::start(options).await?;
        Ok(TaskManager(Arc::new(Shared {
            engine,
            work,
            attempts: self.attempts,
            poll_intervals: Mutex::default(),
        })))
    }
}

/// rmcp's [`TaskManager`](rmcp::task_manager::TaskManager), with records that survive the process: the same methods, to be awaited, and
/// the same types. Cheap to clone; it works until [`shutdown`](Self::shutdown).
///
/// ```
/// use longhaul_rmcp::TaskManager;
/// use rmcp::{model::{CallToolResult, ContentBlock}, task_manager::TaskOptions};
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # // Kept: the work goes on after this, and a process whose records are removed under it ends with an error.
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
    work: Arc<Work>,
    attempts: u32,
    /// What is known of the definitions tasks were made with.
    poll_intervals: Mutex<HashMap<SpecId, Option<u64>>>,
}

impl TaskManager {
    /// To say what can be run again after a crash, and where records are kept.
    pub fn builder() -> Builder {
        Builder {
            functions: HashMap::new(),
            attempts: ATTEMPTS,
            accept_restored: false,
        }
    }

    /// A manager of closures only, its records in this directory.
    ///
    /// # Errors
    /// [`OpenError`].
    pub async fn open(directory: impl AsRef<Path>) -> Result<Self, OpenError> {
        Self::builder().open(directory).await
    }

    /// Runs a closure as a task. Its record is kept when this completes; the closure itself cannot be: if the process ends under it, the
    /// task is `failed` with "interrupted" from the next start on.
    ///
    /// `make_future` is called soon, not before this returns. For `options.ttl_ms` see the [crate](crate).
    ///
    /// # Errors
    /// If the record could not be kept; nothing runs then.
    pub async fn spawn<F>(&self, options: TaskOptions, make_future: F) -> Result<Task, ErrorData>
    where
        F: FnOnce(TaskContext) -> TaskFuture + Send + 'static,
    {
        let (ticket, arguments) = self.0.work.closures.hand_in(Box::new(make_future));
        let created = self.create(None, &options, arguments).await;
        if created.is_err() {
            self.0.work.closures.take(&ticket);
        }
        created
    }

    /// Runs a [registered function](Builder::function) as a task. Its record and the arguments are kept when this completes.
    ///
    /// # Errors
    /// If there is no function of this name, or the record could not be kept; nothing runs then.
    pub async fn spawn_function(
        &self,
        options: TaskOptions,
        name: &str,
        arguments: JsonObject,
    ) -> Result<Task, ErrorData> {
        if !self.0.work.functions.contains_key(name) {
            let why = format!("no function `{name}` is registered: say `TaskManager::builder().function({name:?}, …)`");
            return Err(ErrorData::internal_error(why, None));
        }
        self.create(Some(name), &options, json!(arguments)).await
    }

    /// Handles `tasks/get`.
    ///
    /// # Errors
    /// −32602 for a task that is not or no longer kept; −32603 if records cannot be read.
    pub async fn get_task(&self, task_id: &str) -> Result<DetailedTask, ErrorData> {
        let record = self.record(task_id).await?;
        let poll_interval = self.poll_interval(&record.task.spec).await?;
        shown::detailed(record, poll_interval, self.0.engine.ports().clock.read())
    }

    /// Handles `tasks/update`: answers what the task has asked. Answers that nobody waits for are ignored; the others are kept when this
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
        answered.map(drop).map_err(|error| shown::not_kept(&error))
    }

    /// Handles `tasks/cancel`: asks the work to stop, which decides itself what the task comes to. The wish is kept when this completes.
    ///
    /// # Errors
    /// As for [`get_task`](Self::get_task).
    pub async fn cancel_task(&self, task_id: &str) -> Result<(), ErrorData> {
        let id = parse(task_id)?;
        match self.0.engine.cancel(&scope(), &id, CancelMode::Cooperative).await {
            Ok(_) | Err(CancelError::Done(_)) => Ok(()),
            Err(CancelError::NotFound) => Err(shown::unknown(task_id)),
            Err(CancelError::Store(error)) => Err(shown::not_kept(&error)),
        }
    }

    /// How many tasks are not over.
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
            .map_err(|error| shown::not_kept(&error))?;
        let live = counts.queued + counts.running + counts.suspended + counts.blocked;
        Ok(usize::try_from(live).unwrap_or(usize::MAX))
    }

    /// Ends all work where it stands. Unlike rmcp's, this keeps the records: a manager opened on them later finds them as a crash would
    /// have left them.
    pub fn shutdown(&self) {
        self.0.engine.stop();
    }

    async fn create(&self, function: Option<&str>, options: &TaskOptions, arguments: Value) -> Result<Task, ErrorData> {
        let definition = Definition {
            function: function.map(str::to_owned),
            poll_interval_ms: options.poll_interval_ms,
        };
        let given = Given {
            status_message: options.status_message.clone(),
            arguments,
        };
        let given =
            serde_json::to_string(&given).map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
        let tool = self
            .tool(definition, options)
            .map_err(|error| ErrorData::internal_error(error, None))?;
        let keep = self.0.engine.store().put_spec(tool.spec().clone());
        keep.await.map_err(|error| shown::not_kept(&error))?;
        let call = Call {
            tool,
            arguments: Json::trusted(given),
            owner: Owner {
                principal: Principal::local(),
                session: None,
            },
            origin: longhaul_core::Origin::Modern,
            requestor: Requestor::default(),
            idempotency_key: None,
            ttl: None,
            cancel_if_caller_leaves: false,
        };
        let created = self.0.engine.create(call).await;
        let created = created.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
        let mut task = shown::task(&created, options.poll_interval_ms, self.0.engine.ports().clock.read());
        task.status_message = task.status_message.or_else(|| options.status_message.clone());
        Ok(task)
    }

    /// What the engine takes a task's terms from. Only the definition is kept with the task; the rest goes into its record.
    fn tool(&self, definition: Definition, options: &TaskOptions) -> Result<Arc<Tool>, String> {
        let name: Arc<str> = definition.function.as_deref().unwrap_or("closure").into();
        let retry = match definition.function {
            Some(_) => Retry {
                attempts: self.0.attempts,
                backoff: BACKOFF,
                on: vec![RetryOn::Crash],
            },
            None => Retry::default(),
        };
        let frozen = serde_json::to_value(&definition).map_err(|error| error.to_string())?;
        let kept = Arc::new(Kept {
            definition,
            work: Arc::clone(&self.0.work),
        });
        let settings = ToolSettings {
            deadline: options.ttl_ms,
            retention: options.ttl_ms.unwrap_or(FOR_EVER),
            retry,
            ..ToolSettings::new(name, executor::KIND, Json::from(frozen), kept)
        };
        Tool::new(settings).map(Arc::new).map_err(|error| error.to_string())
    }

    async fn record(&self, task_id: &str) -> Result<longhaul_core::store::Record, ErrorData> {
        let record = self.0.engine.get(&scope(), &parse(task_id)?).await;
        record
            .map_err(|error| shown::not_kept(&error))?
            .ok_or_else(|| shown::unknown(task_id))
    }

    /// Tasks made alike share a definition, so there are few.
    async fn poll_interval(&self, spec: &SpecId) -> Result<Option<u64>, ErrorData> {
        let known = self.0.poll_intervals.lock().get(spec).copied();
        if let Some(known) = known {
            return Ok(known);
        }
        let found = self
            .0
            .engine
            .store()
            .spec(spec)
            .await
            .map_err(|error| shown::not_kept(&error))?;
        let interval = found
            .and_then(|spec| Definition::of_spec(&spec))
            .and_then(|definition| definition.poll_interval_ms);
        let mut intervals = self.0.poll_intervals.lock();
        intervals.insert(spec.clone(), interval);
        Ok(interval)
    }
}

/// Whose tasks they are is the business of the rmcp server that asks.
fn scope() -> Scope {
    Scope::of(Principal::local())
}

fn parse(task_id: &str) -> Result<TaskId, ErrorData> {
    task_id.parse().map_err(|_| shown::unknown(task_id))
}
