//! The server that the official conformance suite wants to find: its tools, as functions in this process.
//!
//! `fixtures [--listen ADDR] [--data-dir DIR]`; without a data directory it keeps its tasks in memory.

mod support;

use longhaul_core::{Json, Outcome, RpcFailure, TaskPolicy, text_result};
use longhaul_runtime::{End, Executor, TaskContext, Tool};
use longhaul_upstream::in_process::function;
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    support::run(|| {
        Ok(vec![
            tool(
                "greet",
                "Greets someone by name",
                TaskPolicy::Never,
                json!({"name": {"type": "string"}}),
                greet(),
            )?,
            tool(
                "slow_compute",
                "Takes its time",
                TaskPolicy::Optional,
                json!({"seconds": {"type": "number"}, "label": {"type": "string"}}),
                slow_compute(),
            )?,
            tool(
                "failing_job",
                "Says no after a second",
                TaskPolicy::Always,
                json!({}),
                failing_job(),
            )?,
            tool(
                "protocol_error_job",
                "Ends in a JSON-RPC error",
                TaskPolicy::Optional,
                json!({}),
                function(|_, _| async { End::Finished(protocol_error()) }),
            )?,
            tool(
                "confirm_delete",
                "Deletes a file, if someone agrees",
                TaskPolicy::Optional,
                json!({"filename": {"type": "string"}}),
                confirm_delete(),
            )?,
            tool(
                "multi_input",
                "Asks two things at once",
                TaskPolicy::Optional,
                json!({}),
                multi_input(),
            )?,
        ])
    })
}

fn tool(
    name: &str,
    description: &str,
    policy: TaskPolicy,
    properties: Value,
    executor: Arc<dyn Executor>,
) -> Result<Tool, longhaul_runtime::ToolError> {
    Tool::new(support::settings(name, description, policy, properties, executor))
}

fn greet() -> Arc<dyn Executor> {
    function(|arguments, _| async move { said(&format!("Hello, {}!", member(&arguments, "name"))) })
}

fn slow_compute() -> Arc<dyn Executor> {
    function(|arguments, cx: TaskContext| async move {
        let seconds = value(&arguments)["seconds"]
            .as_f64()
            .unwrap_or_default()
            .clamp(0.0, 3600.0);
        tokio::select! {
            () = cx.ports().clock.sleep(Duration::from_secs_f64(seconds)) => {
                said(&format!("Computed {} in {seconds} s", member(&arguments, "label")))
            }
            reason = cx.stopped() => End::Stopped(reason),
        }
    })
}

fn failing_job() -> Arc<dyn Executor> {
    function(|_, cx: TaskContext| async move {
        cx.ports().clock.sleep(Duration::from_secs(1)).await;
        End::Finished(Outcome::tool_error("The job failed, as it always does."))
    })
}

fn protocol_error() -> Outcome {
    Outcome::RpcError(RpcFailure {
        code: -32603,
        message: "The job broke".into(),
        data: None,
    })
}

fn confirm_delete() -> Arc<dyn Executor> {
    function(|arguments, cx: TaskContext| async move {
        let question = elicitation(
            &format!("Delete {}?", member(&arguments, "filename")),
            "confirm",
            "boolean",
        );
        match cx.ask(question).await {
            Ok(answer) if value(&answer)["content"]["confirm"] == true => said("Deleted."),
            Ok(_) => said("Kept."),
            Err(error) => End::Finished(Outcome::tool_error(&error.to_string())),
        }
    })
}

fn multi_input() -> Arc<dyn Executor> {
    function(|_, cx: TaskContext| async move {
        let first = cx.ask(elicitation("What is your name?", "name", "string"));
        let second = cx.ask(elicitation("How old are you?", "age", "integer"));
        match tokio::join!(first, second) {
            (Ok(_), Ok(_)) => said("Thank you for both."),
            _ => End::Finished(Outcome::tool_error("An answer is missing.")),
        }
    })
}

fn elicitation(message: &str, property: &str, kind: &str) -> Json {
    Json::from(json!({
        "method": "elicitation/create",
        "params": {
            "mode": "form",
            "message": message,
            "requestedSchema": {
                "type": "object",
                "properties": {property: {"type": kind}},
                "required": [property],
            },
        },
    }))
}

fn said(text: &str) -> End {
    End::Finished(Outcome::result(text_result(text, false)))
}

fn value(json: &Json) -> Value {
    serde_json::from_str(json.as_str()).unwrap_or_default()
}

fn member(arguments: &Json, name: &str) -> String {
    value(arguments)[name].as_str().unwrap_or_default().to_owned()
}
