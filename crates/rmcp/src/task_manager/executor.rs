//! The code of tasks: closures of this process, and functions that are registered by name at every start.

use super::{TaskContext, conversion};
use longhaul_core::{BoxFuture, Entropy, Json, Outcome, RpcFailure, StopReason, ToolSpec};
use longhaul_runtime::{ExecutionEnd, Executor, ExecutorAttempt, Provider};
use parking_lot::Mutex;
use rmcp::{
    ErrorData,
    model::{CallToolResult, JsonObject},
    task_manager::{TaskExit, TaskFuture},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// The executor kind that is stored with each task's definition; it must not change.
pub(super) const KIND: &str = "rmcp_kept";

pub(super) type Function = Box<dyn Fn(TaskContext, JsonObject) -> TaskFuture + Send + Sync>;
pub(super) type Closure = Box<dyn FnOnce(TaskContext) -> TaskFuture + Send>;

/// The functions and closures that tasks can run.
pub(super) struct TaskCode {
    pub(super) functions: HashMap<String, Function>,
    pub(super) closures: PendingClosures,
}

/// Closures whose tasks have not started.
pub(super) struct PendingClosures {
    /// A random number, so that an id of an earlier process names no closure of this one.
    process: u64,
    next: AtomicU64,
    by_id: Mutex<HashMap<ClosureId, Closure>>,
}

/// Names the closure of a task.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct ClosureId {
    process: u64,
    closure: u64,
}

impl PendingClosures {
    pub(super) fn new(entropy: &dyn Entropy) -> Self {
        let mut process = [0; 8];
        entropy.fill(&mut process);
        Self {
            process: u64::from_le_bytes(process),
            next: AtomicU64::new(0),
            by_id: Mutex::default(),
        }
    }

    /// Adds a closure; returns its id, also as JSON for the task's arguments.
    pub(super) fn insert(&self, closure: Closure) -> (ClosureId, Value) {
        let id = ClosureId {
            process: self.process,
            closure: self.next.fetch_add(1, Ordering::Relaxed),
        };
        let arguments = json!({"process": id.process, "closure": id.closure});
        self.by_id.lock().insert(id.clone(), closure);
        (id, arguments)
    }

    pub(super) fn remove(&self, id: &ClosureId) -> Option<Closure> {
        self.by_id.lock().remove(id)
    }
}

/// The definition of tasks, stored once for all tasks that share it, and never deleted.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TaskDefinition {
    /// The name of the function; `None` for closures.
    pub(super) function: Option<String>,
    pub(super) poll_interval_ms: Option<u64>,
}

/// What is stored as a task's arguments.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct StoredArguments {
    pub(super) status_message: Option<String>,
    /// A function's arguments, or a closure's id.
    pub(super) arguments: Value,
}

impl TaskDefinition {
    /// Reads the definition that is stored with a task.
    pub(super) fn of_spec(spec: &ToolSpec) -> Option<Self> {
        #[derive(Deserialize)]
        struct StoredSpec {
            executor: TaskDefinition,
        }
        serde_json::from_str::<StoredSpec>(spec.definition.as_str())
            .ok()
            .map(|spec| spec.executor)
    }
}

/// Runs a task of the manager.
pub(super) struct TaskExecutor {
    pub(super) definition: TaskDefinition,
    pub(super) code: Arc<TaskCode>,
}

impl TaskExecutor {
    /// `None` for a closure of an earlier process.
    fn start(&self, arguments: Value, cx: TaskContext) -> Option<TaskFuture> {
        match &self.definition.function {
            Some(name) => {
                let arguments = serde_json::from_value(arguments).ok()?;
                Some(self.code.functions.get(name)?(cx, arguments))
            }
            None => {
                let id: ClosureId = serde_json::from_value(arguments).ok()?;
                Some(self.code.closures.remove(&id)?(cx))
            }
        }
    }
}

impl Executor for TaskExecutor {
    fn asks_again(&self) -> bool {
        true
    }

    fn run(
        self: Arc<Self>,
        attempt: ExecutorAttempt,
        cx: longhaul_runtime::TaskContext,
    ) -> BoxFuture<'static, ExecutionEnd> {
        Box::pin(async move {
            let Ok(stored) = serde_json::from_str::<StoredArguments>(attempt.arguments.as_str()) else {
                return ExecutionEnd::Crashed;
            };
            if let Some(line) = stored.status_message {
                cx.status(line);
            }
            cx.started();
            let Some(code) = self.start(stored.arguments, TaskContext::new(cx.clone())) else {
                return ExecutionEnd::Crashed;
            };
            tokio::select! {
                biased;
                exit = code => end(exit),
                () = expired(&cx) => ExecutionEnd::Finished(failed(conversion::expired())),
            }
        })
    }
}

/// Completes when the TTL has passed: then the code is dropped. A cancel only asks it to stop.
async fn expired(cx: &longhaul_runtime::TaskContext) {
    if cx.stopped().await == StopReason::Cancel {
        std::future::pending().await
    }
}

/// The outcome is what the code returns, also after a cancel.
fn end(exit: Result<CallToolResult, TaskExit>) -> ExecutionEnd {
    ExecutionEnd::Finished(match exit {
        Ok(result) => match serde_json::to_value(&result) {
            Ok(result) => Outcome::result(Json::from(result)),
            Err(error) => failed(ErrorData::internal_error(
                format!("the result cannot be written as JSON: {error}"),
                None,
            )),
        },
        Err(TaskExit::Cancelled) => Outcome::Cancelled,
        Err(TaskExit::Error(error)) => failed(error),
    })
}

fn failed(error: ErrorData) -> Outcome {
    Outcome::RpcError(RpcFailure {
        code: error.code.0,
        message: (&*error.message).into(),
        data: error.data.map(Json::from),
    })
}

/// Makes executors for stored tasks by their definition.
pub(super) struct ExecutorProvider(pub(super) Arc<TaskCode>);

impl Provider for ExecutorProvider {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn revive(&self, definition: &Json) -> Result<Arc<dyn Executor>, String> {
        let definition: TaskDefinition =
            serde_json::from_str(definition.as_str()).map_err(|error| error.to_string())?;
        if let Some(name) = definition
            .function
            .as_ref()
            .filter(|name| !self.0.functions.contains_key(*name))
        {
            return Err(format!("no function `{name}` is registered any more"));
        }
        Ok(Arc::new(TaskExecutor {
            definition,
            code: Arc::clone(&self.0),
        }))
    }

    fn keeps_logs(&self) -> bool {
        false
    }
}
