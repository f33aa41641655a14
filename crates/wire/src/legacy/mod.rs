//! What only revisions up to 2025-11-25 have: the handshake, and the tasks of the core protocol (G1).
//!
//! Writers append a `result` object, unless they say otherwise; [`write_result`](crate::envelope::write_result) puts it into a
//! response.

pub mod handshake;
pub mod resources;
pub mod tasks;
pub mod tools;

use crate::{json, meta::RELATED_TASK};
use longhaul_core::TaskId;

/// Appends the member that ties a message to a task, key and value.
pub(crate) fn push_related_task(out: &mut String, task: &TaskId) {
    json::push_string(out, RELATED_TASK);
    out.push(':');
    push_task_ref(out, task);
}

/// Appends `{"taskId":…}`.
fn push_task_ref(out: &mut String, task: &TaskId) {
    out.push_str(r#"{"taskId":"#);
    json::push_string(out, task.as_str());
    out.push('}');
}

/// Appends `,"nextCursor":…` if there is more (G1-47).
fn push_next_cursor(out: &mut String, next: Option<&str>) {
    if let Some(next) = next {
        out.push_str(r#","nextCursor":"#);
        json::push_string(out, next);
    }
}
