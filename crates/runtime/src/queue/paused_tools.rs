//! Tools and upstreams that an operator has paused, and nodes that are cordoned or drain: nothing of them begins. What runs runs on.

use foldhash::HashSet;
use longhaul_core::NodeId;
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

/// How the names of cordons begin.
const NODE: &str = "node: ";
/// What stands behind that of a node that drains.
const DRAINS: &str = ", which drains";

/// The name under which the store has the cordon of a node, among the pauses of tools. No tool has a name like it.
pub(crate) fn cordon_key(node: NodeId) -> String {
    format!("{NODE}{}", node.0)
}

/// The same while a node drains.
pub(crate) fn drain_key(node: NodeId) -> String {
    format!("{NODE}{}{DRAINS}", node.0)
}

/// The node of a name that [`cordon_key`] or [`drain_key`] has made.
pub(crate) fn node_of(name: &str) -> Option<NodeId> {
    let number = name.strip_prefix(NODE)?;
    let number = number.strip_suffix(DRAINS).unwrap_or(number);
    number.parse().ok().map(NodeId)
}

/// The paused tools, as the store had them last.
pub(crate) struct PausedTools {
    tools: RwLock<HashSet<Arc<str>>>,
    /// Whether there are any: asked with each call.
    is_any: AtomicBool,
    cordon_of_this_node: String,
    /// The same of the cordon of this node.
    is_cordoned: AtomicBool,
}

impl PausedTools {
    pub(crate) fn new(this: NodeId) -> Self {
        Self {
            tools: RwLock::default(),
            is_any: AtomicBool::new(false),
            cordon_of_this_node: cordon_key(this),
            is_cordoned: AtomicBool::new(false),
        }
    }

    /// Whether this node is cordoned.
    pub(crate) fn is_cordoned(&self) -> bool {
        self.is_cordoned.load(Ordering::Relaxed)
    }

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
        let is_cordoned = tools.contains(self.cordon_of_this_node.as_str());
        self.is_cordoned.store(is_cordoned, Ordering::Relaxed);
        *self.tools.write() = tools;
    }
}
