//! Which tools a client is shown, where that is not the same for all.

use crate::Requestor;
use longhaul_core::{BoxFuture, Principal, SessionKey};
use std::collections::HashSet;

/// Who asks for a list.
#[derive(Debug, Clone, Copy)]
pub struct ListClient<'a> {
    /// Its principal.
    pub principal: &'a Principal,
    /// Its legacy session, if it has one.
    pub session: Option<&'a SessionKey>,
    /// What it says of itself.
    pub requestor: &'a Requestor,
}

/// Knows which of the tools a client has: see [`Catalog::set_tool_visibility`](super::Catalog::set_tool_visibility).
pub trait ToolVisibility: Send + Sync + 'static {
    /// Completes when it is known what this client has now; `None` if it is.
    fn until_known(&self, client: ListClient<'_>) -> Option<BoxFuture<'static, ()>>;

    /// The names of the tools that this client is not shown.
    fn hidden(&self, client: ListClient<'_>) -> HashSet<String>;
}
