//! A poll holds a lock across an await.

use longhaul::{Poll, StepError, TaskContext, Tool, ToolResult};
use std::{future::ready, sync::Mutex};

async fn survey(cx: TaskContext) -> ToolResult<String> {
    let polled = cx.poll_until("lock", async || {
        let mutex = Mutex::new(1);
        let guard = mutex.lock().unwrap();
        ready(()).await;
        Ok::<_, StepError>(Poll::Ready(*guard))
    });
    Ok(format!("{}", polled.await?))
}

fn main() {
    Tool::durable("survey", survey);
}
