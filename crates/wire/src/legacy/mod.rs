//! What only revisions up to 2025-11-25 have: the handshake, and the tasks of the core protocol (G1).
//!
//! Writers append a `result` object, unless they say otherwise; [`write_result`](crate::envelope::write_result) puts it into a
//! response.

pub mod handshake;
pub mod hosted;
pub mod list;
pub mod question;
pub mod resources;
pub mod result;
pub mod tasks;
pub mod tools;

use crate::{envelope::write_request, json, meta::RELATED_TASK};
use longhaul_core::TaskId;

/// Appends `ping`, which a client answers with an empty result (U-35).
pub fn write_ping(out: &mut String, id: &str) {
    write_request(out, id, "ping", |out| out.push_str("{}"));
}

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
