//! The tools of a server.

use crate::{Connection, RequestError, era::Era};
use longhaul_wire::{Method, ParamHeaders};
use serde_json::{Map, Value};
use std::sync::Arc;

/// A longer list is refused as endless.
const MAX_PAGES: usize = 10_000;

/// A tool of a server.
#[derive(Debug, Clone)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// Its description; empty if it has none.
    pub description: String,
    /// The JSON Schema of its arguments.
    pub input_schema: Value,
    /// Whether a legacy server allows calls of it as tasks. A modern server decides that for each call.
    pub task_support: TaskSupport,
    pub(crate) param_headers: Arc<ParamHeaders>,
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
        let mut tools = Vec::new();
        let mut cursor: Option<String> = None;
        for _ in 0..MAX_PAGES {
            let params = cursor
                .iter()
                .map(|cursor| ("cursor".to_owned(), cursor.as_str().into()))
                .collect();
            let page = self.request(Method::ToolsList, params).await?;
            let modern = matches!(*self.era().await?, Era::Modern);
            let mut page: Map<String, Value> = serde_json::from_str(page.as_str())
                .map_err(|error| RequestError::Invalid(format!("its tool list: {error}")))?;
            let Some(Value::Array(listed)) = page.remove("tools") else {
                return Err(RequestError::Invalid("its tool list has no `tools`".to_owned()));
            };
            tools.extend(listed.into_iter().filter_map(|tool| read_tool(tool, modern)));
            match page.remove("nextCursor") {
                // An empty string is a valid cursor (U-07).
                Some(Value::String(next)) if cursor.as_ref() != Some(&next) => cursor = Some(next),
                Some(Value::String(_)) => {
                    return Err(RequestError::Invalid("its tool list repeats a cursor".to_owned()));
                }
                _ => return Ok(tools),
            }
        }
        Err(RequestError::Invalid("its tool list does not end".to_owned()))
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
    Some(Tool {
        name,
        description: tool["description"].as_str().unwrap_or_default().to_owned(),
        input_schema,
        task_support: match tool["execution"]["taskSupport"].as_str() {
            Some("optional") => TaskSupport::Optional,
            Some("required") => TaskSupport::Required,
            _ => TaskSupport::Forbidden,
        },
        param_headers: Arc::new(param_headers),
    })
}
