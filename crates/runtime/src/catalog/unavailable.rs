//! Nothing can be offered, since what would offer it fails.

use super::Snapshot;
use longhaul_core::Principal;
use std::sync::Arc;

/// Why there are no tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unavailable {
    /// For the user who runs the server.
    pub for_local: Arc<str>,
    /// For everyone else.
    pub for_others: Arc<str>,
}

impl Unavailable {
    /// What `principal` may know of it.
    pub fn told_to(&self, principal: &Principal) -> &Arc<str> {
        match *principal == Principal::local() {
            true => &self.for_local,
            false => &self.for_others,
        }
    }
}

impl Snapshot {
    /// Why there are no tools, as `principal` may know it; `None` if there are some, or if that is no failure.
    pub fn unavailable_for(&self, principal: &Principal) -> Option<&Arc<str>> {
        let unavailable = self.unavailable.as_ref().filter(|_| self.tools.is_empty())?;
        Some(unavailable.told_to(principal))
    }

    /// Why there is no tool of this name, if what would offer it fails, as `principal` may know it.
    pub fn why_missing(&self, tool: &str, principal: &Principal) -> Option<Arc<str>> {
        let missing = self.pending_tools.as_ref()?.why_missing(tool)?;
        Some(Arc::clone(missing.told_to(principal)))
    }
}
