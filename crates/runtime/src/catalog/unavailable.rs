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

impl Snapshot {
    /// Why there are no tools, as `principal` may know it; `None` if there are some, or if that is no failure.
    pub fn unavailable_for(&self, principal: &Principal) -> Option<&Arc<str>> {
        let unavailable = self.unavailable.as_ref().filter(|_| self.tools.is_empty())?;
        Some(match *principal == Principal::local() {
            true => &unavailable.for_local,
            false => &unavailable.for_others,
        })
    }
}
