//! `longhaul task` and `longhaul cancel`: show a task, wait for it, cancel it, delete it.

mod artifact;
mod call;
mod cancel;
mod delete;
mod history;
mod log;
mod show;

use crate::{
    args,
    ask::TerminalPrompter,
    call::{
        record::NamedTask,
        tasks,
        waiting::{Deadline, Display, TaskWaiter},
    },
    exit::{failure::Failure, interrupt::Interrupt, result::Exit},
    output,
    servers::{self, Server, notice::with_notice},
};
use longhaul_client::{Connection, RecordedCall, RequestError};
use std::process::ExitCode;

/// Runs the command.
pub(crate) async fn run(task: &args::Task) -> ExitCode {
    match act(task).await {
        Ok(exit) => exit,
        Err(failure) => failure.report(task.json),
    }
    .into()
}

async fn act(args: &args::Task) -> Result<Exit, Failure> {
    if let Some(call) = choose_call(&args.task).await? {
        return call::act(&call, args).await;
    }
    let named = choose(&args.task, "task").await?;
    if let Some(call) = named.call().filter(|call| call.ends_with_process) {
        return call::act(call, args).await;
    }
    let server = &named.server;
    let (asking, mut unasked) = TerminalPrompter::new();
    let connection = server.connection(|options| {
        if args.action.wait {
            options.inputs = Some(asking.clone());
        }
    })?;
    let (client, task) = named.open(&connection).await;
    let until = Deadline::after(args.timeout);
    if args.action.wait {
        tokio::select! {
            biased;
            reached = with_notice(connection.address(), reach(&connection)) => {
                reached.map_err(|error| named.explain(error.into()))?;
            }
            () = until.passed() => {
                let why = "the time of --timeout is over before the server has answered; the task keeps running";
                return Err(Failure::timed_out(why).of_task(task.id()));
            }
        }
    }
    let exit = match &args.action {
        args::TaskAction { wait: true, .. } => {
            let (mut display, mut interrupt) = (Display::new(), Interrupt::new());
            asking.hides(display.bar());
            let mut waiting = TaskWaiter {
                server,
                tool: named.call().map(|call| call.tool.as_str()),
                display: &mut display,
                interrupt: &mut interrupt,
                unasked: &mut unasked,
                json: args.json,
                is_repeated: false,
            };
            waiting.wait(&task, until).await
        }
        args::TaskAction { cancel: true, .. } => cancel::cancel(&task, false, args.json).await,
        args::TaskAction { delete: true, .. } => delete::delete(&task, args.json).await,
        args::TaskAction { log: true, .. } if args.follow => log::follow(&named, &task, args).await,
        args::TaskAction { log: true, .. } => log::print(&named, &task, args).await,
        args::TaskAction { history: true, .. } => history::print(&task, args.json).await,
        args::TaskAction {
            artifact: Some(name), ..
        } => artifact::run(&named, &task, name.as_deref(), args).await,
        _ => show::show(&named, &task, args.json).await,
    };
    if client.has_journal() || server.is_child() || !matches!(exit, Ok(Exit::Interrupted | Exit::Asks)) {
        client.close().await;
    }
    exit.map_err(|failure| named.explain(failure))
}

/// Connects. A server that is busy or stopping will be asked again, but not one that cannot be reached: the address may be wrong.
async fn reach(connection: &Connection) -> Result<(), RequestError> {
    let is_silent =
        |error: &RequestError| matches!(error, RequestError::Unreachable { .. } | RequestError::TimedOut { .. });
    match connection.server().await {
        Err(error) if error.is_transient() && !is_silent(&error) => Ok(()),
        reached => reached.map(drop),
    }
}

/// The recorded call that the words or `--id` name, if it is no task.
async fn choose_call(args: &args::TaskArgs) -> Result<Option<RecordedCall>, Failure> {
    let (_, rest) = servers::choose(&args.server, &args.words)?;
    match (rest, &args.id) {
        ([id], None) => tasks::find_call(id).await,
        ([], Some(id)) => tasks::find_call(id).await,
        _ => Ok(None),
    }
}

/// The task that the words name, or `--id`; without any the only one.
async fn choose(args: &args::TaskArgs, command: &str) -> Result<NamedTask, Failure> {
    let (server, rest) = servers::choose(&args.server, &args.words)?;
    match (rest, &args.id) {
        ([id], None) => NamedTask::find(server, id).await,
        ([], Some(id)) => NamedTask::find(server, id).await,
        ([], None) => NamedTask::only(server, command).await,
        (words, id) => {
            // Behind -s the first one is the id.
            let is_id_first = args.server.server.is_some() && id.is_none();
            servers::nothing_more(&args.server, &words[usize::from(is_id_first)..])?;
            Err(Failure::usage("name one task"))
        }
    }
}

/// `longhaul cancel`
pub(crate) async fn cancel_command(args: &args::Cancel) -> ExitCode {
    match cancel_all(args).await {
        Ok(exit) => exit,
        Err(failure) => failure.report(args.json),
    }
    .into()
}

/// Cancels each task, whatever becomes of the others. The status is that of the first one that was not cancelled.
async fn cancel_all(args: &args::Cancel) -> Result<Exit, Failure> {
    let (server, words) = servers::choose(&args.task.server, &args.task.words)?;
    let ids: Vec<&String> = words.iter().chain(&args.task.id).collect();
    let mut first = None;
    match ids.as_slice() {
        [] => return Err(Failure::usage("name the task: longhaul cancel [SERVER] ID")),
        [only] => return cancel_one(server, only, args).await,
        _ => {}
    }
    for id in ids {
        if let Err(failure) = cancel_one(server.clone(), id, args).await {
            let exit = failure.explained(&output::id(id)).report(args.json);
            first.get_or_insert(exit);
        }
    }
    Ok(first.unwrap_or(Exit::Answered))
}

async fn cancel_one(server: Server, id: &str, args: &args::Cancel) -> Result<Exit, Failure> {
    if let Some(call) = tasks::find_call(id).await? {
        return call::cancel(&call, args.json).await;
    }
    let named = NamedTask::find(server, id).await?;
    if let Some(call) = named.call().filter(|call| call.ends_with_process) {
        return call::cancel(call, args.json).await;
    }
    let connection = named.server.connection(|_| {})?;
    let (client, task) = named.open(&connection).await;
    let exit = cancel::cancel(&task, args.wait, args.json).await;
    client.close().await;
    exit.map_err(|failure| named.explain(failure))
}
