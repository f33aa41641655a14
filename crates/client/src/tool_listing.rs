//! Listing the tools of a server.

use crate::{
    Connection, RequestError, ServerChange, Tool, UnusableTool,
    response_cache::{Key, Lookup},
    tools::{ToolList, read_tool},
};
use longhaul_wire::Method;
use serde_json::Map;

impl Connection {
    /// Lists all tools. A modern tool with invalid header annotations is left out, as the protocol requires: it is one of the
    /// [unusable tools](Self::unusable_tools) then.
    ///
    /// # Errors
    /// Any [`RequestError`]; [`RequestError::Invalid`] also for an endless list.
    pub async fn list_tools(&self) -> Result<Vec<Tool>, RequestError> {
        let changes = self.cache().changes();
        let listed = self.list(Method::ToolsList, "tools").await?;
        let modern = self.era().await?.legacy().is_none();
        let (mut tools, mut unusable) = (Vec::with_capacity(listed.len()), Vec::new());
        for tool in listed {
            match read_tool(tool, modern) {
                Ok(tool) => tools.push(tool),
                Err(tool) => unusable.push(tool),
            }
        }
        let has_ttl = self.has_cached_tools();
        let list = ToolList {
            tools: tools.clone().into(),
            unusable: unusable.into(),
            changes,
            has_ttl,
        };
        *self.tools().lock() = Some(list);
        Ok(tools)
    }

    /// The tools that the last list has left out. Nothing is requested.
    ///
    /// ```no_run
    /// # async fn example(connection: longhaul_client::Connection) -> Result<(), longhaul_client::RequestError> {
    /// let tools = connection.list_tools().await?;
    /// for tool in connection.unusable_tools() {
    ///     eprintln!("{}: {}", tool.name, tool.reason);
    /// }
    /// # Ok(()) }
    /// ```
    pub fn unusable_tools(&self) -> Vec<UnusableTool> {
        let listed = self.tools().lock();
        listed.as_ref().map_or_else(Vec::new, |listed| listed.unusable.to_vec())
    }

    /// The tool of this name. The tools are listed again if it is not among those listed before, if the server has said that they have changed, and when the
    /// time is over for which it allowed the list to be used.
    ///
    /// # Errors
    /// As [`list_tools`](Self::list_tools).
    pub async fn tool(&self, name: &str) -> Result<Option<Tool>, RequestError> {
        let find = |tools: &[Tool]| tools.iter().find(|tool| tool.name == name).cloned();
        let listed = self.tools().lock().as_ref().and_then(|list| {
            let is_valid = list.changes == self.cache().changes() && (!list.has_ttl || self.has_cached_tools());
            is_valid.then(|| find(&list.tools)).flatten()
        });
        match listed {
            Some(tool) => Ok(Some(tool)),
            None => Ok(find(&self.list_tools().await?)),
        }
    }

    /// Whether the server allows its list to be used now.
    fn has_cached_tools(&self) -> bool {
        let key = Key::of(Method::ToolsList.as_str(), &Map::new());
        let now = self.options().clock.monotonic();
        key.is_some_and(|key| matches!(self.cache().get(&key, now), Lookup::Found(_)))
    }
}

impl Connection {
    /// The tool as it is listed now, if the headers of its calls are others than `stale` says (T-31).
    pub(crate) async fn with_other_headers(&self, stale: &Tool) -> Result<Option<Tool>, RequestError> {
        self.changed(ServerChange::Tools);
        let tools = self.list_tools().await?;
        let mut tools = tools.into_iter();
        Ok(tools.find(|tool| tool.name == stale.name && tool.param_headers != stale.param_headers))
    }
}
