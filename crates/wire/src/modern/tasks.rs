//! The tasks extension of 2026-07-28 (G2).

use super::{COMPLETE, input_required::push_requests, subscription::push_subscription, tools::push_failure};
use crate::{
    envelope::{RequestId, write_notification},
    error::RpcError,
    identity::Identity,
    json, legacy, lineage,
    meta::RELATED_TASK,
    projection::{Names, Shown, Status},
    splice::{Edit, splice},
    version::Generation,
};
use longhaul_core::{Input, InputState, Now, Outcome, Task, store::Record};

const NAMES: Names = Names {
    ttl: r#","ttlMs":"#,
    poll: r#","pollIntervalMs":"#,
};

/// The status a modern client sees.
pub fn status(task: &Task) -> Status {
    Status::of(task.state, !task.open_inputs.is_empty(), Generation::Modern)
}

/// Appends the CreateTaskResult: flat, and without any payload (G2-15).
pub fn write_created(out: &mut String, task: &Task, identity: &Identity, now: impl Into<Now>) {
    out.push_str(r#"{"resultType":"task","#);
    Shown {
        task,
        status: status(task),
        outcome: None,
        now: now.into(),
    }
    .push_members(out, NAMES);
    identity.push_meta(out);
    out.push('}');
}

/// Appends the GetTaskResult: the DetailedTask, `resultType` `complete` whatever the status (G2-27, C-05).
pub fn write_get(out: &mut String, record: &Record, identity: &Identity, now: impl Into<Now>) {
    out.push_str(COMPLETE);
    out.push(',');
    push_detailed(out, record, now);
    identity.push_meta_of(out, &record.task);
    out.push('}');
}

/// Appends a legacy task for a modern client that knows only those (C-12): the Task of 2025-11-25 as a complete result. The answer to
/// both `tasks/get` and `tasks/cancel`.
pub fn write_core_task(out: &mut String, record: &Record, identity: &Identity, now: impl Into<Now>) {
    let Record { task, outcome, .. } = record;
    out.push_str(COMPLETE);
    out.push(',');
    Shown {
        task,
        status: legacy::tasks::status(task),
        outcome: outcome.as_ref(),
        now: now.into(),
    }
    .push_members(out, legacy::tasks::NAMES);
    identity.push_meta_of(out, task);
    out.push('}');
}

/// Appends the answer to `tasks/update` and `tasks/cancel`: nothing of the task (G2-38, G2-45).
pub fn write_ack(out: &mut String, identity: &Identity) {
    out.push_str(COMPLETE);
    identity.push_meta(out);
    out.push('}');
}

/// Appends `notifications/tasks` for the subscription opened by the request `listen` (G2-50, C-07).
pub fn write_notification_for(out: &mut String, record: &Record, listen: RequestId<'_>, now: impl Into<Now>) {
    write_notification(out, "notifications/tasks", |out| {
        out.push('{');
        push_detailed(out, record, now);
        out.push(',');
        push_subscription(out, listen);
        if let Some(lineage) = &record.task.lineage {
            out.pop();
            out.push(',');
            lineage::push_members(out, lineage);
            out.push('}');
        }
        out.push('}');
    });
}

/// Appends the members of a DetailedTask: the task, and what its status calls for and nothing else (G2-23).
fn push_detailed(out: &mut String, record: &Record, now: impl Into<Now>) {
    let task = &record.task;
    let open = || record.inputs.iter().filter(|input| input.state == InputState::Open);
    let status = Status::of(task.state, open().next().is_some(), Generation::Modern);
    let outcome = record.outcome.as_ref();
    Shown {
        task,
        status,
        outcome,
        now: now.into(),
    }
    .push_members(out, NAMES);
    match (status, outcome) {
        (Status::InputRequired, _) => push_inputs(out, open()),
        (Status::Completed | Status::Failed, Some(outcome)) => push_outcome(out, outcome),
        _ => {}
    }
}

/// Appends every open question (G2-28).
fn push_inputs<'a>(out: &mut String, open: impl Iterator<Item = &'a Input>) {
    push_requests(out, open.map(|input| (input.key.as_str(), input.request.as_str())));
}

fn push_outcome(out: &mut String, outcome: &Outcome) {
    match outcome {
        Outcome::Result { json, .. } => push_result(out, json.as_str()),
        Outcome::RpcError(failure) => {
            out.push_str(r#","error":"#);
            push_failure(out, failure);
        }
        Outcome::Cancelled => {}
    }
}

/// Appends the result as the call itself would have answered it: with a `resultType` (C-08), without a tie to a task (G2-26).
fn push_result(out: &mut String, result: &str) {
    out.push_str(r#","result":"#);
    let edits = [
        Edit::Default("resultType", r#""complete""#),
        Edit::Within("_meta", &[Edit::Remove(RELATED_TASK)]),
    ];
    if splice(out, result, &edits).is_err() {
        // `completed` demands a result; a stored text that is none must not make the task unreadable.
        let text = RpcError::internal("The tool's result is not a JSON object");
        out.push_str(r#"{"resultType":"complete","isError":true,"content":[{"type":"text","text":"#);
        json::push_string(out, text.message());
        out.push_str("}]}");
    }
}
