//! Tools without `execution`, and what a direct call answers.

use super::{COMPLETE, resources::push_end};
use crate::{
    cache::Cache,
    envelope::{RequestId, write_result},
    error::{RpcError, write_error_object, write_error_response},
    identity::Identity,
    meta::SERVER_INFO,
    splice::{Edit, splice},
    tool::ToolEntry,
};
use longhaul_core::{Json, RpcFailure};

/// Appends the ListToolsResult.
pub fn write_list(out: &mut String, tools: &[ToolEntry<'_>], next: Option<&str>, cache: Cache, identity: &Identity) {
    out.push_str(COMPLETE);
    out.push_str(r#","tools":["#);
    for (nth, tool) in tools.iter().enumerate() {
        out.push_str(if nth == 0 { "{" } else { ",{" });
        tool.push_members(out, tool.output_schema);
        out.push('}');
    }
    out.push(']');
    push_end(out, next, cache, identity);
}

/// Appends the whole response to a direct call that ended with `result`, a CallToolResult. It gets a `resultType` (L-09) and the
/// server's name (L-08) unless it has them.
pub fn write_called(out: &mut String, id: RequestId<'_>, result: &Json, identity: &Identity) {
    let start = out.len();
    let mut sound = Ok(());
    let named = [Edit::Default(SERVER_INFO, identity.info())];
    let edits = [
        Edit::Default("resultType", r#""complete""#),
        Edit::Within("_meta", &named),
    ];
    write_result(out, id, |out| sound = splice(out, result.as_str(), &edits));
    if sound.is_err() {
        out.truncate(start);
        RpcError::internal("The tool's result is not a JSON object").write_response(out, Some(id));
    }
}

/// Appends the whole response to a direct call that ended in a JSON-RPC error.
pub fn write_failed(out: &mut String, id: RequestId<'_>, failure: &RpcFailure) {
    write_error_response(out, Some(id), |out| push_failure(out, failure));
}

/// Appends the error object. Codes that only legacy revisions know are put into modern ones (X-15, C-31, C-32).
pub(super) fn push_failure(out: &mut String, failure: &RpcFailure) {
    let code = match failure.code {
        -32002 => -32602,
        -32042 => -32603,
        code => i64::from(code),
    };
    write_error_object(out, code, &failure.message, failure.data.as_ref().map(Json::as_str));
}
