//! `longhaul tasks`: what this user has called, and what the servers list.

mod ask_servers;
mod row;
mod table;

use row::call_number;
pub(crate) use row::{TaskRow, call_name, name_of};
pub(crate) use table::shortened;

use crate::{
    args,
    call::record,
    exit::{failure::Failure, result::Exit},
    output,
    output::columns::terminal_width,
    servers::{self, Server, notice::with_notice},
};
use longhaul_client::{CallFilter, RecordedCall, SystemClock};
use longhaul_core::Clock;
use serde_json::{Value, json};
use std::{
    io::{self, IsTerminal},
    process::ExitCode,
};

/// The recorded call of this name, if it is no task.
pub(crate) async fn find_call(name: &str) -> Result<Option<RecordedCall>, Failure> {
    let Some(number) = call_number(name) else {
        return Ok(None);
    };
    let calls = record::list(CallFilter::default()).await?;
    Ok(calls.into_iter().find(|call| call.id == number && call.task.is_none()))
}

/// Runs the command.
pub(crate) async fn run(args: &args::Tasks) -> ExitCode {
    match list(args).await {
        Ok(exit) => exit,
        Err(failure) => failure.report(args.json),
    }
    .into()
}

async fn list(args: &args::Tasks) -> Result<Exit, Failure> {
    let (server, rest) = servers::choose(&args.server, &args.words)?;
    servers::nothing_more(&args.server, rest)?;
    server.check()?;
    let mut rows = recorded(&server).await?;
    if !args.offline {
        let asked = ask_servers::ask(&server, &mut rows);
        let listed = with_notice("the servers", asked).await;
        rows.extend(listed);
        // Nothing is known of this server, so it was not said either whether it can be reached.
        if rows.is_empty() && server.is_named() {
            let connection = server.connection(|_| {})?;
            with_notice(connection.address(), connection.server()).await?;
            connection.close().await;
        }
    }
    if args.open {
        rows.retain(TaskRow::is_open);
    }
    if !args.json {
        // They would bury the tasks.
        rows.sort_by_key(TaskRow::is_ended_call);
    }
    if args.json {
        let listed: Vec<Value> = rows.iter().map(TaskRow::as_json).collect();
        output::json_line(&json!({"calls": listed}));
    } else if rows.is_empty() {
        output::note(match args.open {
            true => "no call is open",
            false => "no calls are recorded",
        });
    } else {
        let now = SystemClock.now();
        let lines = match io::stdout().is_terminal() {
            true => table::table(&rows, now, terminal_width()),
            false => rows.iter().map(|row| format!("{}\n", row.line(now))).collect(),
        };
        output::text(&lines);
    }
    Ok(Exit::Answered)
}

/// The only one of the tasks that asks, as their servers tell now. If others may ask, too, because their servers did not tell it, an error lists them.
pub(crate) async fn only_that_asks(server: &Server, calls: Vec<RecordedCall>) -> Result<RecordedCall, Failure> {
    let mut rows: Vec<TaskRow> = calls.into_iter().map(TaskRow::recorded).collect();
    let asked = ask_servers::ask(server, &mut rows);
    with_notice("the servers", asked).await;
    rows.retain(|row| row.asks() || (row.not_told.is_some() && !row.is_lost()));
    rows.sort_by_key(|row| row.not_told.is_some());
    if let [only] = rows.as_mut_slice()
        && only.not_told.is_none()
        && let Some(call) = only.call.take()
    {
        return Ok(call);
    }
    let asking = rows.iter().filter(|row| row.not_told.is_none()).count();
    let first = match (asking, rows.len() - asking) {
        (0, 0) => return Err(Failure::refused("none of your tasks asks anything now".to_owned())),
        (0, _) => "no task is known to ask, and these may; name one",
        (_, 0) => "several tasks ask; name one",
        (_, _) => "name a task; these ask, or may ask",
    };
    let now = SystemClock.now();
    let lines: String = rows.iter().map(|row| format!("\n  {}", row.line(now))).collect();
    Err(Failure::usage(format!("{first}:{lines}")))
}

/// The recorded calls, the latest first; only those of the server, if the command line names one.
async fn recorded(server: &Server) -> Result<Vec<TaskRow>, Failure> {
    let filter = CallFilter {
        // A child process may be recorded in several folders.
        server: (server.is_chosen() && !server.is_child()).then(|| server.recorded()),
        ..CallFilter::default()
    };
    let calls = record::list(filter).await?;
    let calls = record::distinct(calls.iter().filter(|call| server.covers(call)));
    Ok(calls.into_iter().cloned().map(TaskRow::recorded).collect())
}
