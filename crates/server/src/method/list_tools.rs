//! `tools/list`: the catalog, whole, in its order (X-01, L-21).

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
    if call.params.cursor()?.is_some() {
        return Err(RpcError::invalid_params(
            "params.cursor is not one this list gave out: it has one page",
        ));
    }
    let texts: Vec<Texts> = front.engine.catalog().iter().map(|tool| Texts::of(tool)).collect();
    let entries: Vec<ToolEntry<'_>> = texts.iter().map(Texts::entry).collect();
    Ok(Answer::result(call.id, |out| match call.caller.generation {
        Generation::Legacy => {
            legacy::tools::write_list(out, &entries, None, call.caller.version.unwrap_or(Version::ASSUMED));
        }
        Generation::Modern => modern::tools::write_list(out, &entries, None, CACHE, &front.identity),
    }))
}

/// A tool with its schemas as text.
struct Texts<'a> {
    tool: &'a Tool,
    input_schema: String,
    output_schema: Option<String>,
    annotations: Option<String>,
}

impl<'a> Texts<'a> {
    fn of(tool: &'a Tool) -> Self {
        let settings = tool.settings();
        Self {
            tool,
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
