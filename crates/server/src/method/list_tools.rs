//! `tools/list`: the catalog, whole, in its order (X-01, L-21).

use super::one_page;
use crate::{answer::Answer, dispatch::Call, front::Front};
use longhaul_runtime::Tool;
use longhaul_wire::{Cache, CacheScope, Generation, RpcError, ToolEntry, Version, legacy, modern};
use std::sync::Arc;

/// The catalog changes only with a restart; a client may rely on it for a minute.
const CACHE: Cache = Cache {
    ttl_ms: 60_000,
    scope: CacheScope::Public,
};

pub(super) fn answer(front: &Arc<Front>, call: &Call<'_>) -> Result<Answer, RpcError> {
    one_page(call)?;
    let entries: Vec<ToolEntry<'_>> = front.tools.iter().map(ToolTexts::entry).collect();
    Ok(Answer::result(call.id, |out| match call.caller.generation {
        Generation::Legacy => {
            legacy::tools::write_list(out, &entries, None, call.caller.version.unwrap_or(Version::ASSUMED));
        }
        Generation::Modern => modern::tools::write_list(out, &entries, None, CACHE, &front.identity),
    }))
}

/// A tool with its schemas as text: written once, since a catalog does not change.
pub(crate) struct ToolTexts {
    tool: Arc<Tool>,
    input_schema: String,
    output_schema: Option<String>,
    annotations: Option<String>,
}

impl ToolTexts {
    pub(crate) fn of(tool: &Arc<Tool>) -> Self {
        let settings = tool.settings();
        Self {
            tool: Arc::clone(tool),
            input_schema: settings.input_schema.to_string(),
            output_schema: settings.output_schema.as_ref().map(ToString::to_string),
            annotations: settings.annotations.as_ref().map(ToString::to_string),
        }
    }

    fn entry(&self) -> ToolEntry<'_> {
        ToolEntry {
            name: self.tool.name(),
            title: None,
            description: Some(&self.tool.settings().description),
            input_schema: &self.input_schema,
            output_schema: self.output_schema.as_deref(),
            annotations: self.annotations.as_deref(),
            policy: self.tool.settings().policy,
        }
    }
}
