//! The tools of a server.

use crate::{Connection, RequestError, ServerChange, output_schema::OutputSchema};
use longhaul_wire::{Method, ParamHeaders};
use serde_json::Value;
use std::sync::Arc;

/// A tool of a server.
#[derive(Debug, Clone)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// Its description; empty if it has none.
    pub description: String,
    /// The JSON Schema of its arguments.
    pub input_schema: Value,
    /// The JSON Schema of `structuredContent` in its results, if it has any.
    pub output_schema: Option<Value>,
    /// The display name, if it has one.
    pub title: Option<String>,
    /// Whether a legacy server allows calls of it as tasks. A modern server decides that for each call.
    pub task_support: TaskSupport,
    pub(crate) param_headers: Arc<ParamHeaders>,
    pub(crate) output: Option<OutputSchema>,
}

/// `execution.taskSupport` of a legacy tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TaskSupport {
    /// No call is a task.
    #[default]
    Forbidden,
    /// The caller chooses.
    Optional,
    /// Every call is a task.
    Required,
}

impl Connection {
    /// Lists all tools. A modern tool with invalid header annotations is left out, as the protocol requires.
    ///
    /// # Errors
    /// Any [`RequestError`]; [`RequestError::Invalid`] also for an endless list.
    pub async fn list_tools(&self) -> Result<Vec<Tool>, RequestError> {
        let listed = self.list(Method::ToolsList, "tools").await?;
        let modern = self.era().await?.legacy().is_none();
        Ok(listed.into_iter().filter_map(|tool| read_tool(tool, modern)).collect())
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

fn read_tool(mut tool: Value, modern: bool) -> Option<Tool> {
    let Some(Value::String(name)) = tool.get_mut("name").map(Value::take) else {
        tracing::warn!("ignored a tool without a name");
        return None;
    };
    let input_schema = tool.get_mut("inputSchema").map(Value::take).unwrap_or_default();
    let param_headers = if modern {
        ParamHeaders::of(&input_schema)
    } else {
        Ok(ParamHeaders::default())
    };
    let param_headers = param_headers
        .map_err(|error| tracing::warn!(tool = name, %error, "ignored a tool with an invalid x-mcp-header"))
        .ok()?;
    let output_schema = tool
        .get_mut("outputSchema")
        .map(Value::take)
        .filter(|schema| !schema.is_null());
    Some(Tool {
        output: output_schema.clone().map(OutputSchema::new),
        name,
        description: tool["description"].as_str().unwrap_or_default().to_owned(),
        input_schema,
        output_schema,
        title: tool["title"].as_str().map(str::to_owned),
        task_support: match tool["execution"]["taskSupport"].as_str() {
            Some("optional") => TaskSupport::Optional,
            Some("required") => TaskSupport::Required,
            _ => TaskSupport::Forbidden,
        },
        param_headers: Arc::new(param_headers),
    })
}
