//! Printing a tool's result, and the exit status for it.

use crate::output::{
    self,
    json_text::{one_line, with_member},
    kinds::FAILED,
};
use longhaul_client::{InputRequest, Json, Outcome, RpcFailure};
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
    /// `--detach`, and there was no task.
    AnsweredAtOnce = 6,
    /// The task asks, and there is no terminal.
    Asks = 7,
    /// The result could not be written.
    NotWritten = 74,
    TimedOut = 124,
    Interrupted = 130,
    Terminated = 143,
}

/// How a call ends that has this outcome.
impl From<&Outcome> for Exit {
    fn from(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Result { is_error: false, .. } => Self::Answered,
            Outcome::Result { is_error: true, .. } => Self::ToolError,
            Outcome::RpcError(_) => Self::Refused,
            Outcome::Cancelled => Self::Cancelled,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// What is asked, with `--json`.
pub(crate) fn question(asked: &InputRequest) -> Value {
    json!({"method": asked.method, "params": asked.params})
}

/// The questions by their keys, if there are any.
pub(crate) fn questions(asked: &[InputRequest]) -> Option<Value> {
    let asked: serde_json::Map<String, Value> = asked
        .iter()
        .filter_map(|request| Some((request.key.clone()?, question(request))))
        .collect();
    (!asked.is_empty()).then(|| asked.into())
}

/// How an outcome is printed.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PrintOptions<'a> {
    pub(crate) json: bool,
    /// It is that of an earlier call under the same idempotency key.
    pub(crate) is_repeated: bool,
    /// The id of a task, and what its server says of its status.
    pub(crate) task: Option<(&'a str, Option<&'a str>)>,
}

impl PrintOptions<'_> {
    fn line(self, mut shown: Value) {
        self.mark(&mut shown);
        output::json_line(&shown);
    }

    fn mark(self, shown: &mut Value) {
        if self.is_repeated && shown.is_object() {
            shown["repeated"] = true.into();
        }
    }
}

/// Prints the outcome of a call: a result to standard output, anything else to standard error. With `json`, always prints one line
/// to standard output: the result, or an object with `error` or `cancelled`.
pub(crate) fn print_outcome(outcome: &Outcome, printing: PrintOptions<'_>) -> Exit {
    let json = printing.json;
    match outcome {
        Outcome::Result { json: result, is_error } => {
            let (shown, problem) = shown(result, printing);
            if json {
                output::json_line(&shown);
            } else {
                output::text(&shown);
            }
            if let Some(problem) = problem {
                output::note(&problem);
            }
            match is_error {
                _ if !output::is_written() => Exit::NotWritten,
                true => Exit::ToolError,
                false => Exit::Answered,
            }
        }
        Outcome::RpcError(failure) => {
            output::note(&format!("longhaul: {} (error {})", failure.message, failure.code));
            if json {
                let mut error = task_error(failure);
                if let Some((id, _)) = printing.task {
                    error["taskId"] = id.into();
                }
                printing.line(json!({"error": error}));
            }
            Exit::Refused
        }
        Outcome::Cancelled => {
            output::note("longhaul: the task was cancelled");
            if json {
                let mut shown = json!({
                    "cancelled": true, "mayHaveRun": true,
                    "message": "the task was cancelled, and has no result; call the tool again if it is still to be done: it may have run in part",
                });
                if let Some((id, status)) = printing.task {
                    shown["taskId"] = id.into();
                    // Why, if the server says so.
                    shown["statusMessage"] = status.into();
                }
                printing.line(shown);
            }
            Exit::Cancelled
        }
    }
}

/// The error that a task has ended with, as JSON.
pub(crate) fn task_error(failure: &RpcFailure) -> Value {
    let mut error = rpc_error(failure);
    error["kind"] = FAILED.into();
    error["mayHaveRun"] = true.into();
    error
}

/// A JSON-RPC error as JSON.
pub(crate) fn rpc_error(failure: &RpcFailure) -> Value {
    let mut error = json!({"code": failure.code, "message": &*failure.message});
    if let Some(data) = &failure.data {
        error["data"] = value_or_text(data);
    }
    error
}

/// The value of `json`. If it is legal JSON with a value that cannot be held (`"\udc00"`, `1e999`), a string of its text.
pub(crate) fn value_or_text(json: &Json) -> Value {
    serde_json::from_str(json.as_str()).unwrap_or_else(|_| Value::from(json.as_str()))
}

/// What to print for a result, and what to say about it. A result with a value that cannot be held is printed as it came, on one line.
fn shown(result: &Json, printing: PrintOptions<'_>) -> (String, Option<String>) {
    match serde_json::from_str::<Value>(result.as_str()) {
        Ok(value) if printing.json => {
            let mut line = one_line(result.as_str());
            if value.is_object() && printing.is_repeated {
                line = with_member(&line, "repeated", "true");
            }
            if let Some((id, _)) = printing.task.filter(|_| value.is_object()) {
                line = with_member(&line, "taskId", &Value::from(id).to_string());
            }
            (line, None)
        }
        Ok(value) => (as_text(&value), None),
        Err(error) => {
            let line = one_line(result.as_str());
            let problem = format!("longhaul: the result is printed as it came, because it cannot be read: {error}");
            (line, Some(problem))
        }
    }
}

/// A `CallToolResult` as text: its text blocks, and a line for each other block. One without `content`, which it must have, is shown as it is.
fn as_text(result: &Value) -> String {
    let blocks = result["content"].as_array().map(Vec::as_slice);
    if blocks.unwrap_or_default().is_empty() && !result["structuredContent"].is_null() {
        return format!("{:#}", result["structuredContent"]);
    }
    let Some(blocks) = blocks else {
        return format!("{result:#}");
    };
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

    /// Nothing that a server has sent is dropped.
    #[test]
    fn a_result_without_content_is_shown_as_it_is() {
        let one = json!({"n": 1});
        let no_array = "{\n  \"content\": \"text\",\n  \"isError\": false\n}";
        for (result, text) in [
            (json!({"content": [], "structuredContent": one}), "{\n  \"n\": 1\n}"),
            (json!({"structuredContent": 7}), "7"),
            (json!({"answer": 7}), "{\n  \"answer\": 7\n}"),
            (json!({"content": "text", "isError": false}), no_array),
            (json!({"content": []}), ""),
        ] {
            assert_eq!(as_text(&result), text);
        }
    }

    #[test]
    fn a_result_that_cannot_be_read_is_printed_as_it_came() {
        for value in [r#""x\udc00y""#, "1e999"] {
            let result = format!("{{\"content\":[],\n\"structuredContent\":{{\"a\":{value}}}}}");
            let parsed = Json::parse(&result).unwrap();
            for json in [false, true] {
                let options = PrintOptions {
                    json,
                    ..PrintOptions::default()
                };
                let (printed, problem) = shown(&parsed, options);
                assert_eq!(printed, one_line(&result));
                assert!(problem.unwrap().contains("cannot be read: "));
            }
            assert_eq!(value_or_text(&parsed), Value::from(result));
        }
    }

    #[test]
    fn blocks_become_text() {
        let result = json!({"content": [
            {"type": "text", "text": "one"},
            {"type": "text", "text": "two\n"},
            {"type": "image", "mimeType": "image/png", "data": "AAAA"},
            {"type": "resource_link", "name": "out", "uri": "file:///out"},
            {"type": "resource", "resource": {"uri": "u", "text": "inside"}},
        ]});
        let expected = "one\ntwo\n[image: image/png; --json shows it]\nout: file:///out\ninside";
        assert_eq!(as_text(&result), expected);
    }
}
