//! A tool's function holds a value across an await that is not `Send`.

use longhaul::{TaskContext, Tool};
use std::{rc::Rc, time::Duration};

async fn count(cx: TaskContext) -> String {
    let counter = Rc::new(1);
    let _ = cx.sleep(Duration::from_millis(1)).await;
    counter.to_string()
}

fn main() {
    Tool::new("count", count);
}
