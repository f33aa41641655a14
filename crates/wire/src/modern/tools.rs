//! `tools/list`, and the response to a plain call.

use super::{COMPLETE, list::push_end, result};
use crate::{
    json::Edit,
    protocol::{RequestId, write_error_object, write_error_response},
    result::{CacheHints, ServerInfo, ToolEntry},
};
use longhaul_core::{Json, RpcFailure};

/// Appends the ListToolsResult.
pub fn write_list(
    out: &mut String,
    tools: &[ToolEntry<'_>],
    next: Option<&str>,
    cache: CacheHints,
    server_info: &ServerInfo,
) {
    out.push_str(COMPLETE);
    out.push_str(r#","tools":["#);
    for (nth, tool) in tools.iter().enumerate() {
        if nth > 0 {
            out.push(',');
        }
        if tool.push_listed(out, Edit::Remove("execution")) {
            continue;
        }
        out.push('{');
        tool.push_members(out);
        out.push('}');
    }
    out.push(']');
    push_end(out, next, cache, server_info);
}

/// Appends the whole response to a plain call with `called`, a CallToolResult. Adds `resultType` and the server's name unless they
/// are present.
pub fn write_called(out: &mut String, id: RequestId<'_>, called: &Json, server_info: &ServerInfo) {
    result::write(out, id, called, None, server_info);
}

/// Appends the whole response to a plain call that ended in a JSON-RPC error.
pub fn write_failed(out: &mut String, id: RequestId<'_>, failure: &RpcFailure) {
    write_error_response(out, Some(id), |out| push_failure(out, failure));
}

/// Appends the error object. Codes that only legacy revisions have are translated.
pub(super) fn push_failure(out: &mut String, failure: &RpcFailure) {
    let code = match failure.code {
        -32002 => -32602,
        -32042 => -32603,
        code => i64::from(code),
    };
    write_error_object(out, code, &failure.message, failure.data.as_ref().map(Json::as_str));
}
