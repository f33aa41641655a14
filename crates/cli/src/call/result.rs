//! Printing a tool's result, and the exit status for it.

use crate::output;
use longhaul_client::{Json, Outcome, RpcFailure};
use serde_json::{Value, json};
use std::process::ExitCode;

/// The exit statuses of `call` and `task`, as `--help` lists them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Answered = 0,
    ToolError = 1,
    Usage = 2,
    NoServer = 3,
    Cancelled = 4,
    Refused = 5,
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Prints the outcome of a call: a result to standard output, anything else to standard error. With `json`, always prints one line
/// to standard output: the result, or an object with `error` or `cancelled`.
pub(crate) fn print_outcome(outcome: &Outcome, json: bool) -> Exit {
    match outcome {
        Outcome::Result { json: result, is_error } => {
            let value = parsed(result);
            if json {
                output::json_line(&value);
            } else {
                output::text(&as_text(&value));
            }
            if *is_error { Exit::ToolError } else { Exit::Answered }
        }
        Outcome::RpcError(failure) => {
            output::note(&format!("longhaul: {} (error {})", failure.message, failure.code));
            if json {
                output::json_line(&json!({"error": rpc_error(failure)}));
            }
            Exit::Refused
        }
        Outcome::Cancelled => {
            output::note("longhaul: the task was cancelled");
            if json {
                output::json_line(&json!({"cancelled": true}));
            }
            Exit::Cancelled
        }
    }
}

/// A JSON-RPC error as JSON.
pub(crate) fn rpc_error(failure: &RpcFailure) -> Value {
    let mut error = json!({"code": failure.code, "message": &*failure.message});
    if let Some(data) = &failure.data {
        error["data"] = parsed(data);
    }
    error
}

/// Parses JSON text that has been validated before.
pub(crate) fn parsed(json: &Json) -> Value {
    serde_json::from_str(json.as_str()).unwrap_or_default()
}

/// A `CallToolResult` as text: its text blocks, and a line for each other block.
fn as_text(result: &Value) -> String {
    let blocks = result["content"].as_array().map(Vec::as_slice).unwrap_or_default();
    if blocks.is_empty() && !result["structuredContent"].is_null() {
        return format!("{:#}", result["structuredContent"]);
    }
    let mut text = String::new();
    for block in blocks {
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&block_as_text(block));
    }
    text
}

/// One content block.
fn block_as_text(block: &Value) -> String {
    let part = |value: &Value| value.as_str().unwrap_or("?").to_owned();
    match block["type"].as_str() {
        Some("text") => block["text"].as_str().unwrap_or_default().to_owned(),
        Some(kind @ ("image" | "audio")) => format!("[{kind}: {}; --json shows it]", part(&block["mimeType"])),
        Some("resource_link") => format!("{}: {}", part(&block["name"]), part(&block["uri"])),
        Some("resource") => match block["resource"]["text"].as_str() {
            Some(text) => text.to_owned(),
            None => format!("[resource: {}; --json shows it]", part(&block["resource"]["uri"])),
        },
        _ => block.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_become_text() {
        let result = json!({"content": [
            {"type": "text", "text": "one"},
            {"type": "text", "text": "two\n"},
            {"type": "image", "mimeType": "image/png", "data": "AAAA"},
            {"type": "resource_link", "name": "out", "uri": "file:///out"},
            {"type": "resource", "resource": {"uri": "u", "text": "inside"}},
        ]});
        assert_eq!(
            as_text(&result),
            "one\ntwo\n[image: image/png; --json shows it]\nout: file:///out\ninside"
        );
        assert_eq!(
            as_text(&json!({"content": [], "structuredContent": {"a": 1}})),
            "{\n  \"a\": 1\n}"
        );
        assert_eq!(as_text(&json!({"content": []})), "");
    }
}
