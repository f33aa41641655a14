//! The server that Longhaul is measured with: cheap functions, on SQLite.
//!
//! `bench --listen ADDR --data-dir DIR`. Tools: `add{a,b}` → their sum as text, `blob{n}` → n bytes of text, `sleep{ms}` → the
//! moment it ended, in unix nanoseconds; each call of these is a task. `plain_add{a,b}` is never one. No slot limit, no quota: what
//! the peers of docs/performance.md were measured with.

mod support;

use longhaul_command::in_process::function;
use longhaul_core::{Json, Outcome, TaskPolicy, text_result};
use longhaul_runtime::{ExecutionEnd, Executor, TaskContext, Tool, ToolError};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

const MOST_BYTES: u64 = 16 << 20;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    support::run(|| {
        Ok(vec![
            always("add", numbers(), add())?,
            always(
                "blob",
                json!({"n": {"type": "integer", "minimum": 0, "maximum": MOST_BYTES}}),
                blob(),
            )?,
            always("sleep", json!({"ms": {"type": "integer", "minimum": 0}}), sleep())?,
            tool("plain_add", TaskPolicy::Never, numbers(), add())?,
        ])
    })
}

fn always(name: &str, properties: Value, executor: Arc<dyn Executor>) -> Result<Tool, ToolError> {
    tool(name, TaskPolicy::Always, properties, executor)
}

fn tool(name: &str, policy: TaskPolicy, properties: Value, executor: Arc<dyn Executor>) -> Result<Tool, ToolError> {
    Tool::new(support::settings(name, "Measured", policy, properties, executor))
}

fn numbers() -> Value {
    json!({"a": {"type": "number"}, "b": {"type": "number"}})
}

fn add() -> Arc<dyn Executor> {
    function(|arguments, _| async move {
        let arguments = value(&arguments);
        let sum = arguments["a"].as_f64().unwrap_or_default() + arguments["b"].as_f64().unwrap_or_default();
        finished_with(&sum.to_string())
    })
}

fn blob() -> Arc<dyn Executor> {
    function(|arguments, _| async move {
        let bytes = value(&arguments)["n"].as_u64().unwrap_or_default().min(MOST_BYTES);
        finished_with(&"x".repeat(bytes as usize))
    })
}

fn sleep() -> Arc<dyn Executor> {
    function(|arguments, cx: TaskContext| async move {
        let millis = value(&arguments)["ms"].as_u64().unwrap_or_default();
        tokio::select! {
            () = cx.ports().clock.sleep(Duration::from_millis(millis)) => finished_with(&unix_nanos().to_string()),
            reason = cx.stopped() => ExecutionEnd::Stopped(reason),
        }
    })
}

#[expect(
    clippy::disallowed_methods,
    reason = "measured from outside, against the measurer's clock"
)]
fn unix_nanos() -> u128 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default()
        .as_nanos()
}

fn finished_with(text: &str) -> ExecutionEnd {
    ExecutionEnd::Finished(Outcome::result(text_result(text, false)))
}

fn value(json: &Json) -> Value {
    serde_json::from_str(json.as_str()).unwrap_or_default()
}
