//! The definition that each message must match, by its era and method, and rules that the schemas cannot express.

use crate::{PublishedSchema, SchemaViolation};
use serde_json::{Value, json};

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";
const TASKS: &str = "io.modelcontextprotocol/tasks";

/// Whether a request is of the modern era.
pub(crate) fn is_modern(request: &Value) -> bool {
    request["params"]["_meta"].get(VERSION).is_some()
}

/// Whether a notification belongs to a modern subscription.
pub(crate) fn is_of_subscription(notification: &Value) -> bool {
    notification["params"]["_meta"].get(SUBSCRIPTION).is_some()
}

/// Checks the response to a request.
pub(crate) fn answer(request: &Value, answer: &Value) -> Result<(), SchemaViolation> {
    let is_modern = is_modern(request);
    if answer.get("error").is_some() {
        return error(is_modern, answer);
    }
    let (method, result) = (request["method"].as_str().unwrap_or_default(), &answer["result"]);
    if !is_modern {
        PublishedSchema::Legacy.check("JSONRPCResultResponse", answer)?;
        return legacy(method, result);
    }
    PublishedSchema::Modern.check("JSONRPCResultResponse", answer)?;
    let declared = &request["params"]["_meta"][CAPABILITIES];
    if declared["tasks"].is_object() && !declared["extensions"][TASKS].is_object() && method.starts_with("tasks/") {
        // The only modern response that contains a legacy task.
        PublishedSchema::Legacy.check("GetTaskResult", result)?;
        return has_type_complete(method, result);
    }
    modern(method, result)
}

/// Checks an error. Some codes belong to the modern era only; `is_modern` decides for the others.
pub(crate) fn error(is_modern: bool, answer: &Value) -> Result<(), SchemaViolation> {
    let definition = match answer["error"]["code"].as_i64() {
        Some(-32020) => "HeaderMismatchError",
        Some(-32021) => "MissingRequiredClientCapabilityError",
        Some(-32022) => "UnsupportedProtocolVersionError",
        _ if is_modern => "JSONRPCErrorResponse",
        _ => return PublishedSchema::Legacy.check("JSONRPCErrorResponse", answer),
    };
    PublishedSchema::Modern.check(definition, answer)
}

fn modern(method: &str, result: &Value) -> Result<(), SchemaViolation> {
    let definition = match (method, result["resultType"].as_str()) {
        ("tools/call" | "prompts/get" | "resources/read", Some("input_required")) => {
            PublishedSchema::Modern.check("InputRequiredResult", result)?;
            require(
                result["requestState"].is_string(),
                "an input_required result has no request state",
                result,
            )?;
            return has_server_info(result);
        }
        ("tools/call", Some("task")) => {
            PublishedSchema::Tasks.check("CreateTaskResult", result)?;
            return has_server_info(result);
        }
        ("tasks/get", _) => {
            PublishedSchema::Tasks.check("GetTaskResult", result)?;
            if result["status"] == "completed" {
                PublishedSchema::Modern.check("CallToolResult", &result["result"])?;
            }
            return has_server_info(result);
        }
        ("tasks/update", _) => {
            PublishedSchema::Tasks.check("UpdateTaskResult", result)?;
            return has_server_info(result);
        }
        ("tasks/cancel", _) => {
            PublishedSchema::Tasks.check("CancelTaskResult", result)?;
            return has_server_info(result);
        }
        ("tools/call", _) => "CallToolResult",
        ("server/discover", _) => "DiscoverResult",
        ("tools/list", _) => "ListToolsResult",
        ("resources/list", _) => "ListResourcesResult",
        ("resources/templates/list", _) => "ListResourceTemplatesResult",
        ("resources/read", _) => "ReadResourceResult",
        ("prompts/list", _) => "ListPromptsResult",
        ("prompts/get", _) => "GetPromptResult",
        ("completion/complete", _) => "CompleteResult",
        ("subscriptions/listen", _) => "SubscriptionsListenResult",
        (other, _) if is_custom(other) => "Result",
        (other, _) => {
            return Err(SchemaViolation::new(other, "the modern era has no such method", result));
        }
    };
    PublishedSchema::Modern.check(definition, result)?;
    has_type_complete(method, result)?;
    has_server_info(result)
}

fn has_type_complete(method: &str, result: &Value) -> Result<(), SchemaViolation> {
    let error = format!("the result of {method} does not have the type `complete`");
    require(result["resultType"] == "complete", &error, result)
}

/// Each modern result has the server's name.
fn has_server_info(result: &Value) -> Result<(), SchemaViolation> {
    PublishedSchema::Modern
        .check("Implementation", &result["_meta"][SERVER_INFO])
        .map_err(|_| SchemaViolation::new("a modern result", "it does not name its server", result))
}

fn legacy(method: &str, result: &Value) -> Result<(), SchemaViolation> {
    require(
        result.get("resultType").is_none(),
        "legacy results have no type",
        result,
    )?;
    let definition = match method {
        "ping" | "logging/setLevel" | "resources/subscribe" | "resources/unsubscribe" => {
            return require(*result == json!({}), "the result must be empty", result);
        }
        "initialize" => "InitializeResult",
        "tools/list" => "ListToolsResult",
        "tools/call" if result.get("task").is_some() => "CreateTaskResult",
        "tools/call" => "CallToolResult",
        "tasks/get" => "GetTaskResult",
        "tasks/cancel" => "CancelTaskResult",
        "tasks/list" => "ListTasksResult",
        "tasks/result" => {
            let task = &result["_meta"][RELATED_TASK]["taskId"];
            require(task.is_string(), "it does not name its task", result)?;
            "CallToolResult"
        }
        "resources/list" => "ListResourcesResult",
        "resources/templates/list" => "ListResourceTemplatesResult",
        "resources/read" => "ReadResourceResult",
        "prompts/list" => "ListPromptsResult",
        "prompts/get" => "GetPromptResult",
        "completion/complete" => "CompleteResult",
        other if is_custom(other) => "Result",
        other => {
            return Err(SchemaViolation::new(other, "the legacy era has no such method", result));
        }
    };
    PublishedSchema::Legacy.check(definition, result)
}

/// Whether a method is custom: its name begins with a domain.
fn is_custom(method: &str) -> bool {
    method.split('/').next().is_some_and(|domain| domain.contains('.'))
}

/// Checks a request of the server to a legacy client; modern clients get none.
pub(crate) fn request(message: &Value) -> Result<(), SchemaViolation> {
    let definition = match message["method"].as_str().unwrap_or_default() {
        "elicitation/create" => "ElicitRequest",
        "sampling/createMessage" => "CreateMessageRequest",
        "roots/list" => "ListRootsRequest",
        "tasks/get" => "GetTaskRequest",
        "tasks/result" => "GetTaskPayloadRequest",
        "tasks/cancel" => "CancelTaskRequest",
        other => {
            return Err(SchemaViolation::new(
                other,
                "a server does not send such requests",
                message,
            ));
        }
    };
    PublishedSchema::Legacy.check(definition, message)
}

/// Checks a notification to a legacy client, or on the stream of a modern request other than a subscription.
pub(crate) fn notification(is_modern: bool, message: &Value) -> Result<(), SchemaViolation> {
    let definition = match message["method"].as_str().unwrap_or_default() {
        "notifications/progress" => "ProgressNotification",
        "notifications/message" => "LoggingMessageNotification",
        "notifications/cancelled" => "CancelledNotification",
        "notifications/tasks/status" if !is_modern => "TaskStatusNotification",
        "notifications/elicitation/complete" if !is_modern => "ElicitationCompleteNotification",
        "notifications/tools/list_changed" if !is_modern => "ToolListChangedNotification",
        "notifications/prompts/list_changed" if !is_modern => "PromptListChangedNotification",
        "notifications/resources/list_changed" if !is_modern => "ResourceListChangedNotification",
        "notifications/resources/updated" if !is_modern => "ResourceUpdatedNotification",
        other => {
            return Err(SchemaViolation::new(
                other,
                "a server does not send such notifications",
                message,
            ));
        }
    };
    let schema = if is_modern {
        PublishedSchema::Modern
    } else {
        PublishedSchema::Legacy
    };
    schema.check(definition, message)
}

/// Checks a notification of a modern subscription.
pub(crate) fn of_subscription(message: &Value) -> Result<(), SchemaViolation> {
    let definition = match message["method"].as_str().unwrap_or_default() {
        "notifications/tasks" => return PublishedSchema::Tasks.check("TaskStatusNotification", message),
        "notifications/subscriptions/acknowledged" => "SubscriptionsAcknowledgedNotification",
        "notifications/tools/list_changed" => "ToolListChangedNotification",
        "notifications/prompts/list_changed" => "PromptListChangedNotification",
        "notifications/resources/list_changed" => "ResourceListChangedNotification",
        "notifications/resources/updated" => "ResourceUpdatedNotification",
        other => {
            return Err(SchemaViolation::new(
                other,
                "a subscription has no such notifications",
                message,
            ));
        }
    };
    PublishedSchema::Modern.check(definition, message)
}

fn require(condition: bool, error: &str, message: &Value) -> Result<(), SchemaViolation> {
    if condition {
        Ok(())
    } else {
        Err(SchemaViolation::new("not allowed by the protocol", error, message))
    }
}
