//! By what the other side knows an effect.

use crate::TaskContext;
use std::fmt::Display;

impl TaskContext {
    /// A key for an effect, for the other side to tell a repetition by: the same in every attempt of this task, and in no other task or
    /// branch. `name` must be another for each effect: in a loop it has the loop's variable in it.
    ///
    /// ```
    /// # async fn f(cx: longhaul::TaskContext) -> longhaul::ToolResult<()> {
    /// for page in 1..=3 {
    ///     let key = cx.key(format!("print-{page}"));
    ///     cx.step("print", || print(page, &key)).max_attempts(3).idempotency_key(&*key).await?;
    /// }
    /// # Ok(()) }
    /// # async fn print(_: u32, _: &str) -> Result<(), std::io::Error> { Ok(()) }
    /// ```
    pub fn key(&self, name: impl Display) -> String {
        // A branch's path has no colon, so no two of them make the same key.
        format!("{}:{}:{name}", self.task_id(), self.journal().branch())
    }
}
