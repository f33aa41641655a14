//! Tools that an operator has paused: nothing of them begins. What runs runs on.

use foldhash::HashSet;
use parking_lot::RwLock;
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// The paused tools, as the store had them last.
#[derive(Default)]
pub(crate) struct PausedTools {
    tools: RwLock<HashSet<Arc<str>>>,
    /// Whether there are any: asked with each call.
    is_any: AtomicBool,
}

impl PausedTools {
    pub(crate) fn contains(&self, tool: &str) -> bool {
        self.is_any.load(Ordering::Relaxed) && self.tools.read().contains(tool)
    }

    pub(crate) fn set(&self, tools: HashSet<Arc<str>>) {
        self.is_any.store(!tools.is_empty(), Ordering::Relaxed);
        *self.tools.write() = tools;
    }
}
