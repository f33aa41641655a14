//! Changing which tools are offered while the engine runs.

use super::{Engine, Inner, changed_code};
use crate::catalog::Tool;
use longhaul_core::store::StoreError;
use std::sync::Arc;

/// Lets tasks into their groups whose limit has changed. A node that stops before it is done does so at its next start.
async fn fill_groups(inner: Arc<Inner>) {
    let fill = || async { Ok(inner.node.store.fill_groups().await?) };
    let _ = inner.node.retry_store("letting tasks into their groups", fill).await;
}

impl Engine {
    /// Adds a tool, or replaces the one of the same name. Its definition is stored first, since its tasks may outlive it.
    ///
    /// # Errors
    /// The store's; the tool is not offered then.
    pub async fn put_tool(&self, tool: Tool) -> Result<(), StoreError> {
        self.0.node.store.put_spec(tool.spec().clone()).await?;
        let name = Arc::clone(tool.name());
        let (concurrency, per_group) = tool.limits();
        self.0.node.store.put_limit(&name, concurrency, per_group).await?;
        let before = self.0.catalog.tool(&name).and_then(|before| before.limits().1);
        self.0.catalog.put_tool(tool);
        if before != per_group {
            self.0.node.spawn(fill_groups(Arc::clone(&self.0)));
        }
        // Its tasks may have waited for a node that has it, or for the rate that it had.
        self.0.node.queues.look_again_at(&name);
        self.0
            .node
            .spawn(changed_code::try_changed_code(Arc::clone(&self.0), Some(name)));
        Ok(())
    }

    /// Removes a tool; returns whether there was one. Tasks of it that run go on. So do queued ones, unless many nodes share the store: then they wait
    /// for a node that has the tool.
    pub fn remove_tool(&self, name: &str) -> bool {
        if let Some(tool) = self.0.catalog.tool(name) {
            let settings = tool.settings();
            let upstream = settings.executor.upstream().map(Arc::from);
            self.0.note_former_upstream(&settings.name, upstream);
            // Before it is removed, so that no slot is given without a limit in between.
            match settings.concurrency {
                Some(most) => self.0.last_limits().insert(Arc::clone(&settings.name), most),
                None => self.0.last_limits().remove(&settings.name),
            };
        }
        let was_there = self.0.catalog.remove_tool(name);
        self.0.node.queues.look_again_at(name);
        was_there
    }
}
