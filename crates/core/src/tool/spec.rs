//! A tool's definition, stored with the tasks it created.

use crate::Json;
use std::{fmt, sync::Arc};

/// The digest of a [`ToolSpec`]: equal definitions have equal ids.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct SpecId(Arc<str>);

impl SpecId {
    /// An id by its text.
    pub fn named(name: impl Into<Arc<str>>) -> Self {
        Self(name.into())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SpecId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SpecId({})", self.0)
    }
}

/// Everything needed to run a queued task after its tool was changed or removed from the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolSpec {
    /// Digest of the rest.
    pub id: SpecId,
    /// Which provider can rebuild the tool from it, for example `command`.
    pub kind: Arc<str>,
    /// The definition in that provider's format. May hold secrets (a command's `env`); it is never logged or shown.
    pub definition: Json,
}
