//! The work of a step returns no `Result`.

use longhaul::{TaskContext, Tool, ToolResult};

async fn count(cx: TaskContext) -> ToolResult<String> {
    let seats = cx.step("count", async || 42).await?;
    Ok(format!("{seats} seats"))
}

fn main() {
    Tool::durable("count", count);
}
