//! Showing and cancelling a call that is no task, by what the journal knows of it.

use super::show::{describe_questions, key_line, questions_as_json};
use crate::{
    args,
    failure::Failure,
    fields, output, record,
    result::Exit,
    servers,
    tasks::{Row, call_name},
};
use longhaul_client::{CallCancellation, CallState, ClientJournal, InputRequest, RecordedCall, SystemClock};
use longhaul_core::{Clock, format_duration};
use serde_json::json;
use std::time::Duration;

/// How long the program that makes the call may take to cancel it. It looks every two seconds.
const LONGEST_WAIT: Duration = Duration::from_secs(6);
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Does what `longhaul task` is to do with it.
pub(super) async fn act(call: &RecordedCall, args: &args::Task) -> Result<Exit, Failure> {
    let is_no_task = |what: &str| {
        let name = call_name(call.id);
        Failure::usage(format!("{name} is no task{what}"))
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
        CallState::InFlight | CallState::Interrupted => record::open().await?.call_questions(call.id).await?,
        _ => Vec::new(),
    };
    let row = Row::recorded(call.clone());
    if json {
        let mut shown = row.as_json();
        // Of a call that has ended, too: it was named.
        shown["call"] = call_name(call.id).into();
        if let Some(asked) = questions_as_json(&asked) {
            shown["inputRequests"] = asked;
        }
        output::json_line(&shown);
        return Ok(Exit::Answered);
    }
    let (state, detail) = row.state();
    let lines = [
        ("call", Some(call_name(call.id))),
        ("tool", Some(call.tool.clone())),
        ("server", Some(servers::recorded(call).shown())),
        ("status", Some(state)),
        ("message", detail),
        (
            "begun",
            Some(format!("{} ago", format_duration(record::age(call.begun_at)))),
        ),
    ];
    let lines = lines
        .into_iter()
        .filter_map(|(name, value)| Some(format!("{name:<9} {}\n", output::plain(&value?, ""))));
    let text: String = lines.chain(key_line(call)).chain(describe_questions(&asked)).collect();
    output::text(&text);
    for question in &asked {
        output::note(&how_to_answer(call, question));
    }
    Ok(Exit::Answered)
}

fn how_to_answer(call: &RecordedCall, question: &InputRequest) -> String {
    let (name, values) = (call_name(call.id), fields::values(question));
    let mut words = vec![name.as_str()];
    if let Some(key) = &question.key {
        words.extend(["--question", key]);
    }
    words.extend(values.iter().map(String::as_str));
    format!(
        "to answer:\n  {}",
        servers::recorded(call).command_line("answer", &words)
    )
}

/// Has the program that makes the call cancel it, and says what has become of it.
pub(super) async fn cancel(call: &RecordedCall, json: bool) -> Result<Exit, Failure> {
    let name = call_name(call.id);
    let ended = |call: &RecordedCall| {
        let state = Row::recorded(call.clone()).state().0;
        Failure::refused(format!("{name} has ended: it is {state}; nothing was cancelled"))
    };
    let has_key = call.idempotency_key.is_some();
    match &call.state {
        CallState::InFlight => {}
        CallState::Interrupted if has_key => {}
        _ => return Err(ended(call)),
    }
    let journal = record::open().await?;
    let goes_on = match has_key {
        true => "; it may go on at the server",
        false => "",
    };
    let report = |what: &str, member: &str| match json {
        true => output::json_line(&json!({"taskId": null, "call": name, member: true})),
        false => output::note(&format!("{name} {what}")),
    };
    if journal.cancel_call(call.id).await? == CallCancellation::Recorded {
        report(&format!("is cancelled, so it is not made again{goes_on}"), "cancelled");
        return Ok(Exit::Answered);
    }
    let now = until_ended(&journal, call).await?;
    match (&now.state, &now.task) {
        (CallState::InFlight, _) => {
            report(
                "was asked to be cancelled; the program that makes it has not done so yet",
                "cancelRequested",
            );
            Ok(Exit::Answered)
        }
        (_, Some(task)) => {
            let id = output::plain(&task.task_id, "");
            report(
                &format!("has become the task {id}, which was cancelled"),
                "cancelRequested",
            );
            Ok(Exit::Answered)
        }
        (CallState::Finished(longhaul_client::Finished::Cancelled), None) => {
            report(&format!("is cancelled{goes_on}"), "cancelled");
            Ok(Exit::Answered)
        }
        _ => Err(ended(&now)),
    }
}

/// The call once it has ended, but not after long.
async fn until_ended(journal: &ClientJournal, call: &RecordedCall) -> Result<RecordedCall, Failure> {
    let limit = SystemClock.monotonic() + LONGEST_WAIT;
    loop {
        let now = journal.get(call.id).await?;
        if now.state != CallState::InFlight || SystemClock.monotonic() >= limit {
            return Ok(now);
        }
        SystemClock.sleep(LOOK_AGAIN).await;
    }
}
