//! The tools of a server.

use crate::offer::output_schema::OutputSchema;
use longhaul_wire::ParamHeaders;
use parking_lot::Mutex;
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
    /// Whether the server says that another run of the same call changes nothing.
    pub(crate) is_repeatable: bool,
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

/// A tool of a server that cannot be called.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnusableTool {
    /// Its name.
    pub name: String,
    /// Why, for people.
    pub reason: String,
}

/// The tools as they were last listed.
pub(crate) struct ToolList {
    pub(crate) tools: Arc<[Tool]>,
    pub(crate) unusable: Arc<[UnusableTool]>,
    /// How often the server's lists had changed before.
    pub(crate) changes: u64,
    /// Whether the server has said for how long it may be used. If not, it may be used until it changes.
    pub(crate) has_ttl: bool,
}

/// The tools of a connection, once they were listed.
#[derive(Default)]
pub(crate) struct ListedTools(Mutex<Option<ToolList>>);

impl ListedTools {
    pub(crate) fn note(&self, list: ToolList) {
        *self.0.lock() = Some(list);
    }

    /// The tools that the last list has left out.
    pub(crate) fn unusable(&self) -> Vec<UnusableTool> {
        let listed = self.0.lock();
        listed.as_ref().map_or_else(Vec::new, |listed| listed.unusable.to_vec())
    }

    /// The tool of this name, if the list is valid.
    pub(crate) fn find(&self, name: &str, is_valid: impl FnOnce(&ToolList) -> bool) -> Option<Tool> {
        let listed = self.0.lock();
        let list = listed.as_ref().filter(|list| is_valid(list))?;
        list.tools.iter().find(|tool| tool.name == name).cloned()
    }
}

/// Reads a tool of a list.
pub(crate) fn read_tool(mut tool: Value, modern: bool) -> Result<Tool, UnusableTool> {
    let Some(Value::String(name)) = tool.get_mut("name").map(Value::take) else {
        tracing::warn!("ignored a tool without a name");
        return Err(UnusableTool {
            name: String::new(),
            reason: "it has no name".to_owned(),
        });
    };
    let input_schema = tool.get_mut("inputSchema").map(Value::take).unwrap_or_default();
    let param_headers = if modern {
        ParamHeaders::of(&input_schema)
    } else {
        Ok(ParamHeaders::default())
    };
    let param_headers = match param_headers {
        Ok(param_headers) => param_headers,
        Err(error) => {
            tracing::warn!(tool = name, %error, "ignored a tool with an invalid x-mcp-header");
            return Err(UnusableTool {
                name,
                reason: error.to_string(),
            });
        }
    };
    let output_schema = tool
        .get_mut("outputSchema")
        .map(Value::take)
        .filter(|schema| !schema.is_null());
    let hint = |name: &str| tool["annotations"][name] == true;
    Ok(Tool {
        is_repeatable: hint("readOnlyHint") || hint("idempotentHint"),
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
