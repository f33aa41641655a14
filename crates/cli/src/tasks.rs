//! `longhaul tasks`: what this user has called.

use crate::{
    args,
    failure::Failure,
    output::{self, plain},
    record,
    result::Exit,
    servers,
};
use longhaul_client::{CallState, Finished, RecordedCall};
use longhaul_core::{UnixMillis, format_duration};
use serde_json::{Value, json};
use std::process::ExitCode;

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
    if let Some(word) = rest.first() {
        return Err(Failure::usage(format!(
            "`{word}` is not a URL and not a configured server"
        )));
    }
    let calls = record::list(&server).await.map_err(Failure::usage)?;
    if args.json {
        let listed: Vec<Value> = calls.iter().map(as_json).collect();
        output::json_line(&json!({"calls": listed}));
    } else if calls.is_empty() {
        output::note("no calls are recorded");
    } else {
        let now = longhaul_core::Clock::now(&longhaul_client::SystemClock);
        let lines: String = calls.iter().map(|call| line(call, now)).collect();
        output::text(&lines);
    }
    Ok(Exit::Answered)
}

/// The whole id, so that it can be copied.
fn line(call: &RecordedCall, now: UnixMillis) -> String {
    let id = call.task.as_ref().map_or("-", |task| task.task_id.as_str());
    let age = now.0.saturating_sub(call.begun_at.0).max(0) as u64;
    let age = format_duration(age - age % 1000);
    let server = call.server_name.as_deref().unwrap_or(&call.server);
    format!(
        "{}  {}  {}  {age} ago  {}\n",
        plain(id, ""),
        plain(&call.tool, ""),
        state(call),
        plain(server, "")
    )
}

fn state(call: &RecordedCall) -> String {
    match &call.state {
        CallState::InFlight => "being sent".to_owned(),
        CallState::Interrupted => "outcome unknown: the program ended before there was an answer".to_owned(),
        CallState::Task => match call.status {
            Some(status) => status.as_str().to_owned(),
            None => "working".to_owned(),
        },
        CallState::Unknown { reason } => format!("outcome unknown: {}", plain(reason, "")),
        CallState::Lost { reason } => format!("lost: {}", plain(reason, "")),
        CallState::Finished(finished) => match finished {
            Finished::Answered | Finished::Completed => "done".to_owned(),
            Finished::Failed => "failed".to_owned(),
            Finished::Cancelled => "cancelled".to_owned(),
            _ => "refused".to_owned(),
        },
        _ => "unknown".to_owned(),
    }
}

fn as_json(call: &RecordedCall) -> Value {
    json!({
        "taskId": call.task.as_ref().map(|task| &task.task_id),
        "tool": call.tool,
        "server": call.server,
        "serverName": call.server_name,
        "state": state(call),
        "idempotencyKey": call.idempotency_key,
        "begunAt": call.begun_at.0,
    })
}
