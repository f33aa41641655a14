//! Inside a process of a crash test: a server over what the processes before it have left, and a client that makes its call.

use super::{
    CrashTest,
    plan::{self, Plan},
    store::{Course, Watched},
    trace::{Kept, Trace},
};
use crate::{
    Server,
    server::Keep,
    testing::{Called, Client, Failure},
};
use longhaul_core::{ChildEntry, Outcome, Scope, Task, TaskId};
use longhaul_runtime::{Engine, MAX_ENTRIES};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// The same in all processes of a run, so that a call made again is the call that was made before.
const KEY: &str = "longhaul-crash-test";
/// How many tasks a run may have.
const TASKS: usize = 1_000;
/// How long children may live on after their parent: those that nobody waits for are asked to stop, and need their moment.
const CHILDREN: Duration = Duration::from_secs(5);

/// What a run has come to.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Report {
    /// The task of the call.
    pub(super) task: String,
    /// A [`ChildEntry`]'s JSON: how it ended.
    pub(super) outcome: String,
    /// What its client was told instead of that, if it was.
    pub(super) misled: Option<String>,
    /// Questions of it that are still open.
    pub(super) open: Vec<String>,
    /// Tasks that are not over, by id and tool.
    pub(super) live: Vec<String>,
    /// Tasks that no other task has started.
    pub(super) calls: usize,
    /// The journals of all tasks.
    pub(super) journals: BTreeMap<String, Vec<Kept>>,
}

/// Does what the plan says, and ends this process.
pub(super) fn run(test: &CrashTest, plan: &Plan) -> ! {
    let come_to = std::thread::scope(|scope| {
        // A runtime of its own, on a thread of its own: the test may run in one.
        let thread = std::thread::Builder::new().name("crash test".to_owned());
        let spawned = thread.spawn_scoped(scope, || work(test, plan));
        match spawned.map(std::thread::ScopedJoinHandle::join) {
            Ok(Ok(come_to)) => come_to,
            Ok(Err(_)) => Err("it panicked".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    });
    match come_to {
        Ok(()) => std::process::exit(0),
        Err(why) => {
            eprintln!("a process of a crash test has failed: {why}");
            std::process::exit(1)
        }
    }
}

fn work(test: &CrashTest, plan: &Plan) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let report = runtime.map_err(said)?.block_on(call(test, plan))?;
    let text = serde_json::to_string_pretty(&report).map_err(said)?;
    std::fs::write(plan.report(), text).map_err(said)
}

fn said(error: impl std::fmt::Display) -> String {
    error.to_string()
}

async fn call(test: &CrashTest, plan: &Plan) -> Result<Report, String> {
    let trace = Trace::append_to(&plan.trace()).map_err(said)?;
    let outside = plan::outside_in(&plan.directory);
    std::fs::create_dir_all(&outside).map_err(said)?;
    let server = (test.server)(&outside).await;
    let server = (watched(server, plan, Course::new(plan, trace)).start().await).map_err(said)?;
    let answering = Arc::clone(&test.answering);
    let client = Client::connect(&server, plan.manner.era)
        .answering(move |question| answering(question))
        .witnessed(plan.unharmed);
    let client = client.await.map_err(said)?;
    let params = json!({
        "name": test.tool,
        "arguments": test.arguments,
        "_meta": {"dev.longhaul/idempotency-key": KEY},
    });
    let task = client.create(params).await.map_err(said)?;
    let told = task.wait().await;
    let engine = server.engine().ok_or("the server has stopped")?;
    report(&engine, &task.id().parse().map_err(said)?, &told).await
}

/// The author's server, over the run's directory and under our eyes. A store that the author has put around its own is kept: ours is
/// around both.
fn watched(mut server: Server, plan: &Plan, course: Arc<Course>) -> Server {
    server.keep = Keep::Directory(plan.data());
    if plan.manner.lets_go {
        server.keep_waiting = Duration::ZERO;
    }
    for tool in &mut server.tools {
        tool.fail_instead_of_blocking();
    }
    let around = server.wrap_store.take();
    let witness = Arc::clone(&course);
    server
        .wrap_store(move |store| {
            Watched::over(
                around.map_or_else(|| Arc::clone(&store), |around| around(Arc::clone(&store))),
                course,
            )
        })
        .witness(witness)
}

async fn report(engine: &Engine, id: &TaskId, told: &Result<Called, Failure>) -> Result<Report, String> {
    let store = engine.store();
    let record = store.peek(id).await.map_err(said)?.ok_or("the task has vanished")?;
    let outcome = record.outcome.ok_or("the task was followed to its end, and has none")?;
    let scope = Scope::of(record.task.owner.principal.clone());
    let tasks = || async { Ok::<_, String>(engine.list(&scope, None, TASKS).await.map_err(said)?.tasks) };
    let clock = &engine.ports().clock;
    let ended = async {
        while tasks().await?.iter().any(|task| !task.is_done()) {
            clock.sleep(Duration::from_millis(5)).await;
        }
        Ok::<_, String>(())
    };
    engine.ports().within(CHILDREN, ended).await.transpose()?;
    let tasks = tasks().await?;
    let mut journals = BTreeMap::new();
    for task in &tasks {
        let entries = store.journal(&task.id, 0, MAX_ENTRIES as usize).await.map_err(said)?;
        journals.insert(task.id.as_str().to_owned(), entries.iter().map(Kept::from).collect());
    }
    let living = |task: &&Task| !task.is_done();
    let named = |task: &Task| format!("{} of {:?}", task.id.as_str(), task.tool);
    Ok(Report {
        task: id.as_str().to_owned(),
        misled: (!is_told(&outcome, told)).then(|| format!("{told:?}")),
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
        live: tasks.iter().filter(living).map(named).collect(),
        calls: tasks.iter().filter(|task| task.lineage.is_none()).count(),
        journals,
    })
}

/// Whether this is what a client is told of an outcome.
fn is_told(outcome: &Outcome, told: &Result<Called, Failure>) -> bool {
    match (outcome, told) {
        (Outcome::Result { json, .. }, Ok(called)) => {
            let kept: Map<String, Value> = serde_json::from_str(json.as_str()).unwrap_or_default();
            // What is around it, and `_meta`, are the generation's.
            let mut kept = kept.iter().filter(|(name, _)| *name != "_meta");
            kept.all(|(name, value)| called.result.get(name) == Some(value))
        }
        (Outcome::RpcError(kept), Err(failure)) => failure.message == *kept.message,
        (Outcome::Cancelled, Err(_)) => true,
        _ => false,
    }
}

/// Refuses to answer: the process says so, and its run ends there.
pub(super) fn no_answer(question: &Value) -> Value {
    eprintln!("the crash test is not told how to answer {question}: see `answering`");
    json!({"action": "cancel"})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_told_what_there_is_and_nothing_else() {
        let outcome = Outcome::tool_error("no");
        let content = json!([{"type": "text", "text": "no"}]);
        let called = |result| Ok(Called { result });
        assert!(is_told(
            &outcome,
            &called(json!({"content": content, "isError": true, "_meta": {}}))
        ));
        assert!(!is_told(
            &outcome,
            &called(json!({"content": content, "isError": false}))
        ));
        assert!(!is_told(&outcome, &called(json!({"content": [], "isError": true}))));
        assert!(!is_told(&outcome, &Err(Failure::of("no"))));
        assert!(is_told(&Outcome::Cancelled, &Err(Failure::of("cancelled"))));
        assert!(!is_told(
            &Outcome::Cancelled,
            &called(json!({"content": content, "isError": true}))
        ));
    }
}
