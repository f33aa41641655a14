//! When the calls of one connection are handed off to a client without tasks.

use longhaul_core::{Millis, TaskPolicy};
use longhaul_runtime::{Snapshot, Tool};
use serde::Deserialize;
use serde_json::value::RawValue;

/// The notification by which the client of a connection says when its calls are handed off, in milliseconds and never with 0: `{"millis": 45000}`. A host's limit
/// is a matter of the host, and clients of several hosts share a server.
pub const HANDOFF_NOTIFICATION: &str = "notifications/dev.longhaul/handoff";

/// What a connection says of the hand-off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) enum ConnectionHandoff {
    /// Nothing: the settings of each tool count.
    #[default]
    AsTools,
    Never,
    /// After so many milliseconds.
    After(Millis),
}

impl ConnectionHandoff {
    /// What the notification with these params says.
    pub(crate) fn read(params: Option<&RawValue>) -> Option<Self> {
        #[derive(Deserialize)]
        struct Params {
            millis: Millis,
        }
        let Params { millis } = serde_json::from_str(params?.get()).ok()?;
        Some(match millis {
            0 => Self::Never,
            millis => Self::After(millis),
        })
    }

    /// After how long a call of the tool is handed off, if it is.
    pub(crate) fn of_tool(self, tool: &Tool, snapshot: &Snapshot) -> Option<Millis> {
        match self {
            Self::AsTools => snapshot.handoff_of(tool),
            Self::Never => None,
            Self::After(millis) => (tool.settings().policy != TaskPolicy::Never).then_some(millis),
        }
    }

    /// Whether any tool is handed off.
    pub(crate) fn is_of_any(self, snapshot: &Snapshot) -> bool {
        (snapshot.tools.values()).any(|tool| self.of_tool(tool, snapshot).is_some())
    }

    /// The longest hand-off of all tools: so long the client waits for a call. A tool that is known to take long may be handed off sooner.
    pub(crate) fn longest(self, snapshot: &Snapshot) -> Option<Millis> {
        let tools = snapshot.tools.values();
        tools.filter_map(|tool| self.of_tool(tool, snapshot)).max()
    }

    /// The same for all connections whose lists are the same: these show whether calls are handed off, and not when.
    pub(crate) fn in_lists(self) -> Self {
        match self {
            Self::After(_) => Self::After(1),
            other => other,
        }
    }
}
