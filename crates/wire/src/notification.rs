//! Notifications that both generations write alike.

use crate::{
    envelope::{RequestId, write_notification},
    json,
    legacy::push_related_task,
    meta::ProgressToken,
};
use longhaul_core::{Progress, TaskId};

/// Appends `notifications/progress`. `related` is the task it is about, on a legacy stream (G1-46); a modern one names none.
pub fn write_progress(
    out: &mut String,
    token: ProgressToken<'_>,
    progress: Progress,
    message: Option<&str>,
    related: Option<&TaskId>,
) {
    write_notification(out, "notifications/progress", |out| {
        out.push_str(r#"{"progressToken":"#);
        out.push_str(token.as_json());
        out.push_str(r#","progress":"#);
        json::push_number(out, progress.current);
        if let Some(total) = progress.total {
            out.push_str(r#","total":"#);
            json::push_number(out, total);
        }
        if let Some(message) = message {
            out.push_str(r#","message":"#);
            json::push_string(out, message);
        }
        if let Some(task) = related {
            out.push_str(r#","_meta":{"#);
            push_related_task(out, task);
            out.push('}');
        }
        out.push('}');
    });
}

/// Appends `notifications/cancelled` for the request `id` (U-04, U-05).
pub fn write_cancelled(out: &mut String, id: RequestId<'_>, reason: Option<&str>) {
    write_notification(out, "notifications/cancelled", |out| {
        out.push_str(r#"{"requestId":"#);
        out.push_str(id.as_json());
        if let Some(reason) = reason {
            out.push_str(r#","reason":"#);
            json::push_string(out, reason);
        }
        out.push('}');
    });
}
