//! A tool's closure holds a lock across an await.

use longhaul::{TaskContext, Tool};
use std::{sync::Mutex, time::Duration};

fn main() {
    Tool::durable("lock", async |cx: TaskContext| {
        let mutex = Mutex::new(1);
        let guard = mutex.lock().unwrap();
        let _ = cx.sleep(Duration::from_millis(1)).await;
        guard.to_string()
    });
}
