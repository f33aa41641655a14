//! Durable tools, as clients see them: suspended while they wait, and replayed when the event they wait for arrives.

use crate::{
    client::Connection,
    clock::{TestClock, until},
    questions::request,
    request::{Post, everything, everything_and_tasks},
    rounds::accept,
    server::{self, Options, Server, get, task_of, text},
    stage::{HandlerFuture, form},
};
use longhaul_core::{BoxFuture, Json, Outcome, Retry, RetryOn, TaskId, TaskPolicy, text_result};
use longhaul_runtime::{
    AskError, ExecutionEnd, Executor, ExecutorAttempt, Intake, JournalError, Question, RequestContext, TaskContext,
    ToolSettings,
};
use longhaul_store::MemoryStore;
use serde_json::{Value, json};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};
use tokio::sync::watch;

const HOUR: Duration = Duration::from_secs(60 * 60);
/// A little longer than waiting code stays in memory.
const KEPT: Duration = Duration::from_secs(31);

/// A tool whose name selects its code.
struct Program {
    name: &'static str,
    latest: watch::Sender<Option<TaskId>>,
}

/// A server, its clock, and the task that was run last, announced or not.
struct World {
    server: Server,
    clock: TestClock,
    latest: watch::Sender<Option<TaskId>>,
}

impl Executor for Program {
    fn replays(&self) -> bool {
        true
    }

    fn run(self: Arc<Self>, attempt: ExecutorAttempt, cx: TaskContext) -> BoxFuture<'static, ExecutionEnd> {
        self.latest.send_replace(Some(attempt.task));
        Box::pin(async move {
            let text = match self.name {
                "sleep_then_repeat" => cx.sleep(HOUR).await.map(|()| attempt.arguments.as_str().to_owned()),
                "sleep" => cx.sleep(72 * HOUR).await.map(|()| "rested".to_owned()),
                "race" => race(&cx).await,
                "ask_twice" => match ask(&cx, "name").await {
                    Ok(first) => ask(&cx, "town").await.map(|second| format!("{first} {second}")),
                    stopped => stopped,
                },
                "ask_then_sleep" => match ask(&cx, "name").await {
                    Ok(text) => cx.sleep(HOUR).await.map(|()| text),
                    stopped => stopped,
                },
                _ => ask(&cx, "name").await,
            };
            match text {
                Ok(text) => ExecutionEnd::Finished(Outcome::result(text_result(&text, false))),
                Err(JournalError::Stopped(reason)) => ExecutionEnd::Stopped(reason),
                Err(other) => ExecutionEnd::Errored(Outcome::tool_error(&other.to_string())),
            }
        })
    }
}

/// The answer, or a text if there was none; waits an hour for it.
async fn ask(cx: &TaskContext, name: &str) -> Result<String, JournalError> {
    let question = Question {
        within: Some(HOUR),
        ..form(name)
    };
    match cx.ask(question).await {
        Ok(answer) => Ok(answer.as_str().to_owned()),
        Err(AskError::Unanswered) => Ok("nobody".to_owned()),
        Err(AskError::Stopped(reason)) => Err(JournalError::Stopped(reason)),
        Err(AskError::Journal(error)) => Err(error),
        Err(other) => Ok(other.to_string()),
    }
}

/// A question against half an hour.
async fn race(cx: &TaskContext) -> Result<String, JournalError> {
    let fork = cx.fork(2)?;
    let race = fork.winner()?;
    let (asks, sleeps) = (fork.begin(0).unwrap(), fork.begin(1).unwrap());
    let mut answer = Box::pin(ask(&asks, "name"));
    let mut rest = Box::pin(sleeps.sleep(HOUR / 2));
    let (winner, text) = match race.winner {
        Some(0) => (0, answer.as_mut().await?),
        Some(_) => (1, rest.as_mut().await.map(|()| "too late".to_owned())?),
        None => tokio::select! {
            biased;
            text = &mut answer => (0, text?),
            slept = &mut rest => (1, slept.map(|()| "too late".to_owned())?),
        },
    };
    fork.decide(race, winner).await?;
    Ok(text)
}

fn program(name: &'static str, latest: &watch::Sender<Option<TaskId>>) -> ToolSettings {
    let latest = latest.clone();
    let executor: Arc<dyn Executor> = Arc::new(Program { name, latest });
    ToolSettings {
        retention: 3_600_000,
        ..ToolSettings::new(name, "program", Json::trusted("{}"), executor)
    }
}

/// A server with these tools.
async fn serve(names: &[&'static str], policy: TaskPolicy) -> World {
    serve_with(names, policy, Options::default()).await
}

/// Options of a server on this store.
fn on(store: &Arc<MemoryStore>, clock: &TestClock) -> Options {
    Options {
        clock: clock.clone(),
        ..Options::with_store(Arc::clone(store) as _)
    }
}

async fn serve_with(names: &[&'static str], policy: TaskPolicy, options: Options) -> World {
    let (clock, latest) = (options.clock.clone(), watch::Sender::new(None));
    let server = Server::with(options).await;
    for &name in names {
        let retry = Retry {
            attempts: 5,
            backoff: 1,
            on: vec![RetryOn::Crash],
        };
        let settings = ToolSettings {
            policy,
            retry,
            ..program(name, &latest)
        };
        server.put_tool(settings).await;
    }
    World { server, clock, latest }
}

impl World {
    /// The first task that was run.
    async fn task(&self) -> String {
        let mut latest = self.latest.subscribe();
        let task = latest.wait_for(Option::is_some).await.unwrap();
        task.as_ref().unwrap().as_str().to_owned()
    }
}

/// Waits until nothing of the task is in memory.
async fn suspended(server: &Server, clock: &TestClock, task: &str) {
    let id: TaskId = task.parse().unwrap();
    loop {
        clock.advance(KEPT);
        for _ in 0..100 {
            let record = server.engine.store().get_unscoped(&id).await.unwrap().unwrap();
            if record.task.is_suspended() {
                return;
            }
            tokio::task::yield_now().await;
        }
    }
}

fn call(name: &str) -> Value {
    json!({"name": name, "arguments": {}})
}

/// A call of a client that can be asked everything, but has no tasks.
fn plain(name: &str) -> Post {
    Post::modern_with("tools/call", call(name), everything())
}

async fn create(server: &Server, name: &str) -> String {
    let create = Post::modern_with("tools/call", call(name), everything_and_tasks());
    server.task(&create).await
}

async fn create_legacy(server: &Server, session: &str, name: &str) -> String {
    let mut params = call(name);
    params["task"] = json!({"ttl": 60_000});
    server.task(&Post::legacy(Some(session), "tools/call", params)).await
}

/// A legacy task, a wait for its result, and the stream of that.
async fn create_and_wait(server: &Server, session: &str, name: &str) -> (String, Post, Connection) {
    let task = create_legacy(server, session, name).await;
    let wait = Post::on_task(session, "tasks/result", &task).id(json!("wait"));
    let stream = server.stream(&wait).await;
    (task, wait, stream)
}

async fn update(server: &Server, task: &str, key: &str) {
    let answers = json!({key: accept("name", "Ann")});
    server.result(&server::update(task, answers)).await;
}

#[tokio::test]
async fn a_suspended_task_is_shown_as_waiting_or_working() {
    let World { server, clock, .. } = serve(&["ask", "sleep"], TaskPolicy::Always).await;
    let session = server.session_that_can_be_asked().await;
    for (name, status) in [("ask", "input_required"), ("sleep", "working")] {
        let task = create(&server, name).await;
        suspended(&server, &clock, &task).await;
        let shown = server.result(&get(&task)).await;
        assert_eq!(shown["status"], status);
        assert_eq!(shown.get("inputRequests").is_some(), status == "input_required");
        let hint = shown["pollIntervalMs"].as_u64().unwrap();
        assert!((500..=15_000).contains(&hint), "{hint}");
        let legacy = Post::on_task(&session, "tasks/get", &task);
        assert_eq!(server.result(&legacy).await["status"], status);
    }
}

/// Asks for a name, and gives a number of its own with it.
#[derive(Default)]
struct AskFirst(AtomicU32);

impl Intake for AskFirst {
    fn take(self: Arc<Self>, _: Json, cx: RequestContext) -> HandlerFuture<Json> {
        Box::pin(async move {
            let run = self.0.fetch_add(1, Ordering::SeqCst);
            let answer: Value = serde_json::from_str(cx.ask(form("name")).await?.as_str()).unwrap();
            Ok(Json::from(json!({"name": answer["content"]["name"], "run": run})))
        })
    }
}

/// The intake of a legacy task is journaled like the rest: the task is suspended while it waits, and each attempt runs with the arguments
/// that the intake returned first.
#[tokio::test]
async fn a_legacy_task_that_asks_first_is_suspended_meanwhile() {
    let World { server, clock, latest } = serve(&[], TaskPolicy::Optional).await;
    let intake = Arc::new(AskFirst::default());
    let name = "sleep_then_repeat";
    let settings = ToolSettings {
        intake: Some(Arc::clone(&intake) as _),
        ..program(name, &latest)
    };
    server.put_tool(settings).await;
    let session = server.session_that_can_be_asked().await;
    let task = create_legacy(&server, &session, name).await;
    server.poll(&task, "input_required").await;
    suspended(&server, &clock, &task).await;
    update(&server, &task, "in-1").await;
    server.poll(&task, "working").await;
    suspended(&server, &clock, &task).await;
    clock.advance(HOUR);
    let done = server.poll(&task, "completed").await;
    assert_eq!(text(&done["result"]), r#"{"name":"Ann","run":1}"#);
    assert_eq!(intake.0.load(Ordering::SeqCst), 3, "once for each attempt");
}

#[tokio::test]
async fn an_answer_wakes_what_is_suspended_and_a_second_one_changes_nothing() {
    let World { server, clock, .. } = serve(&["ask_then_sleep"], TaskPolicy::Always).await;
    let task = create(&server, "ask_then_sleep").await;
    server.poll(&task, "input_required").await;
    suspended(&server, &clock, &task).await;
    update(&server, &task, "in-1").await;
    server.poll(&task, "working").await;
    suspended(&server, &clock, &task).await;
    let decline = json!({"in-1": {"action": "decline"}});
    server.result(&server::update(&task, decline)).await;
    clock.advance(HOUR);
    let done = server.poll(&task, "completed").await;
    assert!(text(&done["result"]).contains("Ann"), "{done}");
}

/// By its timeout, or because another branch was faster.
#[tokio::test]
async fn a_question_that_ends_without_an_answer_is_removed_for_modern_clients() {
    let World { server, clock, .. } = serve(&["ask_then_sleep", "race"], TaskPolicy::Always).await;
    for (name, expected) in [("ask_then_sleep", "nobody"), ("race", "too late")] {
        let task = create(&server, name).await;
        let asked = server.poll(&task, "input_required").await;
        assert!(asked["inputRequests"]["in-1"].is_object(), "{asked}");
        suspended(&server, &clock, &task).await;
        clock.advance(HOUR);
        if name == "ask_then_sleep" {
            let working = server.poll(&task, "working").await;
            assert!(working.get("inputRequests").is_none(), "{working}");
            suspended(&server, &clock, &task).await;
            update(&server, &task, "in-1").await;
            clock.advance(HOUR);
        }
        let done = server.poll(&task, "completed").await;
        assert_eq!(text(&done["result"]), expected);
        // Too late for anything, and no error.
        update(&server, &task, "in-1").await;
    }
}

#[tokio::test]
async fn a_question_that_ends_without_an_answer_is_cancelled_on_legacy_streams() {
    for (name, expected) in [("ask_then_sleep", "nobody"), ("race", "too late")] {
        let World { server, clock, .. } = serve(&[name], TaskPolicy::Always).await;
        let session = server.session_that_can_be_asked().await;
        let (task, wait, mut stream) = create_and_wait(&server, &session, name).await;
        let asked = request(&mut stream).await;
        suspended(&server, &clock, &task).await;
        clock.advance(HOUR);
        let taken_back = stream.pushed().await;
        assert_eq!(taken_back["method"], "notifications/cancelled", "{taken_back}");
        assert_eq!(taken_back["params"]["requestId"], asked["id"]);
        server.answer(&session, &asked, accept("name", "Ann")).await;
        if name == "ask_then_sleep" {
            suspended(&server, &clock, &task).await;
            clock.advance(HOUR);
        }
        assert_eq!(text(&stream.only_result(&wait).await), expected);
    }
}

/// The stream of `tasks/result` outlasts any number of runs of the code.
#[tokio::test]
async fn a_legacy_response_wakes_what_is_suspended() {
    let World { server, clock, .. } = serve(&["ask_twice"], TaskPolicy::Always).await;
    let session = server.session_that_can_be_asked().await;
    let (task, wait, mut stream) = create_and_wait(&server, &session, "ask_twice").await;
    for name in ["name", "town"] {
        let asked = request(&mut stream).await;
        suspended(&server, &clock, &task).await;
        server.answer(&session, &asked, accept(name, "Ulm")).await;
    }
    let result = stream.only_result(&wait).await;
    assert_eq!(text(&result).matches("Ulm").count(), 2, "{result}");
}

#[tokio::test]
async fn a_plain_legacy_call_is_answered_after_it_was_suspended() {
    let world = serve(&["ask_twice"], TaskPolicy::Optional).await;
    let World { server, clock, .. } = &world;
    let session = server.session_that_can_be_asked().await;
    let call = Post::legacy(Some(&session), "tools/call", call("ask_twice"));
    let mut stream = server.stream(&call).await;
    let asked = request(&mut stream).await;
    let task = world.task().await;
    suspended(server, clock, &task).await;
    server.answer(&session, &asked, accept("name", "Ann")).await;
    let asked = request(&mut stream).await;
    suspended(server, clock, &task).await;
    // The second is not answered in time.
    clock.advance(HOUR);
    let taken_back = stream.pushed().await;
    assert_eq!(taken_back["params"]["requestId"], asked["id"], "{taken_back}");
    let result = stream.only_result(&call).await;
    let text = text(&result);
    assert!(text.contains("Ann") && text.ends_with("nobody"), "{text}");
}

#[tokio::test]
async fn a_plain_modern_call_is_answered_after_it_was_suspended() {
    let world = serve(&["ask_twice"], TaskPolicy::Optional).await;
    let World { server, clock, .. } = &world;
    let call = plain("ask_twice");
    let mut round = server.result(&call).await;
    let task = world.task().await;
    for name in ["name", "town"] {
        suspended(server, clock, &task).await;
        round = server.result(&retry(&call, name, &round)).await;
    }
    assert_eq!(round["resultType"], "complete", "{round}");
    assert_eq!(text(&round).matches("Ulm").count(), 2, "{round}");
}

/// The same request again, with an answer and the state of the last round.
fn retry(call: &Post, name: &str, round: &Value) -> Post {
    assert!(round["inputRequests"][name].is_object(), "{round}");
    let answers = json!({name: accept(name, "Ulm")});
    call.retry(round, answers).id(json!(name))
}

#[tokio::test]
async fn a_client_comes_back_to_another_node_with_its_answers() {
    let clock = TestClock::default();
    let store = Arc::new(MemoryStore::of_many_nodes(Arc::new(clock.clone()), 15_000));
    let node = |host| {
        let options = Options {
            host,
            ..on(&store, &clock)
        };
        serve_with(&["ask_twice"], TaskPolicy::Optional, options)
    };
    let (here, there) = (node("here").await, node("there").await);
    let call = plain("ask_twice");
    // Both nodes live: the one that runs the call, and the one that the client comes back to.
    let round = here.server.result(&call).await;
    let round = there.server.result(&retry(&call, "name", &round)).await;
    // The first node stops between the rounds; the call is replayed on the other.
    here.server.engine.end().await;
    let answered = retry(&call, "town", &round);
    let result = there.server.result(&answered).await;
    assert_eq!(result["resultType"], "complete", "{result}");
    assert_eq!(text(&result).matches("Ulm").count(), 2, "{result}");
}

/// The call is stored, and its client is not waiting while the server is down.
#[tokio::test]
async fn rounds_go_on_after_a_restart() {
    let store = Arc::new(MemoryStore::default());
    let clock = TestClock::default();
    let start = || serve_with(&["ask_twice"], TaskPolicy::Optional, on(&store, &clock));
    let call = plain("ask_twice");
    let before = start().await;
    let mut round = before.server.result(&call).await;
    before.server.stop().await;
    for name in ["name", "town"] {
        let next = start().await;
        round = next.server.result(&retry(&call, name, &round)).await;
        next.server.stop().await;
    }
    assert_eq!(text(&round).matches("Ulm").count(), 2, "{round}");
}

/// A client that does not come back is not waited for by a later process either.
#[tokio::test]
async fn a_call_is_abandoned_in_time_also_after_a_restart() {
    let store = Arc::new(MemoryStore::default());
    let clock = TestClock::default();
    let start = || serve_with(&["ask_twice"], TaskPolicy::Optional, on(&store, &clock));
    let call = plain("ask_twice");
    let before = start().await;
    before.server.result(&call).await;
    let task: TaskId = before.task().await.parse().unwrap();
    before.server.stop().await;
    let after = start().await;
    let live = after.server.engine.store().get_unscoped(&task).await.unwrap().unwrap();
    assert_eq!(live.outcome, None);
    clock.advance(HOUR / 4);
    let mut watch = after.server.engine.watch(&task);
    loop {
        let record = after.server.engine.store().get_unscoped(&task).await.unwrap().unwrap();
        if let Some(outcome) = record.outcome {
            return assert_eq!(outcome, Outcome::Cancelled);
        }
        watch.changed().await;
    }
}

/// Without its client the call would be given up a minute after the restart.
#[tokio::test]
async fn a_call_whose_client_has_come_back_is_not_given_up() {
    let clock = TestClock::default();
    let store = Arc::new(MemoryStore::of_many_nodes(Arc::new(clock.clone()), 15_000));
    let start = || serve_with(&["sleep"], TaskPolicy::Never, on(&store, &clock));
    let before = start().await;
    let session = before.server.session().await;
    let call = Post::legacy(Some(&session), "tools/call", call("sleep"));
    let mut client = before.server.send(&call).await;
    let task: TaskId = before.task().await.parse().unwrap();
    clock.advance(Duration::from_secs(2));
    client.stream_head().await;
    let last = client.first_id().await;
    // As if it was killed: nobody is told.
    before.server.engine.end().await;

    let after = start().await;
    let kept_until = || async {
        let record = after.server.engine.store().get_unscoped(&task).await.unwrap().unwrap();
        assert_eq!(record.outcome, None);
        record.task.retry_until
    };
    until(async || kept_until().await.is_some()).await;
    let _client = after.server.resume(&session, &last).await;
    for _ in 0..12 {
        let before = kept_until().await;
        clock.advance(Duration::from_secs(20));
        until(async || kept_until().await > before).await;
    }
}

/// A call that was promoted while it was suspended is a task like any other.
#[tokio::test]
async fn a_call_is_promoted_while_it_is_suspended() {
    let world = serve(&["sleep"], TaskPolicy::After(600_000)).await;
    let World { server, clock, .. } = &world;
    let post = Post::modern_with("tools/call", call("sleep"), everything_and_tasks());
    let mut client = server.send(&post).await;
    let task = world.task().await;
    suspended(server, clock, &task).await;
    clock.advance(HOUR);
    // So much time has passed that the answer became a stream.
    client.stream_head().await;
    let created = client.messages(&post).await.pop().unwrap()["result"].clone();
    assert_eq!(created["resultType"], "task");
    assert_eq!(task_of(&created), task);
    assert_eq!(server.result(&get(&task)).await["status"], "working");
    clock.advance(72 * HOUR);
    let done = server.poll(&task, "completed").await;
    assert_eq!(text(&done["result"]), "rested");
}
