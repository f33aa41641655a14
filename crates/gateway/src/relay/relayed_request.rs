//! A request for what upstreams have: its method, and the texts among its parameters.

use crate::raw_json;
use longhaul_core::{Json, JsonMembers};

/// A method that is answered with what upstreams have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UpstreamMethod {
    ListPrompts,
    GetPrompt,
    ListResources,
    ListTemplates,
    ReadResource,
    Complete,
}

/// A member that is a text.
pub(super) fn text(members: &JsonMembers, name: &str) -> String {
    let member = members.get(name).map(Json::as_str);
    member.and_then(raw_json::text).unwrap_or_default()
}
