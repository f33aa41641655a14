//! Tools and upstreams that an operator has paused: nothing of them begins. What runs runs on.

use foldhash::HashSet;
use parking_lot::RwLock;
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// How the names of pauses of upstreams begin.
const UPSTREAM: &str = "upstream: ";

/// The name under which the store has the pause of an upstream, among those of tools. No tool has a name like it.
pub(crate) fn upstream_key(upstream: &str) -> String {
    format!("{UPSTREAM}{upstream}")
}

/// The paused tools, as the store had them last.
#[derive(Default)]
pub(crate) struct PausedTools {
    tools: RwLock<HashSet<Arc<str>>>,
    /// Whether there are any: asked with each call.
    is_any: AtomicBool,
}

impl PausedTools {
    pub(crate) fn contains(&self, tool: &str) -> bool {
        self.is_any() && self.tools.read().contains(tool)
    }

    /// Whether anything is paused.
    pub(crate) fn is_any(&self) -> bool {
        self.is_any.load(Ordering::Relaxed)
    }

    /// Whether an upstream is paused.
    pub(crate) fn is_any_upstream(&self) -> bool {
        self.is_any() && self.tools.read().iter().any(|name| name.starts_with(UPSTREAM))
    }

    pub(crate) fn set(&self, tools: HashSet<Arc<str>>) {
        self.is_any.store(!tools.is_empty(), Ordering::Relaxed);
        *self.tools.write() = tools;
    }
}
