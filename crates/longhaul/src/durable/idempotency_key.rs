//! Idempotency keys.

use crate::TaskContext;
use std::fmt::Display;

impl TaskContext {
    /// An idempotency key for an effect: the same in every attempt of this task, and different in every other task and branch. Each effect
    /// needs a `name` of its own: in a loop, put the loop variable into it.
    ///
    /// ```
    /// # async fn f(cx: longhaul::TaskContext) -> longhaul::ToolResult<()> {
    /// for page in 1..=3 {
    ///     let key = cx.idempotency_key(format!("print-{page}"));
    ///     cx.step("print", || print(page, &key)).max_attempts(3).idempotency_key(&*key).await?;
    /// }
    /// # Ok(()) }
    /// # async fn print(_: u32, _: &str) -> Result<(), std::io::Error> { Ok(()) }
    /// ```
    pub fn idempotency_key(&self, name: impl Display) -> String {
        // A branch's path has no colon, so no two of them make the same key.
        format!("{}:{}:{name}", self.task_id(), self.journal().branch())
    }
}
