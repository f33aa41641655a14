//! Tools that report to the client while they run.

use longhaul::{Error, LogLevel, TaskContext, Tool, ToolResult, time::millis};

pub(crate) fn tools() -> Vec<Tool> {
    vec![
        Tool::new("test_tool_with_progress", progress).description("Reports progress"),
        Tool::new("test_tool_with_logging", logging).description("Logs what it does"),
        Tool::new("test_logging_tool", logging).description("Logs what it does, at the level that the client has set"),
        Tool::new("test_reconnection", reconnection)
            .description("Reports nothing for a while, so that the stream may be closed"),
    ]
}

async fn progress(cx: TaskContext) -> ToolResult<&'static str> {
    for done in [0, 50, 100] {
        cx.progress(done, 100).await?;
        cx.sleep(millis(50)).await?;
    }
    Ok("Done in three steps.")
}

async fn logging(cx: TaskContext) -> ToolResult<&'static str> {
    for line in [
        "Tool execution started",
        "Tool processing data",
        "Tool execution completed",
    ] {
        cx.log(LogLevel::Info, line).await?;
        cx.sleep(millis(50)).await?;
    }
    Ok("Logged three lines.")
}

async fn reconnection(cx: TaskContext) -> Result<&'static str, Error> {
    cx.close_stream().await?;
    cx.sleep(millis(500)).await?;
    Ok("The stream was closed meanwhile, and the result was delivered after all.")
}
