//! The nine cells of {2025-11-25 tasks, 2026-07-28 tasks, no tasks} client × upstream: what each does through the gateway, in front of an upstream over HTTP and
//! of a child. The tests print a table.

use crate::{
    client::{Client, end},
    upstream::{Tasks, Upstream, Work, server},
    world::{RunningGateway, guarded, options, with_every_call_a_task},
};
use futures_util::future::join_all;
use longhaul_client::{CallResponse, ChildOptions, Event, Outcome, RequestError, TaskStatus};
use longhaul_core::{TaskPolicy, Verdict};
use longhaul_gateway::{Target, UpstreamOptions};
use serde_json::{Value, json};
use std::{env, path::Path, process::Command};
use tempfile::TempDir;

/// How the gateway reaches the upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Transport {
    Http,
    Stdio,
}

/// What is tried in a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trial {
    Call,
    LargeResult,
    Failure,
    Question,
    Task,
    Progress,
    Cancel,
    RestartOfGateway,
    RestartOfUpstream,
}

impl Trial {
    const ALL: [Self; 9] = [
        Self::Call,
        Self::LargeResult,
        Self::Failure,
        Self::Question,
        Self::Task,
        Self::Progress,
        Self::Cancel,
        Self::RestartOfGateway,
        Self::RestartOfUpstream,
    ];
}

/// An upstream over HTTP, or a folder for children.
enum Side {
    Http(Upstream),
    Child { folder: TempDir, tasks: Tasks, work: Work },
}

/// The variables by which a child knows what it is.
const FOLDER: &str = "UPSTREAM_FOLDER";
const TASKS: &str = "UPSTREAM_TASKS";

impl Side {
    async fn start(transport: Transport, tasks: Tasks) -> Self {
        match transport {
            Transport::Http => Self::Http(Upstream::start(tasks).await),
            Transport::Stdio => {
                let folder = tempfile::tempdir().unwrap();
                let work = Work::new(folder.path());
                Self::Child { folder, tasks, work }
            }
        }
    }

    fn tasks(&self) -> Tasks {
        match self {
            Self::Http(upstream) => upstream.tasks,
            Self::Child { tasks, .. } => *tasks,
        }
    }

    fn work(&self) -> &Work {
        match self {
            Self::Http(upstream) => &upstream.work,
            Self::Child { work, .. } => work,
        }
    }

    fn options(&self) -> Vec<UpstreamOptions> {
        let options = match self {
            Self::Http(upstream) => return options(&[("up", upstream)]),
            Self::Child { folder, tasks, .. } => child(folder.path(), *tasks),
        };
        vec![with_every_call_a_task(options)]
    }

    /// Ends the upstream while a tool runs. Another one takes its place, and knows no task of it.
    async fn restarted(self) -> Self {
        match self {
            Self::Http(upstream) => Self::Http(upstream.restarted().await),
            Self::Child { .. } => {
                let killed = Command::new("kill").args(["-9", &self.work().process()]).status();
                assert!(killed.unwrap().success());
                self
            }
        }
    }
}

/// This program as an upstream. The test harness writes to standard output, so the upstream writes to a copy of it.
fn child(folder: &Path, tasks: Tasks) -> UpstreamOptions {
    let script = "exec 3>&1 1>&2; exec \"$0\" --exact cells::a_child --ignored --nocapture";
    let program = env::current_exe().unwrap().display().to_string();
    let mut child = ChildOptions::new("sh", ["-c", script, &program]);
    let variables = [(FOLDER, folder.display().to_string()), (TASKS, format!("{tasks:?}"))];
    child.env = variables.map(|(name, value)| (name.to_owned(), value)).to_vec();
    UpstreamOptions {
        era: tasks.era(),
        ..UpstreamOptions::new("up", Target::Command(child))
    }
}

/// No test: what `child` starts.
#[tokio::test]
#[ignore = "it is started by other tests"]
async fn a_child() {
    let (Ok(folder), Ok(tasks)) = (env::var(FOLDER), env::var(TASKS)) else {
        return;
    };
    let mut all = Tasks::ALL.into_iter();
    let tasks = all.find(|known| format!("{known:?}") == tasks).unwrap();
    let server = server(tasks, &Work::new(Path::new(&folder))).start().await.unwrap();
    let output = tokio::fs::OpenOptions::new().write(true).open("/dev/fd/3").await;
    server.serve_lines(tokio::io::stdin(), output.unwrap()).await.unwrap();
    // Reading standard input cannot be given up.
    std::process::exit(0);
}

/// Tries everything in each cell, and prints the table. A trial that fails is the last one that has begun on its transport.
#[tokio::test]
async fn all_cells() {
    // Not on the stack of the thread, which is too small for the state of two.
    let transports = [Transport::Http, Transport::Stdio]
        .into_iter()
        .filter(|transport| *transport == Transport::Http || cfg!(unix));
    let tables = join_all(transports.map(|transport| Box::pin(rows(transport)))).await;
    let trials = Trial::ALL.map(|trial| format!("{trial:?}")).join("  ");
    println!("{:<8}{:<10}{:<11}{trials}", "client", "upstream", "transport");
    for row in tables.iter().flatten() {
        println!("{row}");
    }
}

/// The rows of the table for upstreams that are reached in this way.
async fn rows(transport: Transport) -> Vec<String> {
    let mut rows = Vec::new();
    for upstream in Tasks::ALL {
        for client in Tasks::ALL {
            let [of_client, of_upstream] = [client, upstream].map(|tasks| format!("{tasks:?}"));
            let mut row = format!("{of_client:<8}{of_upstream:<10}{:<11}", format!("{transport:?}"));
            for trial in Trial::ALL {
                let name = format!("{trial:?}");
                println!("{transport:?}: client {client:?}, upstream {upstream:?}: {name}");
                let side = Side::start(transport, upstream).await;
                // On the heap: it has the state of every trial, which is more than a thread's stack takes.
                Box::pin(try_it(trial, client, side)).await;
                row.push_str(&format!("{:<1$}", "passed", name.len() + 2));
            }
            rows.push(row.trim_end().to_owned());
        }
    }
    rows
}

async fn try_it(trial: Trial, client_tasks: Tasks, side: Side) {
    let directory = tempfile::tempdir().unwrap();
    let mut upstreams = side.options();
    if (trial, client_tasks) == (Trial::Task, Tasks::None) {
        upstreams[0].rules[0].handoff = Some(longhaul_runtime::Handoff::After(1));
    }
    let gateway = RunningGateway::start(directory.path(), upstreams).await;
    let client = Client::connect(&gateway.url, client_tasks);
    match trial {
        Trial::Call => {
            let arguments = json!({"n": [1, 2.5, "ü"], "deep": {"a": null}});
            let expected = direct(side.tasks(), client_tasks, "echo", arguments.clone()).await;
            assert_eq!(client.result("echo", arguments).await, expected);
        }
        Trial::LargeResult => {
            let large = client.text("large", json!({"bytes": 2_000_000})).await;
            assert_eq!(large.len(), 2_000_000);
        }
        Trial::Failure => {
            let failed = client.call("fail", json!({})).await.unwrap();
            assert_eq!(failed.verdict(), Verdict::ToolError);
        }
        Trial::Question => {
            assert_eq!(client.text("confirm", json!({})).await, "confirmed: true");
            assert_eq!(*client.asked.lock().unwrap(), ["Really?"]);
        }
        // A client without tasks is told how to follow it.
        Trial::Task if client_tasks == Tasks::None => {
            let told = client.text("hold", json!({})).await;
            let (_, id) = told.split_once("as task ").unwrap();
            let task = json!({"task": id.split_once(". ").unwrap().0});
            side.work().has_begun(1).await;
            let status = client.text("task_status", task.clone()).await;
            assert!(status.contains("running"), "{status}");
            side.work().release();
            assert_eq!(client.text("task_wait", task).await, "held");
            assert_eq!(side.work().begun(), 1);
        }
        Trial::Task => {
            let task = started(&client, "hold", side.work()).await;
            assert_eq!(task.get().await.unwrap().status, TaskStatus::Working);
            side.work().release();
            let outcome = end(&task).await;
            assert_eq!(outcome.verdict(), Verdict::Succeeded);
            assert_eq!(side.work().begun(), 1);
        }
        Trial::Progress => see_progress(&client, side.tasks(), side.work()).await,
        Trial::Cancel => cancel(&client, side.tasks(), side.work()).await,
        // The call ends with its connection, and its client cannot find it again.
        Trial::RestartOfGateway if client_tasks == Tasks::None => {
            let calling = client.call("hold", json!({}));
            let restarting = async {
                side.work().has_begun(1).await;
                gateway.stop().await;
                RunningGateway::start(directory.path(), side.options()).await
            };
            let (ended, gateway) = guarded("both", async { tokio::join!(calling, restarting) }).await;
            assert_not_succeeded(&ended);
            let client = Client::connect(&gateway.url, client_tasks);
            assert_eq!(client.text("large", json!({"bytes": 3})).await.len(), 3);
            assert_eq!(side.work().begun(), 1, "it is not idempotent");
            return gateway.stop().await;
        }
        Trial::RestartOfGateway => {
            let task = started(&client, "hold", side.work()).await;
            let id = task.id().to_owned();
            if side.tasks() != Tasks::None {
                // The gateway has the task of the upstream when it reports its status.
                while task.get().await.unwrap().message.is_none() {
                    tokio::task::yield_now().await;
                }
            }
            gateway.stop().await;
            let gateway = RunningGateway::start(directory.path(), side.options()).await;
            let client = Client::connect(&gateway.url, client_tasks);
            let task = client.connection.task(id);
            if matches!(side, Side::Http(_)) && side.tasks() != Tasks::None {
                assert_eq!(task.get().await.unwrap().status, TaskStatus::Working);
            }
            side.work().release();
            let ended = guarded("the end", task.wait(&mut |_| {})).await;
            match (&side, side.tasks()) {
                // Its task has lived on.
                (Side::Http(_), Tasks::Legacy | Tasks::Modern) => {
                    assert_eq!(ended.unwrap().verdict(), Verdict::Succeeded);
                }
                _ => assert_interrupted(&ended),
            }
            assert_eq!(side.work().begun(), 1);
            return gateway.stop().await;
        }
        Trial::RestartOfUpstream => {
            let calling = client.call("hold", json!({}));
            let restarting = async {
                side.work().has_begun(1).await;
                side.restarted().await
            };
            let (ended, side) = guarded("both", async { tokio::join!(calling, restarting) }).await;
            assert_not_succeeded(&ended);
            assert_eq!(side.work().begun(), 1, "it is not idempotent");
        }
    }
    gateway.stop().await;
}

/// The result of a call without the gateway.
async fn direct(upstream: Tasks, client: Tasks, tool: &str, arguments: Value) -> Value {
    let upstream = Upstream::start(upstream).await;
    Client::connect(&upstream.url, client).result(tool, arguments).await
}

/// A task whose tool has begun.
async fn started(client: &Client, tool: &str, work: &Work) -> longhaul_client::TaskHandle {
    let task = client.task(tool, json!({})).await;
    work.has_begun(1).await;
    task
}

/// A client with a task sees the message as its status, and one without as progress of the call. One of 2025-11-25 gets the figures of its task, too, unless the
/// upstream cannot report them: tasks of 2026-07-28 have none.
async fn see_progress(client: &Client, upstream: Tasks, work: &Work) {
    if client.tasks == Tasks::None {
        let ended = client.call_plainly("hold", |message| {
            assert_eq!(message, "half");
            work.release();
        });
        let CallResponse::Done(outcome) = ended.await.unwrap() else {
            panic!("a task")
        };
        return assert_eq!(outcome.verdict(), Verdict::Succeeded);
    }
    let task = started(client, "hold", work).await;
    let mut status = None;
    while status.as_deref() != Some("half") {
        let snapshot = guarded("a poll", task.get()).await.unwrap();
        assert_eq!(snapshot.status, TaskStatus::Working);
        status = snapshot
            .message
            .map(|message| message.split(": ").last().unwrap_or_default().to_owned());
        tokio::task::yield_now().await;
    }
    if client.tasks == Tasks::Modern || upstream == Tasks::Modern {
        work.release();
        end(&task).await;
        return;
    }
    let mut has_figures = false;
    let on_event = &mut |event: Event<'_>| {
        let Event::TaskProgress(progress) = event else { return };
        assert_eq!((progress.total, progress.message.as_deref()), (Some(2.0), Some("half")));
        assert!((1.0..2.0).contains(&progress.progress), "{progress:?}");
        // The first may come before the answer with the task, as progress of the call.
        if progress.progress > 1.01 && !std::mem::replace(&mut has_figures, true) {
            work.release();
        }
    };
    guarded("the figures", task.wait(on_event)).await.unwrap();
    assert!(has_figures, "only those of before the task");
}

async fn cancel(client: &Client, upstream: Tasks, work: &Work) {
    if client.tasks == Tasks::None {
        tokio::select! {
            ended = client.call_plainly("hold", |_| {}) => panic!("it ended: {ended:?}"),
            () = work.has_begun(1) => {}
        }
        // A call that is dropped is cancelled.
        return work.was_cancelled(1).await;
    }
    let task = started(client, "hold", work).await;
    task.cancel().await.unwrap();
    work.was_cancelled(1).await;
    // A legacy server has no outcome of a cancelled task.
    let ended = guarded("the end", task.wait(&mut |_| {})).await;
    assert!(!matches!(ended, Ok(Outcome::Result { .. })), "{ended:?}");
    assert_eq!(task.get().await.unwrap().status, TaskStatus::Cancelled);
    // For a client of 2025-11-25 the task has ended before the upstream has answered.
    if client.tasks == Tasks::Modern && upstream != Tasks::None {
        let told = task.get().await.unwrap().message.unwrap_or_default();
        assert_eq!(told, "upstream `up` has cancelled its task");
    }
}

fn assert_not_succeeded(ended: &Result<Outcome, RequestError>) {
    let has_succeeded = matches!(ended, Ok(Outcome::Result { is_error: false, .. }));
    assert!(!has_succeeded, "{ended:?}");
}

fn assert_interrupted(ended: &Result<Outcome, RequestError>) {
    let Ok(Outcome::RpcError(failure)) = ended else {
        panic!("{ended:?}")
    };
    assert!(failure.message.contains("it is not known whether"), "{failure:?}");
}

/// A call that becomes a task after an hour is one at once if the upstream makes a task of it.
#[tokio::test]
async fn a_call_is_a_task_as_soon_as_it_is_one_of_the_upstream() {
    let upstream = Upstream::start(Tasks::Modern).await;
    let directory = tempfile::tempdir().unwrap();
    let mut upstreams = options(&[("up", &upstream)]);
    upstreams[0].rules[0].task = Some(TaskPolicy::After(3_600_000));
    let gateway = RunningGateway::start(directory.path(), upstreams).await;
    let client = Client::connect(&gateway.url, Tasks::Modern);
    let task = client.task("hold", json!({})).await;
    upstream.release();
    let outcome = end(&task).await;
    assert_eq!(outcome.verdict(), Verdict::Succeeded);
    // The upstream of a client without tasks is not asked for one, so its progress arrives.
    let plain = Client::connect(&gateway.url, Tasks::None);
    upstream.release();
    assert_eq!(plain.text("hold", json!({})).await, "held");
    gateway.stop().await;
}
