//! Output before the end.

use crate::{Content, TaskContext};
use longhaul_core::Json;
use longhaul_runtime::JournalError;
use serde_json::json;

impl TaskContext {
    /// Gives out a text, or another block of content, before the end: it is appended to the task's output, once, however often the
    /// function is run. Its owner reads that as the resource `longhaul://task/{id}/output`, while the task goes on and after its end. A text becomes the status message as well.
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
