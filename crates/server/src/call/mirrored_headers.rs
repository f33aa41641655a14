//! Arguments of a modern call that its headers mirror. Which those are is read from the schemas once for each version of the
//! catalog.

use super::Calls;
use crate::admission::request::AdmittedRequest;
use longhaul_runtime::{Snapshot, Tool};
use longhaul_wire::{Generation, ParamHeaders, RpcError};
use parking_lot::RwLock;
use serde_json::value::RawValue;
use std::{collections::HashMap, sync::Arc};
use tracing::warn;

/// The tools with mirrored arguments, of the catalog as it last was.
#[derive(Default)]
pub(crate) struct MirroredHeaders(RwLock<Arc<ToolHeaders>>);

#[derive(Default)]
struct ToolHeaders {
    version: Option<u64>,
    tools: HashMap<Arc<str>, ParamHeaders>,
}

/// Compares the headers of a modern call over HTTP with its arguments.
///
/// # Errors
/// −32020/400 for a header that is missing, repeated, garbled or different.
pub(crate) fn check(
    calls: &Calls,
    request: &AdmittedRequest<'_>,
    tool: &Tool,
    arguments: Option<&RawValue>,
) -> Result<(), RpcError> {
    let (Generation::Modern, Some(headers)) = (request.caller.generation, request.headers) else {
        return Ok(());
    };
    let known = calls.mirrored_headers.of(&calls.engine.catalog().snapshot());
    known
        .tools
        .get(tool.name())
        .map_or(Ok(()), |mirrored| mirrored.check(headers, arguments))
}

impl MirroredHeaders {
    fn of(&self, snapshot: &Snapshot) -> Arc<ToolHeaders> {
        let version = Some(snapshot.versions.tools);
        let known = Arc::clone(&self.0.read());
        if known.version == version {
            return known;
        }
        let new = Arc::new(ToolHeaders {
            version,
            tools: snapshot.tools.values().filter_map(|tool| read(tool)).collect(),
        });
        *self.0.write() = Arc::clone(&new);
        new
    }
}

fn read(tool: &Tool) -> Option<(Arc<str>, ParamHeaders)> {
    let mirrored = ParamHeaders::of(&tool.settings().input_schema)
        // Clients leave such a tool out; a call of it is served without the check.
        .map_err(|flaw| warn!(tool = %tool.name(), %flaw, "modern clients will not use this tool"))
        .ok()?;
    (!mirrored.is_empty()).then(|| (Arc::clone(tool.name()), mirrored))
}
