//! The tasks of revision 2025-11-25.

use super::{push_task_ref, tools};
use crate::{
    json::{self, Edit},
    jsonrpc::{write_notification, write_spliced},
    meta::{PARENT, RELATED_TASK, ROOT},
    protocol::{Generation, RequestId, RpcError},
    result::push_next_cursor,
    task::{MemberNames, TaskStatus, TaskView, lineage},
};
use longhaul_core::{Lineage, Now, Outcome, Task, TaskId, store::Record};

pub(crate) const NAMES: MemberNames = MemberNames {
    ttl: r#","ttl":"#,
    poll: r#","pollInterval":"#,
};

/// The status of a task in the legacy generation.
pub fn status(task: &Task) -> TaskStatus {
    TaskStatus::of(task.state, !task.open_inputs.is_empty(), Generation::Legacy)
}

/// Appends a Task object. `outcome`, if given, says why the task failed.
pub fn write_task(out: &mut String, task: &Task, outcome: Option<&Outcome>, now: impl Into<Now>) {
    push_view(
        out,
        &TaskView {
            task,
            status: status(task),
            outcome,
            now: now.into(),
        },
    );
}

/// Appends the CreateTaskResult. Its status is always `working`, even if the task has already failed. `hint` is a text that the host
/// may show its model in the meantime.
pub fn write_created(out: &mut String, task: &Task, hint: Option<&str>, now: impl Into<Now>) {
    out.push_str(r#"{"task":"#);
    push_view(
        out,
        &TaskView {
            task,
            status: TaskStatus::Working,
            outcome: None,
            now: now.into(),
        },
    );
    if let Some(hint) = hint {
        out.push_str(r#","_meta":{"io.modelcontextprotocol/model-immediate-response":"#);
        json::push_string(out, hint);
        out.push('}');
    }
    out.push('}');
}

/// Appends the GetTaskResult or the CancelTaskResult: the Task, with its parent and root in `_meta`. `exit`: how the command of a cancelled
/// task ended, as JSON.
pub fn write_get(out: &mut String, record: &Record, exit: Option<&str>, now: impl Into<Now>) {
    write_task(out, &record.task, record.outcome.as_ref(), now);
    let mut meta = String::new();
    lineage::push_more_members(&mut meta, &record.task, exit);
    if let Some(members) = meta.strip_prefix(',') {
        out.pop();
        out.push_str(r#","_meta":{"#);
        out.push_str(members);
        out.push_str("}}");
    }
}

/// Appends the result of `dev.longhaul/calls/cancel`: the status of a call, and the id of its task if it is one.
pub fn write_call_status(out: &mut String, task: &Task) {
    out.push('{');
    push_call_status(out, task);
    out.push('}');
}

pub(crate) fn push_call_status(out: &mut String, task: &Task) {
    out.push_str(r#""status":""#);
    out.push_str(status(task).as_str());
    out.push('"');
    if task.announced {
        out.push_str(r#","taskId":"#);
        json::push_string(out, task.id.as_str());
    }
}

/// Appends the ListTasksResult.
pub fn write_list(out: &mut String, tasks: &[Task], next: Option<&str>, now: impl Into<Now>) {
    let now = now.into();
    out.push_str(r#"{"tasks":["#);
    for (nth, task) in tasks.iter().enumerate() {
        if nth > 0 {
            out.push(',');
        }
        write_task(out, task, None, now);
    }
    out.push(']');
    push_next_cursor(out, next);
    lineage::push_list_meta(out, tasks);
    out.push('}');
}

/// Appends the whole response to `tasks/result` for an ended task: what the call would have answered, with the task's id, parent and
/// root in `_meta`.
pub fn write_payload(out: &mut String, id: RequestId<'_>, task: &TaskId, lineage: Option<&Lineage>, outcome: &Outcome) {
    match outcome {
        Outcome::Result { json: result, .. } => {
            let mut related = String::new();
            push_task_ref(&mut related, task);
            let [result_type, structured] = tools::PLAIN;
            let line = lineage.map(lineage::texts);
            let tie = Edit::Set(RELATED_TASK, &related);
            let ties = match &line {
                Some([parent, root]) => &[tie, Edit::Set(PARENT, parent), Edit::Set(ROOT, root)][..],
                None => &[tie],
            };
            write_spliced(out, id, result, &[result_type, structured, Edit::Within("_meta", ties)]);
        }
        Outcome::RpcError(failure) => tools::write_failed(out, id, failure),
        Outcome::Cancelled => RpcError::task_cancelled(task.as_str(), None, None).write_response(out, Some(id)),
    }
}

/// Appends `notifications/tasks/status`: the Task and nothing else.
pub fn write_status_notification(out: &mut String, task: &Task, outcome: Option<&Outcome>, now: impl Into<Now>) {
    write_notification(out, "notifications/tasks/status", |out| {
        write_task(out, task, outcome, now)
    });
}

fn push_view(out: &mut String, shown: &TaskView<'_>) {
    out.push('{');
    shown.push_members(out, NAMES);
    out.push('}');
}
