//! A task with all that its server tells of it.

use crate::{
    ask::{fields, text_of},
    call::{
        record::{self, NamedTask},
        waiting::{MOST_SHOWN, asked_again, how_to_answer, how_to_be_asked, more_questions},
    },
    exit::{
        failure::Failure,
        result::{self, Exit},
    },
    output::{self, fraction, json_text::with_member, states},
    servers::notice::with_notice,
};
use longhaul_client::{InputRequest, Outcome, RecordedCall, TaskHandle, TaskSnapshot, TaskStatus};
use serde_json::{Value, json};

/// Reads the task and prints it.
pub(super) async fn show(named: &NamedTask, task: &TaskHandle, json: bool) -> Result<Exit, Failure> {
    let mut snapshot = match with_notice(task.connection().address(), record::read(task)).await {
        Ok(snapshot) => snapshot,
        Err(error) => return Err(record::unread(task, error).await),
    };
    let (open, answered) = record::open_and_answered(task, snapshot.input_requests.clone()).await;
    let asks = record::asks(&snapshot, &open);
    if json {
        let mut shown = as_json(&snapshot);
        shown["state"] = states::in_mcp(&snapshot).into();
        if let Some(call) = named.call() {
            shown["tool"] = call.tool.as_str().into();
        }
        shown["server"] = named.server.as_json();
        shown["asks"] = asks.into();
        if !answered.is_empty() {
            shown["answered"] = answered.iter().filter_map(|question| question.key.clone()).collect();
        }
        output::json_line(&with_result(&shown, &snapshot));
    } else {
        let is_asked_elsewhere = snapshot.status == TaskStatus::InputRequired && snapshot.input_requests.is_empty();
        snapshot.input_requests = open;
        output::text(&describe(named, &snapshot, asks));
        if is_asked_elsewhere {
            output::note(&how_to_be_asked(&named.server, task.id()));
        }
        for question in snapshot.input_requests.iter().take(MOST_SHOWN) {
            output::note(&how_to_answer(&named.server, task.id(), question));
        }
        more_questions(&named.server, task.id(), snapshot.input_requests.len());
        for question in answered.iter().take(MOST_SHOWN) {
            output::note(&asked_again(&named.server, task.id(), question));
        }
    }
    Ok(Exit::Answered)
}

fn describe(named: &NamedTask, task: &TaskSnapshot, asks: bool) -> String {
    let call = named.call();
    let lines = [
        ("task", Some(output::id(&task.id).into_owned())),
        ("tool", call.map(|call| call.tool.clone())),
        ("server", Some(named.server.shown())),
        ("status", Some(states::of_asking(task, asks).to_owned())),
        ("message", task.message.clone()),
        ("progress", progress(task)),
        ("ended", task.outcome.as_ref().and_then(describe_outcome)),
        ("created", task.created_at.clone()),
        ("changed", task.last_updated_at.clone()),
        ("kept for", task.ttl.map(longhaul_core::approximate_duration)),
    ];
    let lines = lines
        .into_iter()
        .filter_map(|(name, value)| Some(format!("{:<9} {}\n", name, output::plain(&value?, ""))));
    let key = call.and_then(key_line);
    lines
        .chain(key)
        .chain(describe_questions(&task.input_requests))
        .collect()
}

/// How far a live task is, as far as its status message says that in numbers.
fn progress(task: &TaskSnapshot) -> Option<String> {
    let message = task.message.as_ref().filter(|_| !task.status.is_final())?;
    fraction::fraction_in(message).map(fraction::bar)
}

pub(super) fn key_line(call: &RecordedCall) -> Option<String> {
    let key = call.idempotency_key.as_deref()?;
    Some(format!("{:<9} {}\n", "key", output::plain(key, "")))
}

/// The questions, each with its fields.
pub(super) fn describe_questions(asked: &[InputRequest]) -> impl Iterator<Item = String> {
    asked.iter().map(|request| {
        let key = request.key.as_deref().unwrap_or_default();
        let mut lines = format!(
            "asks      {} [{}]\n",
            output::plain(&text_of(request), ""),
            output::plain(key, "")
        );
        if let Some(url) = request.url().filter(|_| request.page_problem().is_none()) {
            lines.push_str(&format!("          open {}\n", output::url(url)));
        }
        for field in fields::of_question(request) {
            lines.push_str(&format!("          {field}\n"));
        }
        lines
    })
}

/// Describes the outcome where the status does not.
fn describe_outcome(outcome: &Outcome) -> Option<String> {
    match outcome {
        Outcome::Result { is_error: true, .. } => Some("with an error of the tool; --wait prints it".to_owned()),
        Outcome::Result { .. } => Some("with a result; --wait prints it".to_owned()),
        Outcome::RpcError(failure) => Some(format!("{} (error {})", failure.message, failure.code)),
        Outcome::Cancelled => None,
    }
}

/// The task with the member names of the modern generation, without its result.
pub(super) fn as_json(task: &TaskSnapshot) -> Value {
    let mut shown = json!({"taskId": task.id, "status": states::in_mcp(task), "ttlMs": task.ttl});
    let optional = [
        ("statusMessage", task.message.clone().map(Value::from)),
        ("createdAt", task.created_at.clone().map(Value::from)),
        ("lastUpdatedAt", task.last_updated_at.clone().map(Value::from)),
        ("pollIntervalMs", task.poll_interval.map(Value::from)),
        ("inputRequests", result::questions(&task.input_requests)),
        ("error", error_of(task)),
    ];
    for (name, value) in optional {
        if let Some(value) = value {
            shown[name] = value;
        }
    }
    shown
}

/// The line of a task with its result, if it has one, as the server has sent it.
pub(super) fn with_result(shown: &Value, task: &TaskSnapshot) -> String {
    match &task.outcome {
        Some(Outcome::Result { json, .. }) => with_member(&shown.to_string(), "result", json.as_str()),
        _ => shown.to_string(),
    }
}

fn error_of(task: &TaskSnapshot) -> Option<Value> {
    match &task.outcome {
        Some(Outcome::RpcError(failure)) => Some(result::rpc_error(failure)),
        _ => None,
    }
}
