//! Showing and cancelling a call that is no task, or whose task only its command reaches, by what the journal knows of it.

use super::show::{describe_questions, key_line};
use crate::{
    args,
    call::{
        record,
        tasks::{TaskRow, name_of},
        waiting::answer_line,
    },
    exit::{
        failure::Failure,
        result::{self, Exit},
    },
    output::{self, states},
    servers::{self, notice::with_notice},
};
use longhaul_client::{CallState, Finished, RecordedCall, RequestError, SystemClock, TaskStatus};
use longhaul_core::{Clock, approximate_duration};
use longhaul_ledger::{CallCancellation, ClientJournal};
use serde_json::json;
use std::time::Duration;

/// How long the program that makes the call may take to cancel it.
const LONGEST_WAIT: Duration = Duration::from_secs(6);

/// Does what `longhaul task` is to do with it.
pub(super) async fn act(call: &RecordedCall, args: &args::Task) -> Result<Exit, Failure> {
    let is_no_task = |what: &str| {
        let name = name_of(call);
        Failure::usage(match call.ends_with_process {
            true => format!(
                "{name} ends with the command that made the call, which still runs, and alone reaches its server; `task`, `answer` and `cancel` reach that command"
            ),
            false => format!("{name} is no task{what}"),
        })
    };
    match &args.action {
        args::TaskAction { wait: true, .. } => Err(is_no_task("; only the program that makes it gets its result")),
        args::TaskAction { cancel: true, .. } => cancel(call, args.json).await,
        args::TaskAction { delete: true, .. } => Err(is_no_task(", so the server keeps nothing of it")),
        args::TaskAction { log: true, .. } => Err(is_no_task(", so it has no log")),
        args::TaskAction { history: true, .. } => Err(is_no_task(", so it has no history")),
        _ => show(call, args.json).await,
    }
}

async fn show(call: &RecordedCall, json: bool) -> Result<Exit, Failure> {
    let asked = match call.state {
        CallState::InFlight | CallState::Interrupted | CallState::Task => {
            record::open().await?.call_questions(call.id).await?
        }
        _ => Vec::new(),
    };
    let row = TaskRow::recorded(call.clone());
    if json {
        let mut shown = row.as_json();
        // Of a call that has ended, too: it was named.
        if call.task.is_none() {
            shown["call"] = name_of(call).into();
        }
        if let Some(asked) = result::questions(&asked) {
            shown["inputRequests"] = asked;
        }
        output::json_line(&shown);
        return Ok(Exit::Answered);
    }
    let (state, detail) = row.state();
    let lines = [
        (if call.task.is_some() { "task" } else { "call" }, Some(name_of(call))),
        ("tool", Some(call.tool.clone())),
        ("server", Some(servers::recorded(call).shown())),
        ("status", Some(state)),
        ("message", detail),
        (
            "begun",
            Some(format!("{} ago", approximate_duration(record::age(call.begun_at)))),
        ),
    ];
    let lines = lines
        .into_iter()
        .filter_map(|(name, value)| Some(format!("{name:<9} {}\n", output::plain(&value?, ""))));
    let text: String = lines.chain(key_line(call)).chain(describe_questions(&asked)).collect();
    output::text(&text);
    for question in &asked {
        output::note(&answer_line(&servers::recorded(call), &name_of(call), question));
    }
    Ok(Exit::Answered)
}

/// Has the program that makes the call cancel it, and says what has become of it.
pub(super) async fn cancel(call: &RecordedCall, json: bool) -> Result<Exit, Failure> {
    let name = name_of(call);
    let ended = |call: &RecordedCall| {
        let state = TaskRow::recorded(call.clone()).state().0;
        Failure::refused(format!("{name} has ended ({state}); nothing was cancelled"))
    };
    let has_key = call.idempotency_key.is_some();
    match &call.state {
        CallState::InFlight => {}
        CallState::Task if call.ends_with_process => {}
        CallState::Interrupted | CallState::Unknown { .. } if has_key => {}
        _ => return Err(ended(call)),
    }
    let journal = record::open().await?;
    if let Some(exit) = cancel_by_key(&journal, call, json).await? {
        return Ok(exit);
    }
    if let CallState::Unknown { .. } = call.state {
        return Err(ended(call));
    }
    let goes_on = match has_key {
        true => "; it may go on at the server",
        false => "",
    };
    let report = |what: &str, member: &str| match json {
        true => output::json_line(&match &call.task {
            Some(task) => json!({"taskId": task.task_id, member: true}),
            None => json!({"taskId": null, "call": name, member: true}),
        }),
        false => output::note(&format!("{name} {what}")),
    };
    let given_up = || {
        report(&format!("was given up, so it is not made again{goes_on}"), "mayHaveRun");
        Ok(Exit::Answered)
    };
    if journal.cancel_call(call.id).await? == CallCancellation::Recorded {
        return given_up();
    }
    let mut now = until_ended(&journal, call).await?;
    if now.state == CallState::Interrupted {
        // The program has ended before it could cancel the call.
        if let Some(exit) = cancel_by_key(&journal, &now, json).await? {
            return Ok(exit);
        }
        if has_key && journal.cancel_call(call.id).await? == CallCancellation::Recorded {
            return given_up();
        }
        journal.settle_abandoned().await?;
        now = journal.get(call.id).await?;
    }
    match (&now.state, &now.task) {
        (CallState::InFlight, _) => {
            report(
                "was asked to be cancelled; the program that makes it has not done so yet",
                "cancelRequested",
            );
            Ok(Exit::Answered)
        }
        (CallState::Task, Some(_)) if is_open(&now) => {
            report(
                "was asked to be cancelled; the command that made it has not done so yet",
                "cancelRequested",
            );
            Ok(Exit::Answered)
        }
        (_, Some(_)) if call.task.is_some() => match now.state {
            CallState::Task | CallState::Finished(Finished::Cancelled) => {
                report("is cancelled", "cancelled");
                Ok(Exit::Answered)
            }
            _ => Err(ended(&now)),
        },
        (_, Some(task)) => {
            let id = output::id(&task.task_id);
            report(
                &format!("has become the task {id}, which was cancelled"),
                "cancelRequested",
            );
            Ok(Exit::Answered)
        }
        (CallState::Finished(Finished::Cancelled), None) => {
            report("is cancelled", "cancelled");
            Ok(Exit::Answered)
        }
        (CallState::Unknown { .. }, None) => {
            report(
                &format!("was given up: the server has not answered, so it may have run{goes_on}"),
                "mayHaveRun",
            );
            Ok(Exit::Answered)
        }
        _ => Err(ended(&now)),
    }
}

/// Cancels a call at its server, by its key, if no program makes it any more. `None` if that is not so, the server does not do that, or it knows no such call.
async fn cancel_by_key(journal: &ClientJournal, call: &RecordedCall, json: bool) -> Result<Option<Exit>, Failure> {
    let (CallState::Interrupted | CallState::Unknown { .. }, Some(key)) = (&call.state, &call.idempotency_key) else {
        return Ok(None);
    };
    let name = name_of(call);
    let connection = servers::recorded(call).connection(|_| {})?;
    let cancelled = with_notice(connection.address(), connection.cancel_by_key(&call.tool, key)).await;
    connection.close().await;
    let cancelled = match cancelled {
        Ok(cancelled) => cancelled,
        Err(RequestError::NoCancellationByKey) => return Ok(None),
        Err(error @ RequestError::Rpc(_)) => {
            output::note(&format!("{name} was not cancelled at its server: {error}"));
            return Ok(None);
        }
        // It may run there, and can be cancelled or continued later.
        Err(error) => {
            return Err(Failure::from(error).explained(&format!("{name} was not cancelled, and is recorded as before")));
        }
    };
    let status = states::of_task(cancelled.status);
    let task = cancelled.task_id.as_deref().map(output::id);
    let task = task.map(|id| format!(" as the task {id}")).unwrap_or_default();
    if cancelled.status == TaskStatus::Cancelled {
        journal.finish(call.id, Finished::Cancelled).await?;
        match json {
            true => output::json_line(&json!({"taskId": cancelled.task_id, "call": name, "cancelled": true})),
            false => output::note(&format!("{name} is cancelled")),
        }
        return Ok(Some(Exit::Answered));
    }
    if cancelled.status.is_final() {
        let again = match call.state {
            CallState::Interrupted => "again".to_owned(),
            // Without the key it would be a new call.
            _ => format!("with --idempotency-key {key}"),
        };
        return Err(Failure::refused(format!(
            "{name} has ended at its server{task}: it is {status}; nothing was cancelled. For its result make the same call {again}"
        )));
    }
    match json {
        true => output::json_line(&json!({"taskId": cancelled.task_id, "call": name, "cancelRequested": true})),
        false => output::note(&format!(
            "the server was asked to cancel {name}{task}; it has not ended yet"
        )),
    }
    Ok(Some(Exit::Answered))
}

/// The call once it has ended, but not after long.
async fn until_ended(journal: &ClientJournal, call: &RecordedCall) -> Result<RecordedCall, Failure> {
    let mut watch = journal.watch();
    let mut limit = SystemClock.sleep(LONGEST_WAIT);
    loop {
        let now = journal.get(call.id).await?;
        if !is_open(&now) {
            return Ok(now);
        }
        tokio::select! {
            biased;
            () = watch.changed_or_ended() => {}
            () = &mut limit => return Ok(now),
        }
    }
}

/// Whether the process that makes it, or reaches its task, has not seen its end.
fn is_open(call: &RecordedCall) -> bool {
    match call.state {
        CallState::InFlight => true,
        CallState::Task => call.ends_with_process && !call.status.is_some_and(TaskStatus::is_final),
        _ => false,
    }
}
