//! Everything the server says, checked against the official schemas: by discriminator, never against a union (C-40).

use crate::request::TASKS;
use jsonschema::Validator;
use serde_json::{Value, json};
use std::{
    collections::HashMap,
    sync::{Arc, LazyLock, Mutex},
};

static SCHEMAS: LazyLock<HashMap<&'static str, Value>> = LazyLock::new(|| {
    let read = |text| serde_json::from_str(text).unwrap();
    HashMap::from([
        (
            "25",
            read(include_str!("../../../wire/tests/schemas/mcp-2025-11-25.schema.json")),
        ),
        (
            "26",
            read(include_str!("../../../wire/tests/schemas/mcp-2026-07-28.schema.json")),
        ),
        (
            "x",
            read(include_str!("../../../wire/tests/schemas/ext-tasks-draft.schema.json")),
        ),
    ])
});

/// Compiling takes longer than checking.
static COMPILED: LazyLock<Mutex<Compiled>> = LazyLock::new(Mutex::default);

/// By schema and definition.
type Compiled = HashMap<(String, String), Arc<Validator>>;

fn validator(schema: &str, definition: &str) -> Arc<Validator> {
    let mut compiled = COMPILED.lock().unwrap();
    let key = (schema.to_owned(), definition.to_owned());
    let compile = || {
        let defs = &SCHEMAS[schema]["$defs"];
        assert!(defs.get(definition).is_some(), "{schema} defines no {definition}");
        let root = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "$ref": format!("#/$defs/{definition}"),
            "$defs": defs,
        });
        Arc::new(jsonschema::draft202012::new(&root).unwrap())
    };
    Arc::clone(compiled.entry(key).or_insert_with(compile))
}

fn check(schema: &str, definition: &str, value: &Value) {
    let flaws: Vec<String> = validator(schema, definition)
        .iter_errors(value)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(flaws.is_empty(), "{schema} {definition}: {flaws:#?}\n{value:#}");
}

/// Checks the answer to `request`, whichever era it was in.
pub(crate) fn check_answer(request: &Value, answer: &Value) {
    let modern = request["params"]["_meta"]
        .get("io.modelcontextprotocol/protocolVersion")
        .is_some();
    if answer.get("error").is_some() {
        return check_error(modern, answer);
    }
    check(if modern { "26" } else { "25" }, "JSONRPCResultResponse", answer);
    let method = request["method"].as_str().unwrap_or_default();
    let result = &answer["result"];
    let declared = &request["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"];
    let is_legacy_only = declared["tasks"].is_object() && !declared["extensions"][TASKS].is_object();
    if is_legacy_only && method.starts_with("tasks/") {
        // The one modern answer with a legacy task in it (C-12).
        check("25", "GetTaskResult", result);
        assert_eq!(result["resultType"], "complete");
    } else if modern {
        check_modern(method, result);
    } else {
        check_legacy(method, result);
    }
}

/// Checks a notification that came on the way to an answer.
pub(crate) fn check_notification(request: &Value, message: &Value) {
    let modern = request["params"]["_meta"]
        .get("io.modelcontextprotocol/protocolVersion")
        .is_some();
    if modern && request["method"] == "subscriptions/listen" {
        return check_subscribed(message);
    }
    match message["method"].as_str() {
        Some("notifications/progress") => check(if modern { "26" } else { "25" }, "ProgressNotification", message),
        Some("notifications/message") => check(if modern { "26" } else { "25" }, "LoggingMessageNotification", message),
        Some("notifications/cancelled") if !modern => check("25", "CancelledNotification", message),
        other => panic!("nothing else is sent on a stream: {other:?}"),
    }
}

/// Checks a message of a modern subscription.
pub(crate) fn check_subscribed(message: &Value) {
    match message["method"].as_str() {
        Some("notifications/subscriptions/acknowledged") => {
            check("26", "SubscriptionsAcknowledgedNotification", message);
        }
        Some("notifications/tools/list_changed") => check("26", "ToolListChangedNotification", message),
        Some("notifications/prompts/list_changed") => check("26", "PromptListChangedNotification", message),
        Some("notifications/resources/list_changed") => check("26", "ResourceListChangedNotification", message),
        Some("notifications/resources/updated") => check("26", "ResourceUpdatedNotification", message),
        Some("notifications/tasks") => check("x", "TaskStatusNotification", message),
        other => panic!("nothing else is sent on a subscription: {other:?}"),
    }
}

/// Checks a request of the server's to a legacy client.
pub(crate) fn check_request(message: &Value) {
    match message["method"].as_str() {
        Some("elicitation/create") => check("25", "ElicitRequest", message),
        Some("sampling/createMessage") => check("25", "CreateMessageRequest", message),
        Some("roots/list") => check("25", "ListRootsRequest", message),
        other => panic!("a legacy client is asked nothing else: {other:?}"),
    }
}

/// Checks what a server says of itself to a legacy client.
pub(crate) fn check_pushed(message: &Value) {
    let method = message["method"].as_str();
    let definition = match method.unwrap_or_else(|| panic!("no method: {message}")) {
        "elicitation/create" => "ElicitRequest",
        "sampling/createMessage" => "CreateMessageRequest",
        "tasks/get" => "GetTaskRequest",
        "tasks/result" => "GetTaskPayloadRequest",
        "tasks/cancel" => "CancelTaskRequest",
        "notifications/cancelled" => "CancelledNotification",
        "notifications/progress" => "ProgressNotification",
        "notifications/message" => "LoggingMessageNotification",
        "notifications/tasks/status" => "TaskStatusNotification",
        "notifications/tools/list_changed" => "ToolListChangedNotification",
        "notifications/prompts/list_changed" => "PromptListChangedNotification",
        "notifications/resources/list_changed" => "ResourceListChangedNotification",
        "notifications/resources/updated" => "ResourceUpdatedNotification",
        other => panic!("nobody sends {other}"),
    };
    check("25", definition, message);
}

fn check_error(modern: bool, answer: &Value) {
    let definition = match answer["error"]["code"].as_i64() {
        Some(-32020) => "HeaderMismatchError",
        Some(-32021) => "MissingRequiredClientCapabilityError",
        Some(-32022) => "UnsupportedProtocolVersionError",
        _ if modern => "JSONRPCErrorResponse",
        _ => return check("25", "JSONRPCErrorResponse", answer),
    };
    check("26", definition, answer);
}

fn check_modern(method: &str, result: &Value) {
    match method {
        "tools/call" | "prompts/get" | "resources/read" if result["resultType"] == "input_required" => {
            check("26", "InputRequiredResult", result);
            assert!(
                result["requestState"].is_string(),
                "a round leads to the next: {result}"
            );
        }
        "server/discover" => check("26", "DiscoverResult", result),
        "tools/list" => check("26", "ListToolsResult", result),
        "tools/call" if result["resultType"] == "task" => check("x", "CreateTaskResult", result),
        "tools/call" => {
            check("26", "CallToolResult", result);
            assert_eq!(result["resultType"], "complete");
        }
        "tasks/get" => {
            check("x", "GetTaskResult", result);
            if result["status"] == "completed" {
                check("26", "CallToolResult", &result["result"]);
            }
        }
        "tasks/update" => check("x", "UpdateTaskResult", result),
        "tasks/cancel" => check("x", "CancelTaskResult", result),
        "resources/list" => check("26", "ListResourcesResult", result),
        "resources/templates/list" => check("26", "ListResourceTemplatesResult", result),
        "resources/read" => check("26", "ReadResourceResult", result),
        "com.example/echo" => check("26", "Result", result),
        "prompts/list" => check("26", "ListPromptsResult", result),
        "prompts/get" => check("26", "GetPromptResult", result),
        "completion/complete" => check("26", "CompleteResult", result),
        "subscriptions/listen" => check("26", "SubscriptionsListenResult", result),
        other => panic!("what is the modern answer to {other}?"),
    }
    // L-08, and the end of every modern result.
    assert_eq!(result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "tested");
}

fn check_legacy(method: &str, result: &Value) {
    assert!(
        result.get("resultType").is_none(),
        "legacy results have no type: {result}"
    );
    match method {
        "initialize" => check("25", "InitializeResult", result),
        "ping" | "logging/setLevel" | "resources/subscribe" | "resources/unsubscribe" => assert_eq!(*result, json!({})),
        "tools/list" => check("25", "ListToolsResult", result),
        "tools/call" if result.get("task").is_some() => check("25", "CreateTaskResult", result),
        "tools/call" => check("25", "CallToolResult", result),
        "tasks/get" => check("25", "GetTaskResult", result),
        "tasks/cancel" => check("25", "CancelTaskResult", result),
        "tasks/list" => check("25", "ListTasksResult", result),
        "tasks/result" => {
            check("25", "CallToolResult", result);
            assert!(result["_meta"]["io.modelcontextprotocol/related-task"]["taskId"].is_string());
        }
        "resources/list" => check("25", "ListResourcesResult", result),
        "resources/templates/list" => check("25", "ListResourceTemplatesResult", result),
        "resources/read" => check("25", "ReadResourceResult", result),
        "com.example/echo" => check("25", "Result", result),
        "prompts/list" => check("25", "ListPromptsResult", result),
        "prompts/get" => check("25", "GetPromptResult", result),
        "completion/complete" => check("25", "CompleteResult", result),
        other => panic!("what is the legacy answer to {other}?"),
    }
}
