//! `tools/list` with `execution.taskSupport`, and the response to a plain call.

use crate::{
    json::{Edit, object::object},
    jsonrpc::write_spliced,
    protocol::{RequestId, Version, write_error_object, write_error_response},
    result::{OutputSchema, ToolEntry, push_next_cursor},
};
use longhaul_core::{Json, RpcFailure, TaskPolicy};

object! { struct SchemaRoot { kind = "type", } }

/// Appends the ListToolsResult.
pub fn write_list(out: &mut String, tools: &[ToolEntry<'_>], next: Option<&str>, version: Version) {
    out.push_str(r#"{"tools":["#);
    for (nth, tool) in tools.iter().enumerate() {
        if nth > 0 {
            out.push(',');
        }
        let mut tool = *tool;
        // Legacy output is an object or nothing.
        if !tool.output_schema.text().is_some_and(describes_object) {
            tool.output_schema = OutputSchema::None;
        }
        if push_listed(out, &tool, version) {
            continue;
        }
        out.push('{');
        tool.push_members(out);
        if version.has_legacy_tasks() {
            out.push_str(r#","execution":{"taskSupport":""#);
            out.push_str(task_support(tool.policy));
            out.push_str(r#""}"#);
        }
        out.push('}');
    }
    out.push(']');
    push_next_cursor(out, next);
    out.push('}');
}

/// Appends the tool of another server.
fn push_listed(out: &mut String, tool: &ToolEntry<'_>, version: Version) -> bool {
    let execution = format!(r#"{{"taskSupport":"{}"}}"#, task_support(tool.policy));
    let execution = match version.has_legacy_tasks() {
        true => Edit::Set("execution", &execution),
        false => Edit::Remove("execution"),
    };
    tool.push_listed(out, execution)
}

/// The `taskSupport` of a tool: whether a legacy client may call it as a task.
pub const fn task_support(policy: TaskPolicy) -> &'static str {
    match policy {
        TaskPolicy::Never => "forbidden",
        TaskPolicy::Optional | TaskPolicy::After(_) => "optional",
        TaskPolicy::Always => "required",
    }
}

fn describes_object(schema: &str) -> bool {
    let mut root = SchemaRoot::default();
    root.fill(schema).is_ok() && root.kind.is_some_and(|kind| kind.get() == r#""object""#)
}

/// Appends the whole response to a plain call with `result`, a CallToolResult.
pub fn write_called(out: &mut String, id: RequestId<'_>, result: &Json) {
    write_spliced(out, id, result, &PLAIN);
}

/// Appends the whole response to a call that ended in a JSON-RPC error.
pub fn write_failed(out: &mut String, id: RequestId<'_>, failure: &RpcFailure) {
    write_error_response(out, Some(id), |out| {
        let data = failure.data.as_ref().map(Json::as_str);
        write_error_object(out, i64::from(failure.code), &failure.message, data);
    });
}

/// What a legacy result must not have: `resultType`, and structured content that is not an object.
pub(super) const PLAIN: [Edit<'static>; 2] = [
    Edit::Remove("resultType"),
    Edit::RemoveUnlessObject("structuredContent"),
];
