//! The params of `subscriptions/listen`.

use super::{present, required, wrong};
use crate::{
    json::{self, object::object},
    protocol::RpcError,
};
use serde_json::value::RawValue;
use std::borrow::Cow;

/// The largest number of resources, and of tasks, that one subscription may name.
pub const MAX_WATCHED: usize = 1_000;

object! {
    struct Filter {
        tools = "toolsListChanged",
        prompts = "promptsListChanged",
        resources = "resourcesListChanged",
        resource_subscriptions = "resourceSubscriptions",
        task_ids = "taskIds",
    }
}

/// The notifications a subscription delivers: as a client requests them, or as the server accepts them. Unknown members are ignored.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SubscriptionFilter<'a> {
    /// `notifications/tools/list_changed`
    pub tools_list_changed: bool,
    /// `notifications/prompts/list_changed`
    pub prompts_list_changed: bool,
    /// `notifications/resources/list_changed`
    pub resources_list_changed: bool,
    /// `notifications/resources/updated` for these URIs, at most [`MAX_WATCHED`].
    pub resource_subscriptions: Vec<Cow<'a, str>>,
    /// `notifications/tasks` for these tasks, at most [`MAX_WATCHED`]. A request that names tasks must declare the tasks extension,
    /// else it is answered with −32021.
    pub task_ids: Vec<Cow<'a, str>>,
}

pub(super) fn read(raw: Option<&RawValue>) -> Result<SubscriptionFilter<'_>, RpcError> {
    let mut filter = Filter::default();
    filter
        .fill(required(raw, "notifications", "an object")?.get())
        .map_err(|_| wrong("notifications", "an object with each member once"))?;
    Ok(SubscriptionFilter {
        tools_list_changed: flag(filter.tools, "toolsListChanged")?,
        prompts_list_changed: flag(filter.prompts, "promptsListChanged")?,
        resources_list_changed: flag(filter.resources, "resourcesListChanged")?,
        resource_subscriptions: texts(filter.resource_subscriptions, "resourceSubscriptions")?,
        task_ids: texts(filter.task_ids, "taskIds")?,
    })
}

fn flag(raw: Option<&RawValue>, name: &str) -> Result<bool, RpcError> {
    match present(raw).map(RawValue::get) {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(_) => Err(wrong(&format!("notifications.{name}"), "true or false")),
    }
}

fn texts<'a>(raw: Option<&'a RawValue>, name: &str) -> Result<Vec<Cow<'a, str>>, RpcError> {
    let Some(raw) = present(raw) else { return Ok(Vec::new()) };
    let refused = || {
        let right = format!("an array of at most {MAX_WATCHED} strings");
        wrong(&format!("notifications.{name}"), &right)
    };
    let items: Vec<&RawValue> = serde_json::from_str(raw.get()).map_err(|_| refused())?;
    if items.len() > MAX_WATCHED {
        return Err(refused());
    }
    items
        .into_iter()
        .map(|item| json::string(item).ok_or_else(refused))
        .collect()
}
