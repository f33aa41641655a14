//! Output before the end of a task.

use crate::{Content, TaskContext};
use longhaul_core::Json;
use longhaul_runtime::JournalError;
use serde_json::json;

impl TaskContext {
    /// Appends a text, or another content block, to the task's output, once, also if the function is replayed. The caller can read the output
    /// as the resource `longhaul://task/{id}/output`, while the task runs and after it. A text also becomes the status message.
    ///
    /// ```
    /// # async fn f(cx: longhaul::TaskContext) -> longhaul::ToolResult<()> {
    /// for chapter in 1..=3 {
    ///     cx.emit(format!("chapter {chapter} is done")).await?;
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`JournalError`]; in a tool that is not [durable](crate::Tool::durable), [`JournalError::None`].
    pub async fn emit(&self, content: impl Into<Content>) -> Result<(), JournalError> {
        let content = content.into();
        if let Some(line) = content.as_text() {
            self.status(line);
        }
        self.journal().emit(Json::from(json!(content))).await
    }
}
