//! Tasks as servers send them.

use serde_json::{Value, json};

/// A task of the extension, `t-1`, with `more` members or other values.
pub(crate) fn modern_task(status: &str, more: Value) -> Value {
    let task = json!({
        "resultType": "complete", "taskId": "t-1", "status": status, "createdAt": "2026-11-20T09:00:00Z",
        "lastUpdatedAt": "2026-11-20T09:00:00Z", "ttlMs": null, "pollIntervalMs": 50,
    });
    with(task, more)
}

/// The answer to a call of which the server has made the task `t-1`.
pub(crate) fn created() -> Value {
    modern_task("working", json!({"resultType": "task"}))
}

/// A task of 2025-11-25, `t-1`, with `more` members or other values.
pub(crate) fn legacy_task(status: &str, more: Value) -> Value {
    let task = json!({
        "taskId": "t-1", "status": status, "createdAt": "2026-11-20T09:00:00Z", "lastUpdatedAt": "2026-11-20T09:00:00Z",
        "ttl": null, "pollInterval": 50,
    });
    with(task, more)
}

fn with(mut task: Value, more: Value) -> Value {
    if let (Some(task), Value::Object(more)) = (task.as_object_mut(), more) {
        task.extend(more);
    }
    task
}
