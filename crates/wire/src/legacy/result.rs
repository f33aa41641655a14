//! Results that handlers return as JSON objects: prompts, resource contents, completions, results of custom methods.

use crate::{json::Edit, jsonrpc::write_spliced, protocol::RequestId};
use longhaul_core::Json;

/// Appends the whole response with a handler's `result`, without `resultType`, which only modern results have. For the result of a
/// tool use [`tools::write_called`](super::tools::write_called).
pub fn write(out: &mut String, id: RequestId<'_>, result: &Json) {
    write_spliced(out, id, result, &[RESULT_TYPE]);
}

/// Does the same as [`write()`], and removes the caching hints. Use it only for methods whose modern results have them: in the result
/// of another method `ttlMs` may mean something else.
pub fn write_cacheable(out: &mut String, id: RequestId<'_>, result: &Json) {
    let edits = [RESULT_TYPE, Edit::Remove("ttlMs"), Edit::Remove("cacheScope")];
    write_spliced(out, id, result, &edits);
}

const RESULT_TYPE: Edit<'static> = Edit::Remove("resultType");
