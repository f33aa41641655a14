//! Tools whose calls may become tasks.

use longhaul::{
    ElicitResult, Error, NoArguments, RequestContext, TaskContext, TaskPolicy, Tool, ToolResult, schemars::JsonSchema,
    time::seconds,
};
use serde::{Deserialize, Serialize};
use std::{future::IntoFuture, time::Duration};

pub(crate) fn tools() -> Vec<Tool> {
    vec![
        Tool::new("greet", async |args: Greet| format!("Hello, {}!", args.name))
            .description("Greets someone by name")
            .task(TaskPolicy::Never),
        Tool::new("slow_compute", slow_compute).description("Sleeps for the given time"),
        Tool::new("failing_job", failing_job)
            .description("Fails after a second")
            .task(TaskPolicy::Always),
        Tool::new("protocol_error_job", protocol_error_job).description("Ends in a JSON-RPC error"),
        Tool::new("confirm_delete", confirm_delete).description("Deletes a file, if someone agrees"),
        Tool::new("multi_input", multi_input).description("Asks two things at once"),
        Tool::new("test_tool_with_task", async |args: Registration| {
            format!("Registered {}.", args.name)
        })
        .description("Asks for a name, and becomes a task when it has one")
        .ask_before(ask_name)
        .task(TaskPolicy::Always),
    ]
}

#[derive(Deserialize, JsonSchema)]
struct Greet {
    /// Who to greet.
    name: String,
}

#[derive(Deserialize, JsonSchema)]
struct Compute {
    /// For how long.
    #[schemars(range(min = 0, max = 3600))]
    seconds: f64,
    /// Returned with the result.
    label: String,
}

async fn slow_compute(cx: TaskContext, args: Compute) -> ToolResult<String> {
    cx.sleep(Duration::from_secs_f64(args.seconds)).await?;
    Ok(format!("Computed {} in {} s", args.label, args.seconds))
}

async fn failing_job(cx: TaskContext) -> ToolResult<()> {
    cx.sleep(seconds(1)).await?;
    Err(Error::new("The job failed, as it always does."))
}

async fn protocol_error_job() -> ToolResult<()> {
    Err(Error::server_fault("The job broke"))
}

#[derive(Deserialize, JsonSchema)]
struct Delete {
    /// Which file.
    filename: String,
}

#[derive(Deserialize, JsonSchema)]
struct Confirmation {
    /// Whether to delete it.
    confirm: bool,
}

async fn confirm_delete(cx: TaskContext, args: Delete) -> ToolResult<String> {
    let question = format!("Delete {}?", args.filename);
    Ok(match cx.elicit::<Confirmation>(question).answer().await? {
        ElicitResult::Accepted(Confirmation { confirm: true }) => format!("Deleted {}.", args.filename),
        _ => format!("Kept {}.", args.filename),
    })
}

/// The suite answers every question here with a confirmation.
async fn multi_input(cx: TaskContext) -> ToolResult<String> {
    let file = cx.elicit::<Confirmation>("Delete the file?").into_future();
    let backup = cx.elicit::<Confirmation>("Delete its backup too?").into_future();
    let (file, backup) = tokio::join!(file, backup);
    Ok(format!("File: {}, backup: {}.", file?.confirm, backup?.confirm))
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Registration {
    name: String,
}

async fn ask_name(cx: RequestContext, _: NoArguments) -> Result<Registration, Error> {
    Ok(cx.elicit("What is your name?").key("user_name").await?)
}
