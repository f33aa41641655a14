//! Notifications that are the same in both generations.

use crate::{
    json::{self, Edit, splice::splice},
    jsonrpc::write_notification,
    legacy::{push_related_task, push_task_ref},
    meta::{ProgressToken, RELATED_TASK, SUBSCRIPTION_ID},
    modern::subscription::push_subscription,
    protocol::RequestId,
};
use longhaul_core::{Json, LogLevel, Progress, TaskId};

/// A list that has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ListChange {
    /// The tools.
    Tools,
    /// The prompts.
    Prompts,
    /// The resources or their templates.
    Resources,
}

impl ListChange {
    const fn method(self) -> &'static str {
        match self {
            Self::Tools => "notifications/tools/list_changed",
            Self::Prompts => "notifications/prompts/list_changed",
            Self::Resources => "notifications/resources/list_changed",
        }
    }
}

/// Appends `notifications/…/list_changed`. `listen` is the request that opened the modern subscription; `None` for a legacy client.
pub fn write_list_changed(out: &mut String, change: ListChange, listen: Option<RequestId<'_>>) {
    write_notification(out, change.method(), |out| {
        out.push('{');
        if let Some(listen) = listen {
            push_subscription(out, listen);
        }
        out.push('}');
    });
}

/// Appends `notifications/resources/updated`. `listen` is as for [`write_list_changed`]. `relayed` are the params of another server
/// ([`relayed::params`](crate::meta::relayed::params)), if it is one of its notifications: their bytes stay.
pub fn write_resource_updated(out: &mut String, uri: &str, listen: Option<RequestId<'_>>, relayed: Option<&Json>) {
    write_notification(out, "notifications/resources/updated", |out| {
        let subscription = listen.map(|listen| (SUBSCRIPTION_ID, listen.as_json().to_owned()));
        if push_relayed(out, relayed, None, subscription) {
            return;
        }
        out.push_str(r#"{"uri":"#);
        json::push_string(out, uri);
        if let Some(listen) = listen {
            out.push(',');
            push_subscription(out, listen);
        }
        out.push('}');
    });
}

/// Appends `notifications/message`. `data` is JSON text. `related` is the task it comes from, on a legacy stream; on a modern one
/// it is `None`. `relayed` is as for [`write_resource_updated`].
pub fn write_log(
    out: &mut String,
    level: LogLevel,
    logger: Option<&str>,
    data: &str,
    related: Option<&TaskId>,
    relayed: Option<&Json>,
) {
    write_notification(out, "notifications/message", |out| {
        if push_relayed(out, relayed, None, related.map(related_member)) {
            return;
        }
        out.push_str(r#"{"level":""#);
        out.push_str(level.as_str());
        out.push('"');
        if let Some(logger) = logger {
            out.push_str(r#","logger":"#);
            json::push_string(out, logger);
        }
        out.push_str(r#","data":"#);
        out.push_str(data);
        push_related(out, related);
        out.push('}');
    });
}

/// Appends `notifications/progress`. `related` is the task it is about, on a legacy stream; on a modern one it is `None`. `relayed` is as for
/// [`write_resource_updated`].
pub fn write_progress(
    out: &mut String,
    token: ProgressToken<'_>,
    progress: Progress,
    message: Option<&str>,
    related: Option<&TaskId>,
    relayed: Option<&Json>,
) {
    write_notification(out, "notifications/progress", |out| {
        if push_relayed(out, relayed, Some(token), related.map(related_member)) {
            return;
        }
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
        push_related(out, related);
        out.push('}');
    });
}

/// Appends the params that another server wrote, with this token and this member of `_meta`. `false` if there are none.
fn push_relayed(
    out: &mut String,
    relayed: Option<&Json>,
    token: Option<ProgressToken<'_>>,
    meta: Option<(&str, String)>,
) -> bool {
    let Some(params) = relayed else { return false };
    let mut edits = Vec::with_capacity(2);
    edits.extend(token.as_ref().map(|token| Edit::Set("progressToken", token.as_json())));
    let within = meta.as_ref().map(|(key, value)| [Edit::Set(key, value)]);
    edits.extend(within.as_ref().map(|within| Edit::Within("_meta", within)));
    splice(out, params.as_str(), &edits).is_ok()
}

fn related_member(task: &TaskId) -> (&'static str, String) {
    let mut value = String::new();
    push_task_ref(&mut value, task);
    (RELATED_TASK, value)
}

/// Appends `,"_meta":{…related-task…}` if there is a task.
fn push_related(out: &mut String, related: Option<&TaskId>) {
    if let Some(task) = related {
        out.push_str(r#","_meta":{"#);
        push_related_task(out, task);
        out.push('}');
    }
}

/// Appends `notifications/cancelled` for the request `id`. It withdraws an input request from a legacy client, or ends a modern
/// client's subscription on stdio before [`write_end`](crate::modern::subscription::write_end).
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

/// Appends a notification of another server that MCP does not define, with its params.
pub fn write_other(out: &mut String, method: &str, params: Option<&Json>) {
    out.push_str(r#"{"jsonrpc":"2.0","method":"#);
    json::push_string(out, method);
    if let Some(params) = params {
        out.push_str(r#","params":"#);
        out.push_str(params.as_str());
    }
    out.push('}');
}
