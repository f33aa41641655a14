//! Everything at once, on several threads, over SQLite and with the real clock: whatever the order, every task ends once, every
//! attempt ends, and all slots come back.

use crate::support::{CallOf, beside, guarded, retry, scope, tool};
use longhaul_core::{BoxFuture, CancelMode, HostId, Json, Outcome, RetryOn, State, Store, Task, TaskId, store::Counts};
use longhaul_runtime::{
    Call, Catalog, Engine, EngineOptions, ExecutionEnd, Executor, ExecutorAttempt, Ports, Promotion, TaskContext, Tool,
    ToolSettings,
};
use longhaul_store::{SqliteOptions, SqliteStore};
use std::{collections::BTreeMap, sync::Arc};

const TASKS: usize = 300;
const SLOTS: usize = 4;

/// Runs until it is stopped.
struct Endless;

impl Executor for Endless {
    fn run(self: Arc<Self>, _attempt: ExecutorAttempt, cx: TaskContext) -> BoxFuture<'static, ExecutionEnd> {
        Box::pin(async move { ExecutionEnd::Stopped(cx.stopped().await) })
    }
}

/// Does something else for each task, as its id says.
struct Erratic;

fn dice(task: &TaskId, nth: usize) -> usize {
    let bytes = task.as_str().as_bytes();
    usize::from(bytes[bytes.len() - 1 - nth])
}

impl Executor for Erratic {
    fn run(self: Arc<Self>, attempt: ExecutorAttempt, cx: TaskContext) -> BoxFuture<'static, ExecutionEnd> {
        Box::pin(async move {
            cx.started();
            for line in 0..dice(&attempt.task, 0) % 8 {
                cx.status(format!("{line}"));
                tokio::task::yield_now().await;
            }
            if dice(&attempt.task, 1).is_multiple_of(3) {
                let question = || Json::trusted(r#"{"method":"which?"}"#);
                let (first, second) = tokio::join!(cx.ask(question()), cx.ask(question()));
                if first.and(second).is_err() {
                    return ExecutionEnd::Crashed;
                }
            }
            match dice(&attempt.task, 2) % 4 {
                0 => ExecutionEnd::Errored(Outcome::tool_error("no")),
                1 => ExecutionEnd::Crashed,
                2 => ExecutionEnd::Stopped(cx.stopped().await),
                _ => ExecutionEnd::Finished(Outcome::tool_error("done")),
            }
        })
    }
}

fn tools() -> Vec<Tool> {
    let settings = |name: &str, concurrency, deadline| ToolSettings {
        concurrency,
        deadline,
        queue_timeout: Some(60_000),
        retry: retry(2, 1, [RetryOn::Crash, RetryOn::Error]),
        ..tool(name, Arc::new(Erratic))
    };
    let all = [
        settings("narrow", Some(1), Some(50)),
        settings("wide", None, Some(200)),
        settings("patient", Some(2), Some(1_000)),
    ];
    let endless = tool("endless", Arc::new(Endless));
    (all.into_iter().chain([endless]))
        .map(|settings| Tool::new(settings).unwrap())
        .collect()
}

/// What a caller does with its task, as its number says.
async fn caller(engine: Engine, number: usize) -> Option<TaskId> {
    let call = engine.call(["narrow", "wide", "patient"][number % 3]);
    let cancel = async |id: &TaskId, mode| drop(engine.cancel(&scope(), id, mode).await);
    match number % 7 {
        0 => {
            let mut waiting = engine.begin(call).await.unwrap();
            match waiting.promote().await.unwrap() {
                Promotion::Task(task) => return Some(task.id.clone()),
                Promotion::Ended(_) => return Some(waiting.id().clone()),
            }
        }
        1 => {
            let waiting = engine.begin(call).await.unwrap();
            let id = waiting.id().clone();
            waiting.handle().abandon();
            return Some(id);
        }
        2 => {
            // Leaves at an arbitrary moment.
            let left = beside({
                let engine = engine.clone();
                async move { drop(engine.create(call).await) }
            });
            tokio::task::yield_now().await;
            left.abort();
            return None;
        }
        _ => {}
    }
    let call = Call {
        ttl: None,
        priority: None,
        cancel_if_caller_leaves: false,
        ..call
    };
    let id = engine.create(call).await.unwrap().id.clone();
    match number % 5 {
        0 => cancel(&id, CancelMode::AtOnce).await,
        1 => cancel(&id, CancelMode::Cooperative).await,
        2 => {
            for _ in 0..number % 16 {
                tokio::task::yield_now().await;
            }
            cancel(&id, CancelMode::AtOnce).await;
        }
        _ => {}
    }
    Some(id)
}

async fn over(engine: &Engine, id: &TaskId) {
    let mut watch = engine.watch(id);
    loop {
        let Task {
            state,
            open_inputs,
            attempt,
            ..
        } = engine.store().get_unscoped(id).await.unwrap().unwrap().task;
        if matches!(state, State::Done(_)) && attempt.is_none_or(|attempt| !attempt.is_active()) {
            return;
        }
        let answers: BTreeMap<_, _> = (open_inputs.into_iter()).map(|key| (key, Json::trusted("1"))).collect();
        engine.answer(&scope(), id, answers).await.unwrap();
        watch.changed().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn whatever_the_order_every_task_ends_and_every_slot_comes_back() {
    let directory = tempfile::tempdir().unwrap();
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(directory.path(), SqliteOptions::default()).unwrap());
    let options = EngineOptions {
        store: Arc::clone(&store),
        ports: Ports::system(),
        node: HostId("here".into()).into(),
        lost_after: longhaul_runtime::HOST_LOST_AFTER,
        catalog: Catalog::new(tools()).unwrap(),
        providers: Vec::new(),
        max_running: Some(SLOTS),
        quota: longhaul_core::Quota::default(),
        suspend_after: longhaul_runtime::SUSPEND_AFTER,
        build: longhaul_runtime::BuildId::named("test"),
        step_observer: None,
        may_begin: None,
        cipher: None,
    };
    let (engine, _) = Engine::start(options).await.unwrap();
    let callers: Vec<_> = (0..TASKS)
        .map(|number| beside(caller(engine.clone(), number)))
        .collect();
    let mut ends = Vec::new();
    for caller in callers {
        let Some(id) = guarded("a caller", caller).await.unwrap() else {
            continue;
        };
        let engine = engine.clone();
        ends.push(beside(async move { over(&engine, &id).await }));
    }
    for end in ends {
        guarded("a task to end", end).await.unwrap();
    }
    // Those whose callers left are known to the store only.
    guarded("everything to end", async {
        while engine.running() > 0 || store.counts().await.unwrap() != Counts::default() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let mut held = Vec::new();
    for slot in 0..=SLOTS {
        let waiting = engine.begin(engine.call("endless")).await.unwrap();
        let state = store.get_unscoped(waiting.id()).await.unwrap().unwrap().task.state;
        assert_eq!(state == State::Running, slot < SLOTS, "as many slots as before");
        held.push(waiting);
    }
}
