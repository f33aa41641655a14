//! Changing which tools are offered while the engine runs.

use crate::{Engine, Tool, blocked};
use longhaul_core::store::StoreError;
use std::sync::Arc;

impl Engine {
    /// Offers a tool, in the place of one of the same name. Its tasks may outlive it, so its definition is written first.
    ///
    /// # Errors
    /// The store's; the tool is not offered then.
    pub async fn put_tool(&self, tool: Tool) -> Result<(), StoreError> {
        self.0.node.store.put_spec(tool.spec().clone()).await?;
        let name = Arc::clone(tool.name());
        self.0.node.store.put_limit(&name, tool.settings().concurrency).await?;
        self.0.catalog.put_tool(tool);
        self.0
            .node
            .spawn(blocked::try_changed_code(Arc::clone(&self.0), Some(name)));
        Ok(())
    }

    /// Offers a tool no longer; says whether there was one. Its tasks go on.
    pub fn remove_tool(&self, name: &str) -> bool {
        if let Some(tool) = self.0.catalog.tool(name) {
            let settings = tool.settings();
            // Before it is gone, so that no slot is given in between without a limit.
            match settings.concurrency {
                Some(most) => self.0.last_limits().insert(Arc::clone(&settings.name), most),
                None => self.0.last_limits().remove(&settings.name),
            };
        }
        self.0.catalog.remove_tool(name)
    }
}
