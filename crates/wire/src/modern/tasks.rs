//! The tasks extension of 2026-07-28.

use super::{COMPLETE, input_required::push_requests, subscription::push_subscription, tools::push_failure};
use crate::{
    json::{self, Edit, splice::splice},
    jsonrpc::write_notification,
    legacy,
    meta::RELATED_TASK,
    protocol::{Generation, RequestId, RpcError},
    result::ServerInfo,
    task::{MemberNames, TaskStatus, TaskView, lineage},
};
use longhaul_core::{Input, InputState, Now, Outcome, Task, store::Record};

const NAMES: MemberNames = MemberNames {
    ttl: r#","ttlMs":"#,
    poll: r#","pollIntervalMs":"#,
};

/// The status of a task in the modern generation.
pub fn status(task: &Task) -> TaskStatus {
    TaskStatus::of(task.state, !task.open_inputs.is_empty(), Generation::Modern)
}

/// Appends the CreateTaskResult: a flat object without the task's result.
pub fn write_created(out: &mut String, task: &Task, server_info: &ServerInfo, now: impl Into<Now>) {
    out.push_str(r#"{"resultType":"task","#);
    TaskView {
        task,
        status: status(task),
        outcome: None,
        now: now.into(),
    }
    .push_members(out, NAMES);
    server_info.push_meta(out);
    out.push('}');
}

/// Appends the GetTaskResult: a DetailedTask. Its `resultType` is `complete` whatever the task's status. `exit`: how the command of a
/// cancelled task ended, as JSON.
pub fn write_get(out: &mut String, record: &Record, exit: Option<&str>, server_info: &ServerInfo, now: impl Into<Now>) {
    out.push_str(COMPLETE);
    out.push(',');
    push_detailed(out, record, now);
    server_info.push_meta_of(out, &record.task, exit);
    out.push('}');
}

/// Appends the Task of 2025-11-25 as a complete result: the answer to `tasks/get` and `tasks/cancel` for a modern client that has
/// declared only legacy tasks. `exit` as in [`write_get`].
pub fn write_legacy_task(
    out: &mut String,
    record: &Record,
    exit: Option<&str>,
    server_info: &ServerInfo,
    now: impl Into<Now>,
) {
    let Record { task, outcome, .. } = record;
    out.push_str(COMPLETE);
    out.push(',');
    TaskView {
        task,
        status: legacy::tasks::status(task),
        outcome: outcome.as_ref(),
        now: now.into(),
    }
    .push_members(out, legacy::tasks::NAMES);
    server_info.push_meta_of(out, task, exit);
    out.push('}');
}

/// Appends the result of `tasks/update` and `tasks/cancel`, which holds nothing of the task.
pub fn write_ack(out: &mut String, server_info: &ServerInfo) {
    out.push_str(COMPLETE);
    server_info.push_meta(out);
    out.push('}');
}

/// Appends the result of `dev.longhaul/calls/cancel`: what has become of a call, which may be no task.
pub fn write_call_status(out: &mut String, task: &Task, server_info: &ServerInfo) {
    out.push_str(COMPLETE);
    out.push(',');
    legacy::tasks::push_call_status(out, task);
    server_info.push_meta(out);
    out.push('}');
}

/// Appends `notifications/tasks` for the subscription that the request `listen` opened. `exit` as in [`write_get`].
pub fn write_notification_for(
    out: &mut String,
    record: &Record,
    exit: Option<&str>,
    listen: RequestId<'_>,
    now: impl Into<Now>,
) {
    write_notification(out, "notifications/tasks", |out| {
        out.push('{');
        push_detailed(out, record, now);
        out.push(',');
        push_subscription(out, listen);
        out.pop();
        lineage::push_more_members(out, &record.task, exit);
        out.push('}');
        out.push('}');
    });
}

/// Appends the members of a DetailedTask: the task, and only the members that its status requires.
fn push_detailed(out: &mut String, record: &Record, now: impl Into<Now>) {
    let task = &record.task;
    let open = || record.inputs.iter().filter(|input| input.state == InputState::Open);
    let status = TaskStatus::of(task.state, open().next().is_some(), Generation::Modern);
    let outcome = record.outcome.as_ref();
    TaskView {
        task,
        status,
        outcome,
        now: now.into(),
    }
    .push_members(out, NAMES);
    match (status, outcome) {
        (TaskStatus::InputRequired, _) => push_input_requests(out, open()),
        (TaskStatus::Completed | TaskStatus::Failed, Some(outcome)) => push_outcome(out, outcome),
        _ => {}
    }
}

/// Appends the open input requests.
fn push_input_requests<'a>(out: &mut String, open: impl Iterator<Item = &'a Input>) {
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

/// Appends the result as the call would have answered it: with a `resultType`, without a related task.
fn push_result(out: &mut String, result: &str) {
    out.push_str(r#","result":"#);
    let edits = [
        Edit::Default("resultType", r#""complete""#),
        Edit::Within("_meta", &[Edit::Remove(RELATED_TASK)]),
    ];
    if splice(out, result, &edits).is_err() {
        // A `completed` task must have a result, so an invalid stored one is replaced.
        let text = RpcError::internal("The tool's result is not a JSON object");
        out.push_str(r#"{"resultType":"complete","isError":true,"content":[{"type":"text","text":"#);
        json::push_string(out, text.message());
        out.push_str("}]}");
    }
}
