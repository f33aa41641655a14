//! What tasks of the manager run: closures of this process, and functions that every process knows by name.

use super::{TaskContext, shown};
use longhaul_core::{BoxFuture, Entropy, Json, Outcome, RpcFailure, StopReason, ToolSpec};
use longhaul_runtime::{Attempt, End, Executor, Provider};
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

/// The kind of executor, as kept with each task's definition.
pub(super) const KIND: &str = "rmcp_kept";

pub(super) type Function = Box<dyn Fn(TaskContext, JsonObject) -> TaskFuture + Send + Sync>;
pub(super) type Closure = Box<dyn FnOnce(TaskContext) -> TaskFuture + Send>;

/// All that can be run.
pub(super) struct Work {
    pub(super) functions: HashMap<String, Function>,
    pub(super) closures: Closures,
}

/// Closures whose tasks have not begun yet.
pub(super) struct Closures {
    /// Tells this process from those before it: the tickets of one are worth nothing in another.
    process: u64,
    next: AtomicU64,
    waiting: Mutex<HashMap<Ticket, Closure>>,
}

/// What a task has of its closure.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Ticket {
    process: u64,
    closure: u64,
}

impl Closures {
    pub(super) fn new(entropy: &dyn Entropy) -> Self {
        let mut process = [0; 8];
        entropy.fill(&mut process);
        Self {
            process: u64::from_le_bytes(process),
            next: AtomicU64::new(0),
            waiting: Mutex::default(),
        }
    }

    /// Takes a closure in; returns its ticket, also as its task's arguments.
    pub(super) fn hand_in(&self, closure: Closure) -> (Ticket, Value) {
        let ticket = Ticket {
            process: self.process,
            closure: self.next.fetch_add(1, Ordering::Relaxed),
        };
        let arguments = json!({"process": ticket.process, "closure": ticket.closure});
        self.waiting.lock().insert(ticket.clone(), closure);
        (ticket, arguments)
    }

    pub(super) fn take(&self, ticket: &Ticket) -> Option<Closure> {
        self.waiting.lock().remove(ticket)
    }
}

/// What is kept of how tasks are made, once for all that are made alike, and for ever.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Definition {
    /// The function; a closure without.
    pub(super) function: Option<String>,
    pub(super) poll_interval_ms: Option<u64>,
}

/// What is kept of a task alone, as its arguments.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Given {
    pub(super) status_message: Option<String>,
    /// A function's arguments, or a closure's ticket.
    pub(super) arguments: Value,
}

impl Definition {
    /// As it was frozen with a task.
    pub(super) fn of_spec(spec: &ToolSpec) -> Option<Self> {
        #[derive(Deserialize)]
        struct Frozen {
            executor: Definition,
        }
        serde_json::from_str::<Frozen>(spec.definition.as_str())
            .ok()
            .map(|frozen| frozen.executor)
    }
}

/// Runs a task of the manager's.
pub(super) struct Kept {
    pub(super) definition: Definition,
    pub(super) work: Arc<Work>,
}

impl Kept {
    /// `None` for a closure of a process that is no more.
    fn begin(&self, arguments: Value, cx: TaskContext) -> Option<TaskFuture> {
        match &self.definition.function {
            Some(name) => {
                let arguments = serde_json::from_value(arguments).ok()?;
                Some(self.work.functions.get(name)?(cx, arguments))
            }
            None => {
                let ticket: Ticket = serde_json::from_value(arguments).ok()?;
                Some(self.work.closures.take(&ticket)?(cx))
            }
        }
    }
}

impl Executor for Kept {
    fn asks_again(&self) -> bool {
        true
    }

    fn run(self: Arc<Self>, attempt: Attempt, cx: longhaul_runtime::TaskContext) -> BoxFuture<'static, End> {
        Box::pin(async move {
            let Ok(given) = serde_json::from_str::<Given>(attempt.arguments.as_str()) else {
                return End::Crashed;
            };
            if let Some(line) = given.status_message {
                cx.status(line);
            }
            cx.started();
            let Some(work) = self.begin(given.arguments, TaskContext::new(cx.clone())) else {
                return End::Crashed;
            };
            tokio::select! {
                biased;
                exit = work => end(exit),
                () = expired(&cx) => End::Finished(failed(shown::expired())),
            }
        })
    }
}

/// Unlike a request to cancel, which work may follow as it likes, the end of its time drops it.
async fn expired(cx: &longhaul_runtime::TaskContext) {
    if cx.stopped().await == StopReason::Cancel {
        std::future::pending().await
    }
}

/// The work's own word counts, also when it was asked to stop.
fn end(exit: Result<CallToolResult, TaskExit>) -> End {
    End::Finished(match exit {
        Ok(result) => match serde_json::to_value(&result) {
            Ok(result) => Outcome::result(Json::from(result)),
            Err(error) => failed(ErrorData::internal_error(
                format!("the result cannot be kept: {error}"),
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

/// Makes executors for all tasks of the manager, by what was kept of how they were made.
pub(super) struct Reviving(pub(super) Arc<Work>);

impl Provider for Reviving {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn revive(&self, definition: &Json) -> Result<Arc<dyn Executor>, String> {
        let definition: Definition = serde_json::from_str(definition.as_str()).map_err(|error| error.to_string())?;
        if let Some(name) = definition
            .function
            .as_ref()
            .filter(|name| !self.0.functions.contains_key(*name))
        {
            return Err(format!("no function `{name}` is registered any more"));
        }
        Ok(Arc::new(Kept {
            definition,
            work: Arc::clone(&self.0),
        }))
    }

    fn keeps_logs(&self) -> bool {
        false
    }
}
