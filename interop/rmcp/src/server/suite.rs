//! The further tools, and the resources and prompts, of the conformance suite, as JSON.

use rmcp::{
    ErrorData,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, InputRequiredResult, LoggingLevel,
        LoggingMessageNotificationParam, Tool,
    },
    service::{RequestContext, RoleServer},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";
const WAV: &str = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=";

const TOOLS: [&str; 10] = [
    "test_simple_text",
    "test_image_content",
    "test_audio_content",
    "test_embedded_resource",
    "test_multiple_content_types",
    "test_error_handling",
    "test_tool_with_logging",
    "test_input_required_result_elicitation",
    "test_input_required_result_sampling",
    "test_input_required_result_list_roots",
];

/// What the library has types for.
pub(crate) fn read<T: DeserializeOwned>(value: Value) -> Result<T, ErrorData> {
    serde_json::from_value(value).map_err(|error| ErrorData::internal_error(error.to_string(), None))
}

pub(crate) fn tools() -> Vec<Tool> {
    let schema = json!({"type": "object"});
    let schema = schema.as_object().cloned().unwrap_or_default();
    let tools = TOOLS.into_iter();
    tools
        .map(|name| Tool::new(name, format!("The tool {name}"), schema.clone()))
        .collect()
}

fn text(words: &str) -> Value {
    json!({"type": "text", "text": words})
}

fn image() -> Value {
    json!({"type": "image", "data": PNG, "mimeType": "image/png"})
}

fn embedded(uri: &str, mime_type: &str, words: &str) -> Value {
    json!({"type": "resource", "resource": {"uri": uri, "mimeType": mime_type, "text": words}})
}

/// The result of a tool, if it is one of these.
pub(crate) async fn call(
    request: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Result<Option<CallToolResponse>, ErrorData> {
    let (content, is_error) = match &*request.name {
        "test_simple_text" => (json!([text("This is a simple text response for testing.")]), false),
        "test_image_content" => (json!([image()]), false),
        "test_audio_content" => (json!([{"type": "audio", "data": WAV, "mimeType": "audio/wav"}]), false),
        "test_embedded_resource" => {
            let words = "This is an embedded resource content.";
            (
                json!([embedded("test://embedded-resource", "text/plain", words)]),
                false,
            )
        }
        "test_multiple_content_types" => {
            let data = json!({"test": "data", "value": 123}).to_string();
            let resource = embedded("test://mixed-content-resource", "application/json", &data);
            (json!([text("Multiple content types test:"), image(), resource]), false)
        }
        "test_error_handling" => {
            let words = "This tool intentionally returns an error for testing";
            (json!([text(words)]), true)
        }
        "test_tool_with_logging" => {
            for words in [
                "Tool execution started",
                "Tool processing data",
                "Tool execution completed",
            ] {
                let message = LoggingMessageNotificationParam::new(LoggingLevel::Info, json!(words));
                let sent = context.peer.notify_logging_message(message).await;
                sent.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
            }
            (json!([text("Done.")]), false)
        }
        name => {
            let Some((key, question)) = question(name) else {
                return Ok(None);
            };
            return answered(request, key, question).map(Some);
        }
    };
    let result: CallToolResult = read(json!({"resultType": "complete", "content": content, "isError": is_error}))?;
    Ok(Some(result.into()))
}

/// What a tool asks for in its first result, and under which key.
fn question(tool: &str) -> Option<(&'static str, Value)> {
    Some(match tool {
        "test_input_required_result_elicitation" => {
            let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
            let params = json!({"mode": "form", "message": "What is your name?", "requestedSchema": schema});
            ("user_name", json!({"method": "elicitation/create", "params": params}))
        }
        "test_input_required_result_sampling" => {
            let asked = json!({"role": "user", "content": text("What is the capital of France?")});
            let params = json!({"messages": [asked], "maxTokens": 100});
            (
                "capital_question",
                json!({"method": "sampling/createMessage", "params": params}),
            )
        }
        "test_input_required_result_list_roots" => ("client_roots", json!({"method": "roots/list", "params": {}})),
        _ => return None,
    })
}

fn answered(request: &CallToolRequestParams, key: &str, question: Value) -> Result<CallToolResponse, ErrorData> {
    let answers = request.input_responses.as_ref().map(|answers| json!(answers));
    let answer = answers.and_then(|answers| answers.get(key).cloned());
    let words = match &answer {
        Some(answer) if answer["content"]["name"].is_string() => {
            format!("Hello, {}!", answer["content"]["name"].as_str().unwrap_or_default())
        }
        Some(answer) if answer.is_object() => answer.to_string(),
        _ => {
            let asked = read(json!({key: question}))?;
            return Ok(InputRequiredResult::from_input_requests(asked).into());
        }
    };
    let result: CallToolResult = read(json!({"resultType": "complete", "content": [text(&words)]}))?;
    Ok(result.into())
}

pub(crate) fn resources() -> Value {
    let resources = [
        ("test://static-text", "text/plain"),
        ("test://static-binary", "image/png"),
        ("test://watched-resource", "text/plain"),
    ];
    let resources = resources.map(|(uri, mime_type)| {
        json!({"uri": uri, "name": uri, "description": format!("The resource {uri}"), "mimeType": mime_type})
    });
    json!(resources)
}

pub(crate) fn templates() -> Value {
    json!([{
        "uriTemplate": "test://template/{id}/data", "name": "template", "description": "A template",
        "mimeType": "application/json",
    }])
}

/// The contents of a resource.
pub(crate) fn contents(uri: &str) -> Option<Value> {
    let id = uri
        .strip_prefix("test://template/")
        .and_then(|rest| rest.strip_suffix("/data"));
    Some(match (uri, id) {
        (_, Some(id)) => {
            let data = json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")});
            json!({"uri": uri, "mimeType": "application/json", "text": data.to_string()})
        }
        ("test://static-text", _) => {
            json!({"uri": uri, "mimeType": "text/plain", "text": "This is the content of the static text resource."})
        }
        ("test://static-binary", _) => json!({"uri": uri, "mimeType": "image/png", "blob": PNG}),
        ("test://watched-resource", _) => json!({"uri": uri, "mimeType": "text/plain", "text": "watched"}),
        _ => return None,
    })
}

pub(crate) fn prompts() -> Value {
    let prompts: [(&str, &[&str]); 4] = [
        ("test_simple_prompt", &[]),
        ("test_prompt_with_arguments", &["arg1", "arg2"]),
        ("test_prompt_with_embedded_resource", &["resourceUri"]),
        ("test_prompt_with_image", &[]),
    ];
    let prompts = prompts.map(|(name, arguments)| {
        let arguments: Vec<Value> = (arguments.iter())
            .map(|argument| json!({"name": argument, "description": argument, "required": true}))
            .collect();
        json!({"name": name, "description": format!("The prompt {name}"), "arguments": arguments})
    });
    json!(prompts)
}

/// The messages of a prompt.
pub(crate) fn messages(name: &str, arguments: &Value) -> Option<Value> {
    let user = |content: Value| json!({"role": "user", "content": content});
    let argument = |name: &str| arguments[name].as_str().unwrap_or_default().to_owned();
    Some(match name {
        "test_simple_prompt" => json!([user(text("This is a simple prompt for testing."))]),
        "test_prompt_with_arguments" => {
            let (arg1, arg2) = (argument("arg1"), argument("arg2"));
            json!([user(text(&format!(
                "Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"
            )))])
        }
        "test_prompt_with_embedded_resource" => {
            let words = "Embedded resource content for testing.";
            json!([
                user(embedded(&argument("resourceUri"), "text/plain", words)),
                user(text("Please process the embedded resource above.")),
            ])
        }
        "test_prompt_with_image" => json!([user(image()), user(text("Please analyze the image above."))]),
        _ => return None,
    })
}
