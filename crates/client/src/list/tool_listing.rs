//! Listing the tools of a server.

use crate::{
    Connection, RequestError, ServerChange, Tool, UnusableTool,
    offer::{
        response_cache::{Key, Lookup},
        tools::{ToolList, read_tool},
    },
};
use futures_util::TryStreamExt as _;
use longhaul_wire::Method;
use serde_json::Map;
use std::pin::pin;

impl Connection {
    /// Lists all tools. A modern tool with invalid header annotations is left out, as the protocol requires: it is one of the
    /// [unusable tools](Self::unusable_tools) then.
    ///
    /// # Errors
    /// Any [`RequestError`]; [`RequestError::Invalid`] also for an endless list.
    pub async fn list_tools(&self) -> Result<Vec<Tool>, RequestError> {
        match self.list_readable_tools().await {
            (tools, None) => Ok(tools),
            (_, Some(error)) => Err(error),
        }
    }

    /// The tools on the pages of the list up to one that cannot be read, and why that one cannot. They can be called.
    ///
    /// ```no_run
    /// # async fn example(connection: longhaul_client::Connection) {
    /// let (tools, error) = connection.list_readable_tools().await;
    /// println!("{} tools", tools.len());
    /// if let Some(error) = error {
    ///     eprintln!("there may be more: {error}");
    /// }
    /// # }
    /// ```
    pub async fn list_readable_tools(&self) -> (Vec<Tool>, Option<RequestError>) {
        let changes = self.cache().changes();
        let (mut tools, mut unusable, mut modern) = (Vec::new(), Vec::new(), None);
        let mut listed = pin!(self.entries(Method::ToolsList, "tools"));
        let failed = loop {
            let tool = match listed.try_next().await {
                Ok(Some(tool)) => tool,
                Ok(None) => break None,
                Err(error) => break Some(error),
            };
            let modern = match modern {
                Some(modern) => modern,
                None => match self.era().await {
                    Ok(era) => *modern.insert(era.legacy().is_none()),
                    Err(error) => break Some(error),
                },
            };
            match read_tool(tool, modern) {
                Ok(tool) => tools.push(tool),
                Err(tool) => unusable.push(tool),
            }
        };
        if failed.is_none() || !tools.is_empty() {
            self.tools().note(ToolList {
                tools: tools.clone().into(),
                unusable: unusable.into(),
                changes,
                has_ttl: self.has_cached_tools(),
            });
        }
        (tools, failed)
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
        self.tools().unusable()
    }

    /// The tool of this name. The tools are listed again if it is not among those listed before, if the server has said that they have changed, and when the
    /// time is over for which it allowed the list to be used. It may also be on a page before one that cannot be read.
    ///
    /// # Errors
    /// As [`list_tools`](Self::list_tools), if it is not found before.
    pub async fn tool(&self, name: &str) -> Result<Option<Tool>, RequestError> {
        let find = |tools: Vec<Tool>| tools.into_iter().find(|tool| tool.name == name);
        let is_valid =
            |list: &ToolList| list.changes == self.cache().changes() && (!list.has_ttl || self.has_cached_tools());
        match self.tools().find(name, is_valid) {
            Some(tool) => Ok(Some(tool)),
            None => match self.list_readable_tools().await {
                (tools, None) => Ok(find(tools)),
                (tools, Some(error)) => find(tools).map(Some).ok_or(error),
            },
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
    /// The tool as it is listed now, if the headers of its calls are others than `stale` says.
    pub(crate) async fn with_other_headers(&self, stale: &Tool) -> Result<Option<Tool>, RequestError> {
        self.changed(ServerChange::Tools);
        let tools = self.list_tools().await?;
        let mut tools = tools.into_iter();
        Ok(tools.find(|tool| tool.name == stale.name && tool.param_headers != stale.param_headers))
    }
}
