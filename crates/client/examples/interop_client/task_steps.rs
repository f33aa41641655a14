//! The steps with tasks.

use crate::{
    arguments::{Arguments, Start},
    steps::{Deviation, Session, check, ensure, is_unknown},
    tools::Call,
};
use longhaul_client::{CallOptions, CallResponse, Client, Event, InputRequest, Outcome, TaskHandle};
use longhaul_ledger::ClientJournal;
use std::{path::Path, process::Stdio};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::Command,
};

/// Calls a tool, which must answer with a task.
async fn start(session: &Session, call: &Call) -> Result<TaskHandle, Deviation> {
    match session.call(call, &mut |_| {}).await? {
        CallResponse::Task(task) => Ok(task),
        CallResponse::Done(outcome) => Err(format!("it became no task: {outcome:?}").into()),
    }
}

pub(crate) async fn task(session: &Session) -> Result<(), Deviation> {
    let call = session.arguments.tools.task();
    let task = start(session, &call).await?;
    check(&task.wait(&mut |_| {}).await?, &call)
}

pub(crate) async fn task_asks(session: &Session) -> Result<(), Deviation> {
    let asked = answer(session, session.arguments.tools.task_asks(), false, 1).await?;
    ensure!(asked.len() == 1, asked);
    Ok(())
}

pub(crate) async fn task_is_declined(session: &Session) -> Result<(), Deviation> {
    let asked = answer(session, session.arguments.tools.task_is_declined(), true, 1).await?;
    ensure!(asked.len() == 1, asked);
    Ok(())
}

/// The user answers when both questions are open.
pub(crate) async fn questions_at_once(session: &Session) -> Result<(), Deviation> {
    let call = session.arguments.tools.questions_at_once();
    let asked = answer(session, call.ok_or("these tools ask one thing at a time")?, false, 2).await?;
    ensure!(asked.len() == 2 && asked[0].message() != asked[1].message(), asked);
    Ok(())
}

/// Runs a task that asks. Returns its questions.
async fn answer(
    session: &Session,
    call: Call,
    declines: bool,
    together: usize,
) -> Result<Vec<InputRequest>, Deviation> {
    session.user.expect(declines, together);
    let task = start(session, &call).await?;
    check(&task.wait(&mut |_| {}).await?, &call)?;
    Ok(session.user.asked())
}

/// An error of a tool is the same outcome in both generations.
pub(crate) async fn tool_error(session: &Session) -> Result<(), Deviation> {
    let call = session.arguments.tools.tool_error().ok_or("these tools do not fail")?;
    let outcome = start(session, &call).await?.wait(&mut |_| {}).await?;
    ensure!(matches!(outcome, Outcome::Result { is_error: true, .. }), outcome);
    Ok(())
}

pub(crate) async fn cancel(session: &Session) -> Result<(), Deviation> {
    let task = start(session, &session.arguments.tools.endless()).await?;
    task.cancel().await?;
    let outcome = task.wait(&mut |_| {}).await?;
    ensure!(outcome == Outcome::Cancelled, outcome);
    Ok(())
}

/// The question is withdrawn: the user never answers it.
pub(crate) async fn cancel_while_it_asks(session: &Session) -> Result<(), Deviation> {
    session.user.expect(false, usize::MAX);
    let task = start(session, &session.arguments.tools.task_asks()).await?;
    let cancel = async {
        session.user.is_asked().await;
        task.cancel().await
    };
    let mut on_event = |_: Event<'_>| {};
    let (outcome, cancelled) = tokio::join!(task.wait(&mut on_event), cancel);
    cancelled?;
    let outcome = outcome?;
    ensure!(outcome == Outcome::Cancelled, outcome);
    session.user.has_no_open_question().await;
    Ok(())
}

/// A task that has ended can be read again.
pub(crate) async fn read_again(session: &Session) -> Result<(), Deviation> {
    let call = session.arguments.tools.task();
    let task = start(session, &call).await?;
    let first = task.wait(&mut |_| {}).await?;
    let again = session.connection.task(task.id()).wait(&mut |_| {}).await?;
    check(&first, &call)?;
    check(&again, &call)
}

pub(crate) async fn unknown_task(session: &Session) -> Result<(), Deviation> {
    let read = session.connection.task("nothing").get().await;
    ensure!(is_unknown(&read), read);
    Ok(())
}

/// Another process starts a task and is killed. This one waits for the task.
pub(crate) async fn killed_caller(session: &Session) -> Result<(), Deviation> {
    let call = session.arguments.tools.long_task();
    let task = session
        .connection
        .task(kill_a_caller(&session.arguments, Start::Long, None).await?);
    check(&task.wait(&mut |_| {}).await?, &call)
}

/// Another process starts a task and is killed before it has answered. This one answers.
pub(crate) async fn killed_while_it_asks(session: &Session) -> Result<(), Deviation> {
    session.user.expect(false, 1);
    let call = session.arguments.tools.task_asks();
    let task = session
        .connection
        .task(kill_a_caller(&session.arguments, Start::Asks, None).await?);
    check(&task.wait(&mut |_| {}).await?, &call)?;
    let asked = session.user.asked();
    ensure!(asked.len() == 1, asked);
    Ok(())
}

/// The same as [`killed_caller`] with a server that knows only the tasks of the own session.
pub(crate) async fn task_of_another_session(session: &Session) -> Result<(), Deviation> {
    let task = session
        .connection
        .task(kill_a_caller(&session.arguments, Start::Long, None).await?);
    let waited = task.wait(&mut |_| {}).await;
    ensure!(is_unknown(&waited), waited);
    Ok(())
}

/// Another process records its call in a journal and is killed. This one finds the task there, and waits for it: in the session of that process, if the
/// server keeps tasks by session.
pub(crate) async fn recorded_and_killed(session: &Session, start: Start) -> Result<(), Deviation> {
    let call = call_of(session, start)?;
    let questions = match start {
        Start::Long => 0,
        Start::Asks => 1,
        Start::AsksTwice => 2,
    };
    let folder = tempfile::tempdir()?;
    let journal = folder.path().join("journal/handles.db");
    let id = kill_a_caller(&session.arguments, start, Some(&journal)).await?;
    let client = Client::recorded(session.connection.clone(), ClientJournal::open(&journal).await?);
    let tasks = client.tasks().await?;
    ensure!(tasks.len() == 1 && tasks[0].id() == id, tasks);
    session.user.expect(false, questions);
    let outcome = tasks[0].wait(&mut |_| {}).await?;
    check(&outcome, &call)?;
    let asked = session.user.asked();
    ensure!(asked.len() == questions, asked);
    tasks[0].finish(&outcome).await?;
    let left = client.calls().await?;
    ensure!(left.is_empty(), left);
    Ok(())
}

/// Starts a task in another process, and kills that process. Returns the task's id.
async fn kill_a_caller(arguments: &Arguments, start: Start, journal: Option<&Path>) -> Result<String, Deviation> {
    let mut caller = Command::new(std::env::current_exe()?);
    caller.args(["--start", start.name()]);
    if let Some(journal) = journal {
        caller.arg("--journal").arg(journal);
    }
    let mut caller = caller
        .args(&arguments.given)
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let output = caller.stdout.take().ok_or("it has no output")?;
    let id = BufReader::new(output).lines().next_line().await?;
    caller.kill().await?;
    Ok(id.ok_or("the other process has started no task")?)
}

fn call_of(session: &Session, which: Start) -> Result<Call, Deviation> {
    let tools = &session.arguments.tools;
    Ok(match which {
        Start::Long => tools.long_task(),
        Start::Asks => tools.task_asks(),
        Start::AsksTwice => tools.questions_at_once().ok_or("these tools ask one thing at a time")?,
    })
}

/// What the other process does. It answers nothing.
pub(crate) async fn start_and_stay(session: &Session, which: Start) -> Result<(), Deviation> {
    session.user.expect(false, usize::MAX);
    let call = call_of(session, which)?;
    let task = match &session.arguments.journal {
        Some(journal) => start_recorded(session, &call, journal).await?,
        None => start(session, &call).await?,
    };
    println!("{}", task.id());
    std::future::pending().await
}

/// The task is recorded when this returns.
async fn start_recorded(session: &Session, call: &Call, journal: &Path) -> Result<TaskHandle, Deviation> {
    let client = Client::recorded(session.connection.clone(), ClientJournal::open(journal).await?);
    let tool = session.tool(call.tool).await?;
    let mut pending = client.prepare(tool, &call.arguments, CallOptions::default()).await?;
    match pending.send(&mut |_| {}).await? {
        CallResponse::Task(task) => Ok(task),
        CallResponse::Done(outcome) => Err(format!("it became no task: {outcome:?}").into()),
    }
}
