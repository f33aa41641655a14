//! A child whose questions do not say which call they belong to.

use crate::{
    client::{Called, Client, end, failure},
    passed_on::listener,
    upstream::Tasks,
    world::{RunningGateway, Seen, guarded, until, with_every_call_a_task},
};
use longhaul::{Era, testing};
use longhaul_client::{
    ChildOptions, ClientCapabilities, Connection, InputHandler, InputRequest, InputResponse, Inputs, Options, Outcome,
    RpcFailure, TaskHandle, TaskStatus,
};
use longhaul_core::{BoxFuture, LogLevel};
use longhaul_gateway::{Target, UpstreamOptions};
use serde_json::{Value, json};
use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

/// Where the child notes that `hang` was called.
fn hangs(directory: &Path) -> PathBuf {
    directory.join("hangs")
}

/// A gateway before the child.
async fn gateway(directory: &Path) -> RunningGateway {
    gateway_with(directory, None).await
}

/// The same. A call is given up after a silence of `hung_after` milliseconds.
async fn gateway_with(directory: &Path, hung_after: Option<u64>) -> RunningGateway {
    let options = UpstreamOptions {
        hung_after,
        ..child(directory, &[])
    };
    RunningGateway::start(directory, vec![options]).await
}

/// The child with these variables.
fn child(directory: &Path, variables: &[(&str, &str)]) -> UpstreamOptions {
    let mut child = ChildOptions::new("sh", ["-c", include_str!("stdio.sh")]);
    child
        .env
        .push(("HANGS".into(), hangs(directory).to_string_lossy().into_owned()));
    let variables = variables
        .iter()
        .map(|(name, value)| (name.to_string(), value.to_string()));
    child.env.extend(variables);
    with_every_call_a_task(UpstreamOptions::new("child", Target::Command(child)))
}

/// Waits until `hang` was called this often.
async fn hang_begins(directory: &Path, times: usize) {
    until("the call to begin", || {
        let noted = std::fs::read_to_string(hangs(directory)).unwrap_or_default();
        noted.lines().count() >= times
    })
    .await;
}

/// Calls `hang` as a task.
async fn hang(client: &Client) -> TaskHandle {
    match client.start("hang", json!({})).await.unwrap() {
        Called::Task(task) => task,
        Called::Done(outcome) => panic!("{outcome:?}"),
    }
}

/// Calls a tool without a task; returns its text.
async fn call(connection: &Connection, tool: &str) -> String {
    let params = json!({"name": tool, "arguments": {}});
    let result = guarded(tool, connection.send("tools/call", params)).await.unwrap();
    let result: Value = serde_json::from_str(result.as_str()).unwrap();
    result["content"][0]["text"].as_str().unwrap_or_default().to_owned()
}

fn asked(client: &Client) -> usize {
    client.asked.lock().unwrap().len()
}

#[tokio::test]
async fn a_client_with_several_calls_is_asked() {
    let directory = tempfile::tempdir().unwrap();
    let gateway = gateway(directory.path()).await;
    let client = Client::connect(&gateway.url, Tasks::Legacy);
    hang(&client).await;
    hang_begins(directory.path(), 1).await;
    assert_eq!(client.text("ask", json!({})).await, "accept");
    assert_eq!(asked(&client), 1);
    gateway.stop().await;
}

/// A question that names no call is put for one of two. If that one ends first, it was the other's: the child gets the answer, and no dismissal.
#[tokio::test]
async fn a_question_outlives_the_call_that_it_was_put_for() {
    let directory = tempfile::tempdir().unwrap();
    let gateway = gateway(directory.path()).await;
    let mut options = Options::named("client", "1.0.0");
    options.era = Tasks::Legacy.era();
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let inputs = Inputs::new().elicit(move |_| {
        let is_first = counted.fetch_add(1, Ordering::Relaxed) == 0;
        async move {
            match is_first {
                true => std::future::pending().await,
                false => Ok(InputResponse::accept(json!({"confirm": true}))),
            }
        }
    });
    options.inputs = Some(inputs.into());
    let connection = Connection::lazy(&gateway.url, options).unwrap();
    let others = async {
        hang_begins(directory.path(), 1).await;
        let ends = async {
            until("the question", || asked.load(Ordering::Relaxed) == 1).await;
            call(&connection, "end").await
        };
        tokio::join!(call(&connection, "ask_for_it"), ends)
    };
    let (answer, (other, _)) = tokio::join!(call(&connection, "ask_later"), others);
    assert_eq!((&*answer, &*other), ("accept", "ended"));
    gateway.stop().await;
}

/// While the other's call runs, and after the other has given it up: the child may go on. So each has a child of its own.
#[tokio::test]
async fn each_client_is_asked_its_own_questions() {
    let directory = tempfile::tempdir().unwrap();
    let gateway = gateway(directory.path()).await;
    for tasks in [Tasks::Legacy, Tasks::Modern] {
        let [one, other] = [(); 2].map(|()| Client::connect(&gateway.url, tasks));
        let task = hang(&one).await;
        hang_begins(directory.path(), 1).await;
        assert_eq!(other.text("ask", json!({})).await, "accept");
        task.cancel().await.unwrap();
        assert_eq!(other.text("ask", json!({})).await, "accept");
        let both = guarded("both calls", async {
            tokio::join!(one.text("ask", json!({})), other.text("ask", json!({})))
        });
        assert_eq!(both.await, ("accept".to_owned(), "accept".to_owned()));
        assert_eq!((asked(&one), asked(&other)), (1, 3), "{tasks:?}");
        std::fs::remove_file(hangs(directory.path())).unwrap();
    }
    gateway.stop().await;
}

/// The upstream offers the tool to clients with sampling only.
#[tokio::test]
async fn tools_that_need_a_capability_are_offered() {
    let directory = tempfile::tempdir().unwrap();
    let gateway = gateway(directory.path()).await;
    let client = Client::connect(&gateway.url, Tasks::Legacy);
    match client.call("sampled", json!({})).await.unwrap() {
        Outcome::RpcError(failure) => assert!(failure.message.contains("with other capabilities"), "{failure:?}"),
        other => panic!("{other:?}"),
    }
    let mut options = Options::named("client", "1.0.0");
    options.era = Tasks::Legacy.era();
    let sampling = Inputs::new().sample(false, |_| async { Ok(InputResponse::cancel()) });
    options.inputs = Some(sampling.into());
    let connection = Connection::lazy(&gateway.url, options).unwrap();
    let sampled = call(&connection, "sampled").await;
    assert_eq!(sampled, "sampled");
    gateway.stop().await;
}

/// The child asks for roots when it is connected, and not for a call.
#[tokio::test]
async fn the_roots_of_each_session_are_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let gateway = gateway(directory.path()).await;
    for uri in ["file:///one", "file:///two"] {
        let mut options = Options::named("client", "1.0.0");
        options.era = Tasks::Legacy.era();
        options.inputs = Some(Inputs::new().roots([(uri, "root")]).into());
        let connection = Connection::lazy(&gateway.url, options).unwrap();
        assert_eq!(call(&connection, "roots").await, uri);
    }
    gateway.stop().await;
}

/// The child asks in a call, and not when it is connected.
#[tokio::test]
async fn a_client_is_asked_for_its_roots_only_if_the_upstream_asks() {
    let directory = tempfile::tempdir().unwrap();
    let gateway = RunningGateway::start(directory.path(), vec![child(directory.path(), &[("QUIET", "yes")])]).await;
    for (tool, asked) in [("where", 1), ("log", 0)] {
        let moving = Arc::new(Moving::new("file:///one"));
        let mut options = Options::named("client", "1.0.0");
        options.era = Tasks::Legacy.era();
        options.inputs = Some(moving.clone());
        let connection = Connection::lazy(&gateway.url, options).unwrap();
        let expected = if asked == 1 { "file:///one" } else { "logged" };
        assert_eq!(call(&connection, tool).await, expected);
        assert_eq!(moving.asked.load(Ordering::Relaxed), asked, "{tool}");
    }
    gateway.stop().await;
}

/// A client whose root changes.
struct Moving {
    root: Mutex<&'static str>,
    /// How often it was asked.
    asked: AtomicUsize,
}

impl Moving {
    fn new(root: &'static str) -> Self {
        Self {
            root: Mutex::new(root),
            asked: AtomicUsize::new(0),
        }
    }
}

impl InputHandler for Moving {
    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities {
            roots: true,
            ..ClientCapabilities::default()
        }
    }

    fn answer(&self, _: InputRequest) -> BoxFuture<'static, Result<InputResponse, RpcFailure>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let roots = InputResponse::roots([(*self.root.lock().unwrap(), "root")]);
        Box::pin(std::future::ready(Ok(roots)))
    }
}

#[tokio::test]
async fn changed_roots_reach_the_upstream() {
    let directory = tempfile::tempdir().unwrap();
    let gateway = gateway(directory.path()).await;
    let moving = Arc::new(Moving::new("file:///one"));
    let mut options = Options::named("client", "1.0.0");
    options.era = Tasks::Legacy.era();
    options.inputs = Some(moving.clone());
    let connection = Connection::lazy(&gateway.url, options).unwrap();
    let until_known = async |uri: &str| {
        let known = async { while call(&connection, "roots").await != uri {} };
        guarded("the roots", known).await;
    };
    until_known("file:///one").await;
    *moving.root.lock().unwrap() = "file:///two";
    connection.roots_changed().await.unwrap();
    until_known("file:///two").await;
    gateway.stop().await;
}

fn pings(directory: &Path) -> usize {
    let noted = std::fs::read_to_string(directory.join("hangs.pings")).unwrap_or_default();
    noted.lines().count()
}

#[tokio::test]
async fn a_call_of_an_upstream_that_answers_nothing_any_more_is_given_up() {
    let directory = tempfile::tempdir().unwrap();
    let gateway = gateway_with(directory.path(), Some(2_000)).await;
    let client = Client::connect(&gateway.url, Tasks::Legacy);
    let task = client.task("freeze", json!({})).await;
    let outcome = end(&task).await;
    let failure = failure(&outcome);
    for part in [
        "not known whether `freeze` has run",
        "neither the call nor a ping for 2s",
    ] {
        assert!(failure.message.contains(part), "{failure:?}");
    }
    // The child was ended with it.
    assert_eq!(client.text("ask", json!({})).await, "accept");
    gateway.stop().await;
}

#[tokio::test]
async fn a_long_call_of_an_upstream_that_answers_pings_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let gateway = gateway_with(directory.path(), Some(4_000)).await;
    let client = Client::connect(&gateway.url, Tasks::Legacy);
    let task = hang(&client).await;
    // Each comes after half of the time.
    until("the pings", || pings(directory.path()) >= 3).await;
    assert_eq!(task.get().await.unwrap().status, TaskStatus::Working);
    gateway.stop().await;
}

/// A client that has declared roots, and answers nothing.
struct Silent;

impl InputHandler for Silent {
    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities {
            roots: true,
            ..ClientCapabilities::default()
        }
    }

    fn answer(&self, _: InputRequest) -> BoxFuture<'static, Result<InputResponse, RpcFailure>> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test]
async fn a_client_that_does_not_tell_its_roots_is_served_without_them() {
    let directory = tempfile::tempdir().unwrap();
    let gateway = gateway(directory.path()).await;
    let mut options = Options::named("client", "1.0.0");
    options.era = Tasks::Legacy.era();
    options.inputs = Some(Arc::new(Silent));
    let connection = Connection::lazy(&gateway.url, options).unwrap();
    for _ in 0..4 {
        assert_eq!(call(&connection, "log").await, "logged");
    }
    gateway.stop().await;
}

/// The children that run.
fn children(directory: &Path) -> usize {
    let noted = std::fs::read_to_string(directory.join("hangs.pids")).unwrap_or_default();
    let is_running = |pid: &&str| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        !status.is_empty() && !status.contains("State:\tZ")
    };
    noted.lines().filter(is_running).count()
}

/// One more belongs to the gateway itself.
#[tokio::test]
async fn a_principal_has_sixteen_children_at_most_and_they_end_with_their_sessions() {
    let directory = tempfile::tempdir().unwrap();
    let gateway = gateway(directory.path()).await;
    let mut sessions = Vec::new();
    for _ in 0..20 {
        let mut options = Options::named("client", "1.0.0");
        options.era = Tasks::Legacy.era();
        options.inputs = Some(Inputs::new().roots([("file:///one", "root")]).into());
        let connection = Connection::lazy(&gateway.url, options).unwrap();
        assert_eq!(call(&connection, "log").await, "logged");
        sessions.push(connection);
    }
    until("the oldest to end", || children(directory.path()) == 17).await;
    for session in sessions {
        session.close().await;
    }
    until("the others to end", || children(directory.path()) == 1).await;
    gateway.stop().await;
}

/// Calls `ask` as a client without tasks, again with an answer to what it was asked before.
async fn ask(client: &testing::Client, asked: Option<&Value>) -> Value {
    let mut params = json!({"name": "ask", "arguments": {}});
    if let Some(asked) = asked {
        let names = asked["inputRequests"].as_object().unwrap().keys().cloned();
        let answer = json!({"action": "accept", "content": {"confirm": true}});
        params["inputResponses"] = names.map(|name| (name, answer.clone())).collect();
        params["requestState"] = asked["requestState"].clone();
    }
    let answer = guarded("the response", client.request("tools/call", params));
    answer.await.unwrap()
}

/// The sixteen questions before it were never answered.
#[tokio::test]
async fn a_question_is_put_though_sixteen_before_it_were_abandoned() {
    let directory = tempfile::tempdir().unwrap();
    let gateway = gateway(directory.path()).await;
    let client = testing::Client::connect(&gateway.server, Era::Modern);
    let client = client.declaring(json!({"elicitation": {"form": {}}})).await.unwrap();
    let mut rounds = Vec::new();
    for nth in 0..20 {
        let asked = ask(&client, None).await;
        assert_eq!(asked["resultType"], "input_required", "call {nth}: {asked}");
        rounds.push(asked);
    }
    until("the oldest to end", || children(directory.path()) <= 17).await;
    // The oldest is told why it has no result, and the newest goes on.
    let oldest = ask(&client, rounds.first()).await;
    let why = oldest["content"][0]["text"].as_str().unwrap_or_default();
    let needed = "another call of this client needs the connection";
    assert!(why.contains(needed), "{oldest}");
    assert_eq!(oldest["isError"], true, "{oldest}");
    let newest = ask(&client, rounds.last()).await;
    assert_eq!(newest["content"][0]["text"], "accept", "{newest}");
    gateway.stop().await;
}

#[tokio::test]
async fn a_child_that_ignores_a_cancellation_is_ended_if_nothing_else_runs_in_it() {
    let directory = tempfile::tempdir().unwrap();
    let gateway = gateway(directory.path()).await;
    let client = Client::connect(&gateway.url, Tasks::Modern);
    let other = hang(&client).await;
    let mut shown = Vec::new();
    // The second call has a child of its own.
    for task in [hang(&client).await, other] {
        hang_begins(directory.path(), 2).await;
        let before = children(directory.path());
        task.cancel().await.unwrap();
        end(&task).await;
        until("the child to end", || children(directory.path()) == before - 1).await;
        shown.push(task.get().await.unwrap().message.unwrap_or_default().to_string());
    }
    for message in shown {
        let ended = "its process of upstream `child` was ended";
        assert!(message.contains(ended), "{message}");
    }
    gateway.stop().await;
}

/// Each client gets what it can: a child says neither for which call it logs, nor whether for one.
#[tokio::test]
async fn log_messages_that_name_no_call_reach_the_clients_of_the_principal() {
    let directory = tempfile::tempdir().unwrap();
    let gateway = gateway(directory.path()).await;
    let [(one, _), (other, of_other)] = [(); 2].map(|()| listener(&gateway.url, Tasks::Legacy, LogLevel::Info));
    let has = |seen: &Seen<String>, text: &str| seen.lock().unwrap().iter().any(|message| message.contains(text));
    // A call of another client that runs, and one that was given up.
    let hanging = async |connection: &Connection| {
        let params = json!({"name": "hang", "arguments": {}});
        connection.send("tools/call", params).await.unwrap();
    };
    let calls = async {
        hang_begins(directory.path(), 1).await;
        assert_eq!(call(&other, "log").await, "logged");
        until("the message", || has(&of_other, "during")).await;
    };
    tokio::select! {
        () = hanging(&one) => panic!("it has ended"),
        () = calls => {}
    }
    of_other.lock().unwrap().clear();
    assert_eq!(call(&other, "log").await, "logged");
    until("the message after a call was given up", || has(&of_other, "during")).await;
    gateway.stop().await;
}
