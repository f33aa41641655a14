//! Writers for revisions up to 2025-11-25: the handshake, and the tasks of the core protocol.
//!
//! Writers append a `result` object, unless they say otherwise; [`write_result`](crate::jsonrpc::write_result) puts it into a
//! response.

pub mod client_task;
pub mod handshake;
pub mod input_request;
pub mod list;
pub mod resources;
pub mod result;
pub mod tasks;
pub mod tools;

use crate::{json, jsonrpc::write_request, meta::RELATED_TASK};
use longhaul_core::TaskId;

/// Appends a `ping` request.
pub fn write_ping(out: &mut String, id: &str) {
    write_request(out, id, "ping", |out| out.push_str("{}"));
}

/// Appends the `_meta` member that relates a message to a task.
pub(crate) fn push_related_task(out: &mut String, task: &TaskId) {
    json::push_string(out, RELATED_TASK);
    out.push(':');
    push_task_ref(out, task);
}

/// Appends `{"taskId":…}`.
pub(crate) fn push_task_ref(out: &mut String, task: &TaskId) {
    out.push_str(r#"{"taskId":"#);
    json::push_string(out, task.as_str());
    out.push('}');
}
