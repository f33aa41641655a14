//! Where the upstreams of a server are known.

use longhaul_core::BoxFuture;
use std::collections::BTreeMap;

/// Knows the upstreams of a server: its gateway.
pub trait UpstreamSource: Send + Sync {
    /// Whether there are none.
    fn is_empty(&self) -> bool;

    /// All that are configured now, in their order.
    fn upstreams(&self) -> BoxFuture<'_, Vec<UpstreamReport>>;
}

/// An upstream at a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamReport {
    /// Its name in the configuration.
    pub name: String,
    /// Whether it can be reached.
    pub state: UpstreamState,
    /// Those of its tools that are offered, by the names that clients see.
    pub tools: Vec<String>,
    /// Those that are not offered because others have their names: the name, and why.
    pub left_out: BTreeMap<String, String>,
    /// How many of its calls wait because as many as may do run.
    pub waiting: usize,
    /// How many of its calls may run at once; `None` for no limit.
    pub concurrency: Option<usize>,
}

/// Whether an upstream can be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UpstreamState {
    /// It is dialled for the first time.
    Starting,
    /// It answers.
    Up,
    /// It can be reached, and some of its calls have had no sign of life for long: which.
    Silent(String),
    /// It does not, for this reason.
    Down(String),
}
