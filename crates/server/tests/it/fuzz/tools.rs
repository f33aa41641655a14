//! Tools that echo their input, byte for byte.

use super::offers;
use longhaul_command::in_process::{self, function};
use longhaul_core::{Json, Outcome, RpcFailure, TaskPolicy};
use longhaul_runtime::{Catalog, ExecutionEnd, Executor, TaskContext, Tool, ToolSettings};
use serde_json::json;
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

/// One for each policy.
pub(super) const TOOLS: [(&str, TaskPolicy); 4] = [
    ("never", TaskPolicy::Never),
    ("optional", TaskPolicy::Optional),
    ("always", TaskPolicy::Always),
    ("after", TaskPolicy::After(1_000)),
];

/// The actions of a tool.
pub(super) const ACTS: [&str; 5] = ["echo", "ask", "wait", "tell", "fail"];

/// The message of a call that fails on request.
pub(super) const PLANNED: &str = "as planned";

/// All that is offered; each run of a tool is counted when it starts.
pub(super) fn catalog(started: &Arc<AtomicUsize>) -> Catalog {
    let catalog =
        Catalog::new(TOOLS.map(|(name, policy)| Tool::new(settings(name, policy, started)).unwrap())).unwrap();
    offers::put_into(&catalog);
    catalog
}

fn settings(name: &str, policy: TaskPolicy, started: &Arc<AtomicUsize>) -> ToolSettings {
    ToolSettings {
        description: "Gives back what it was given".to_owned(),
        input_schema: json!({"type": "object", "properties": {"act": {"enum": ACTS}}, "required": ["act"]}),
        policy,
        ..ToolSettings::new(name, in_process::KIND, Json::trusted("{}"), executor(started))
    }
}

fn executor(started: &Arc<AtomicUsize>) -> Arc<dyn Executor> {
    let started = Arc::clone(started);
    function(move |arguments, cx| {
        started.fetch_add(1, Ordering::Relaxed);
        act(arguments, cx)
    })
}

async fn act(arguments: Json, cx: TaskContext) -> ExecutionEnd {
    let value: serde_json::Value = serde_json::from_str(arguments.as_str()).unwrap();
    match value["act"].as_str().unwrap() {
        "ask" => match cx.ask(question(&arguments)).await {
            Ok(answer) => echo(&answer),
            Err(error) => ExecutionEnd::Finished(Outcome::tool_error(&error.to_string())),
        },
        "wait" => match cx.ports().within(Duration::from_secs(24 * 3_600), cx.stopped()).await {
            Some(reason) => ExecutionEnd::Stopped(reason),
            None => echo(&arguments),
        },
        "tell" => {
            for step in 1..4 {
                cx.status(format!("step {step}"));
                cx.progress(f64::from(step), Some(3.0));
                cx.ports().clock.sleep(Duration::from_secs(1)).await;
            }
            echo(&arguments)
        }
        "fail" => ExecutionEnd::Finished(Outcome::RpcError(RpcFailure {
            code: -31_000,
            message: PLANNED.into(),
            data: Some(arguments),
        })),
        _ => echo(&arguments),
    }
}

fn echo(given: &Json) -> ExecutionEnd {
    ExecutionEnd::Finished(Outcome::result(Json::trusted(format!(
        r#"{{"content":[],"structuredContent":{{"given":{}}}}}"#,
        given.as_str()
    ))))
}

/// A question with what the asker was given in a member that no client knows.
fn question(given: &Json) -> Json {
    Json::trusted(format!(
        r#"{{"method":"elicitation/create","params":{{"mode":"form","message":"Sure?","requestedSchema":{{"type":"object","properties":{{}}}},"x-given":{}}}}}"#,
        given.as_str()
    ))
}
