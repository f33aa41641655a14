//! Tools of which it is not known yet whether they exist.

use super::Unavailable;
use longhaul_core::BoxFuture;

/// Knows which tools may still come, since they are asked for at another server for the first time: see [`Catalog::set_pending_tools`](super::Catalog::set_pending_tools).
pub trait PendingTools: Send + Sync + 'static {
    /// Completes when it is known whether there is a tool of this name; `None` if it is.
    fn until_known(&self, tool: &str) -> Option<BoxFuture<'static, ()>>;

    /// Why there is no tool of this name now, if what would offer it fails.
    fn why_missing(&self, _tool: &str) -> Option<Unavailable> {
        None
    }
}
