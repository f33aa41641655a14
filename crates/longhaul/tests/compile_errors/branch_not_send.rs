//! A branch holds a value across an await that is not `Send`.

use longhaul::{TaskContext, Tool, ToolResult};
use std::{future::ready, rc::Rc};

async fn count(_: TaskContext) -> u32 {
    let counter = Rc::new(1);
    ready(()).await;
    *counter
}

async fn name(_: TaskContext) -> String {
    String::new()
}

async fn both(cx: TaskContext) -> ToolResult<String> {
    let (count, name) = cx.join((count, name)).await?;
    Ok(format!("{name}: {count}"))
}

async fn first(cx: TaskContext) -> ToolResult<String> {
    let (_, count) = cx.select([count, count]).await?;
    Ok(format!("{count}"))
}

fn main() {
    Tool::durable("both", both);
    Tool::durable("first", first);
}
