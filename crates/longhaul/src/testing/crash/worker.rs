//! The inside of a process of a crash test: a server on the run's data directory, and a client that makes the call.

use super::{
    CrashTest,
    killing_store::{KillSwitch, KillingStore},
    plan::{self, Plan},
    trace::{Trace, TracedEntry},
};
use crate::{
    Server,
    server::Storage,
    testing::{CallToolResult, Client, RequestError},
};
use longhaul_core::{ChildEntry, Outcome, Scope, Task, TaskId};
use longhaul_runtime::{Engine, MAX_ENTRIES};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// The idempotency key of the call: the same in all processes of a run.
const CALL_KEY: &str = "longhaul-crash-test";
/// How many tasks a run may have.
const MAX_TASKS: usize = 1_000;
/// How long children may take to stop after their parent has ended.
const CHILDREN_STOP: Duration = Duration::from_secs(5);

/// The result of a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct RunReport {
    /// The task of the call.
    pub(super) task: String,
    /// Its outcome, as the JSON of a [`ChildEntry`].
    pub(super) outcome: String,
    /// What its client received, if that differs from the outcome.
    pub(super) contradiction: Option<String>,
    /// Its questions that are still open.
    pub(super) open: Vec<String>,
    /// Tasks that have not ended, by id and tool.
    pub(super) live: Vec<String>,
    /// How many tasks have no parent.
    pub(super) calls: usize,
    /// The journals of all tasks.
    pub(super) journals: BTreeMap<String, Vec<TracedEntry>>,
}

/// Carries out the plan and ends this process.
pub(super) fn run(test: &CrashTest, plan: &Plan) -> ! {
    let result = std::thread::scope(|scope| {
        // A thread with a runtime of its own, because the test may run in another.
        let thread = std::thread::Builder::new().name("crash test".to_owned());
        let spawned = thread.spawn_scoped(scope, || work(test, plan));
        match spawned.map(std::thread::ScopedJoinHandle::join) {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err("it panicked".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    });
    match result {
        Ok(()) => std::process::exit(0),
        Err(why) => {
            eprintln!("a process of a crash test has failed: {why}");
            std::process::exit(1)
        }
    }
}

fn work(test: &CrashTest, plan: &Plan) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let report = runtime.map_err(to_text)?.block_on(call(test, plan))?;
    let text = serde_json::to_string_pretty(&report).map_err(to_text)?;
    std::fs::write(plan.report(), text).map_err(to_text)
}

fn to_text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

async fn call(test: &CrashTest, plan: &Plan) -> Result<RunReport, String> {
    let trace = Trace::append_to(&plan.trace()).map_err(to_text)?;
    let effects = plan::effects_in(&plan.directory);
    std::fs::create_dir_all(&effects).map_err(to_text)?;
    let server = (test.server)(&effects).await;
    let server = (instrumented(server, plan, KillSwitch::new(plan, trace)).start().await).map_err(to_text)?;
    let answering = Arc::clone(&test.answering);
    let client = Client::connect(&server, plan.mode.era)
        .answering(move |question| answering(question))
        .check_schemas(plan.check_schemas);
    let client = client.await.map_err(to_text)?;
    let params = json!({
        "name": test.tool,
        "arguments": test.arguments,
        "_meta": {"dev.longhaul/idempotency-key": CALL_KEY},
    });
    let task = client.create(params).await.map_err(to_text)?;
    let received = task.wait().await;
    let engine = server.engine().ok_or("the server has stopped")?;
    report(&engine, &task.id().parse().map_err(to_text)?, &received).await
}

/// The author's server on the run's data directory, with a [`KillingStore`] around all other store layers.
fn instrumented(mut server: Server, plan: &Plan, kill_switch: Arc<KillSwitch>) -> Server {
    server.storage = Storage::Directory(plan.data());
    if plan.mode.suspends {
        server.suspend_after = Duration::ZERO;
    }
    for tool in &mut server.tools {
        tool.fail_instead_of_blocking();
    }
    let around = server.wrap_store.take();
    let step_observer = Arc::clone(&kill_switch);
    server
        .wrap_store(move |store| {
            KillingStore::over(
                around.map_or_else(|| Arc::clone(&store), |around| around(Arc::clone(&store))),
                kill_switch,
            )
        })
        .step_observer(step_observer)
}

async fn report(
    engine: &Engine,
    id: &TaskId,
    received: &Result<CallToolResult, RequestError>,
) -> Result<RunReport, String> {
    let store = engine.store();
    let record = store
        .get_unscoped(id)
        .await
        .map_err(to_text)?
        .ok_or("the task is gone")?;
    let outcome = record.outcome.ok_or("the task has ended and has no outcome")?;
    let scope = Scope::of(record.task.owner.principal.clone());
    let tasks = || async { Ok::<_, String>(engine.list(&scope, None, MAX_TASKS).await.map_err(to_text)?.tasks) };
    let clock = &engine.ports().clock;
    let ended = async {
        while tasks().await?.iter().any(|task| !task.is_done()) {
            clock.sleep(Duration::from_millis(5)).await;
        }
        Ok::<_, String>(())
    };
    engine.ports().within(CHILDREN_STOP, ended).await.transpose()?;
    let tasks = tasks().await?;
    let mut journals = BTreeMap::new();
    for task in &tasks {
        let entries = store
            .journal(&task.id, 0, MAX_ENTRIES as usize)
            .await
            .map_err(to_text)?;
        journals.insert(
            task.id.as_str().to_owned(),
            entries.iter().map(TracedEntry::from).collect(),
        );
    }
    let is_live = |task: &&Task| !task.is_done();
    let named = |task: &Task| format!("{} of {:?}", task.id.as_str(), task.tool);
    Ok(RunReport {
        task: id.as_str().to_owned(),
        contradiction: (!is_received(&outcome, received)).then(|| format!("{received:?}")),
        outcome: ChildEntry {
            task: id.clone(),
            outcome: Some(outcome),
        }
        .to_json()
        .as_str()
        .to_owned(),
        open: record
            .inputs
            .iter()
            .map(|input| input.key.as_str().to_owned())
            .collect(),
        live: tasks.iter().filter(is_live).map(named).collect(),
        calls: tasks.iter().filter(|task| task.lineage.is_none()).count(),
        journals,
    })
}

/// Whether the client received the outcome.
fn is_received(outcome: &Outcome, received: &Result<CallToolResult, RequestError>) -> bool {
    match (outcome, received) {
        (Outcome::Result { json, .. }, Ok(called)) => {
            let stored: Map<String, Value> = serde_json::from_str(json.as_str()).unwrap_or_default();
            // The envelope and `_meta` differ between eras.
            let mut stored = stored.iter().filter(|(name, _)| *name != "_meta");
            stored.all(|(name, value)| called.result.get(name) == Some(value))
        }
        (Outcome::RpcError(stored), Err(failure)) => failure.message == *stored.message,
        (Outcome::Cancelled, Err(_)) => true,
        _ => false,
    }
}

/// Dismisses a question that the test has no answer for.
pub(super) fn no_answer(question: &Value) -> Value {
    eprintln!("the crash test has no answer to {question}: see `CrashTest::answering`");
    json!({"action": "cancel"})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_client_must_receive_the_outcome() {
        let outcome = Outcome::tool_error("no");
        let content = json!([{"type": "text", "text": "no"}]);
        let called = |result| Ok(CallToolResult { result });
        assert!(is_received(
            &outcome,
            &called(json!({"content": content, "isError": true, "_meta": {}}))
        ));
        assert!(!is_received(
            &outcome,
            &called(json!({"content": content, "isError": false}))
        ));
        assert!(!is_received(&outcome, &called(json!({"content": [], "isError": true}))));
        assert!(!is_received(&outcome, &Err(RequestError::new("no"))));
        assert!(is_received(&Outcome::Cancelled, &Err(RequestError::new("cancelled"))));
        assert!(!is_received(
            &Outcome::Cancelled,
            &called(json!({"content": content, "isError": true}))
        ));
    }
}
