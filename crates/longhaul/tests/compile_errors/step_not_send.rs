//! The work of a step holds a value across an await that is not `Send`.

use longhaul::{StepError, TaskContext, Tool, ToolResult};
use std::{future::ready, rc::Rc};

async fn count() -> Result<u32, StepError> {
    let counter = Rc::new(1);
    ready(()).await;
    Ok(*counter)
}

async fn survey(cx: TaskContext) -> ToolResult<String> {
    let count = cx.step("count", count).await?;
    Ok(format!("{count}"))
}

fn main() {
    Tool::durable("survey", survey);
}
