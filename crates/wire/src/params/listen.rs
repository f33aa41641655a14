//! What `subscriptions/listen` says (U-20).

use super::{present, required, wrong};
use crate::{error::RpcError, json, object::object};
use serde_json::value::RawValue;
use std::borrow::Cow;

/// How many resources, and how many tasks, one subscription may name.
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

/// What a subscription is to hear of: as a client asks for it, and as a server accepts it. Members nobody knows are ignored.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Listen<'a> {
    /// `notifications/tools/list_changed`
    pub tools_list_changed: bool,
    /// `notifications/prompts/list_changed`
    pub prompts_list_changed: bool,
    /// `notifications/resources/list_changed`
    pub resources_list_changed: bool,
    /// `notifications/resources/updated` for these URIs, at most [`MAX_WATCHED`].
    pub resource_subscriptions: Vec<Cow<'a, str>>,
    /// `notifications/tasks` for these tasks, at most [`MAX_WATCHED`]. A request that does not declare the tasks extension may name
    /// none: −32021 (G2-07).
    pub task_ids: Vec<Cow<'a, str>>,
}

pub(super) fn read(raw: Option<&RawValue>) -> Result<Listen<'_>, RpcError> {
    let mut filter = Filter::default();
    filter
        .fill(required(raw, "notifications", "an object")?.get())
        .map_err(|_| wrong("notifications", "an object with each member once"))?;
    Ok(Listen {
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
