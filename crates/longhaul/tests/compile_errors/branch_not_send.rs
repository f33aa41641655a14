//! A branch holds a value across an await that is not `Send`.

use longhaul::{TaskContext, Tool, ToolResult};
use std::{future::ready, rc::Rc};

async fn both(cx: TaskContext) -> ToolResult<String> {
    let count = async |_: TaskContext| {
        let counter = Rc::new(1);
        ready(()).await;
        *counter
    };
    let (counted, ()) = cx.join((count, async |_: TaskContext| ())).await?;
    Ok(format!("{counted}"))
}

fn main() {
    Tool::durable("both", both);
}
